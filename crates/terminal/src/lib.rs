//! Command-line code shared by Clearway's programs.

pub mod bars;
pub mod failure;
pub mod interrupt;
mod lines;
mod macros;
pub mod output;
pub mod shell;
mod system;
pub mod whole_file;

pub use clearway_units::foreign;
