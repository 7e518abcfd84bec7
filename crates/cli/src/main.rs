//! The `clearway` program.

fn main() {}
