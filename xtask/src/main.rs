//! The project chores, run as `cargo xtask COMMAND`.

fn main() {}
