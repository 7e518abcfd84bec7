//! Macros with the names of the standard library's, which escape what they print. A program that begins with
//!
//! ```
//! #[macro_use(eprint, eprintln, print, println)]
//! extern crate clearway_terminal;
//! # fn main() { println!("a \u{1b}[2J name"); }
//! ```
//!
//! has no others: text of a peer, a file or another process cannot reach a terminal as it is.

/// As the standard library's, except that text of others is escaped, and a reader that is gone is not an error.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), false, "") };
}

/// As the standard library's, except that text of others is escaped, and a reader that is gone is not an error.
#[macro_export]
macro_rules! println {
    () => { $crate::output::print(::core::format_args!(""), false, "\n") };
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), false, "\n") };
}

/// As the standard library's, except that text of others is escaped, and a reader that is gone is not an error.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), true, "") };
}

/// As the standard library's, except that text of others is escaped, and a reader that is gone is not an error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::print(::core::format_args!(""), true, "\n") };
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), true, "\n") };
}
