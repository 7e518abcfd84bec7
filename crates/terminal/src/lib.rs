//! What the programs of Clearway have in common on the command line.

pub mod bars;
pub mod failure;
pub mod foreign;
pub mod interrupt;
mod lines;
pub mod output;
pub mod whole_file;
