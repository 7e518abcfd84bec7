//! What the programs of Clearway have in common on the command line.

pub mod failure;
pub mod interrupt;
pub mod output;
pub mod whole_file;
