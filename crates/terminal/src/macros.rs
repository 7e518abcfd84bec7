//! Macros that replace those of the standard library and escape the text that they print. A program
//! that begins with
//!
//! ```
//! #[macro_use(eprint, eprintln, print, println)]
//! extern crate clearway_terminal;
//! # fn main() { println!("a \u{1b}[2J name"); }
//! ```
//!
//! has no other print macros, so text from a peer, a file or another process cannot reach a
//! terminal unescaped.

/// Like the standard library's macro, except that foreign text is escaped, and that a closed pipe
/// is not an error.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), false, "") };
}

/// Like the standard library's macro, except that foreign text is escaped, and that a closed pipe
/// is not an error.
#[macro_export]
macro_rules! println {
    () => { $crate::output::print(::core::format_args!(""), false, "\n") };
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), false, "\n") };
}

/// Like the standard library's macro, except that foreign text is escaped, and that a closed pipe
/// is not an error.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), true, "") };
}

/// Like the standard library's macro, except that foreign text is escaped, and that a closed pipe
/// is not an error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::print(::core::format_args!(""), true, "\n") };
    ($($text:tt)*) => { $crate::output::print(::core::format_args!($($text)*), true, "\n") };
}
