//! The interop runner behind `cargo xtask interop`.

use std::process::ExitCode;

fn main() -> ExitCode {
    clearway_interop::main()
}
