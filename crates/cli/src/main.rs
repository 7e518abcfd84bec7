//! The `clearway` program.

fn main() -> std::process::ExitCode {
    clearway_cli::main()
}
