//! How this program was started, for commands that users can paste into a shell.

use std::ffi::OsString;
use std::path::Path;

use clearway_terminal::shell::word;

/// Returns the beginning of a command that runs the same program again: everything before the
/// name of the lab's command. If Cargo started the program, so does the command, so that it also
/// runs changed code.
pub(super) fn invocation() -> String {
    of(std::env::var("CARGO_PKG_NAME").ok().as_deref(), std::env::args_os().next())
}

/// Returns the invocation of a program that Cargo started for `package`, or that was started as
/// `program`.
fn of(package: Option<&str>, program: Option<OsString>) -> String {
    let release = if cfg!(debug_assertions) { "" } else { "--release " };
    match package {
        Some("clearway-lab-command") => format!("cargo run {release}-p clearway-lab-command --"),
        Some("clearway-cli") => format!("cargo run {release}-- lab"),
        _ => {
            let program = program.unwrap_or_else(|| "clearway".into());
            let is_lab = Path::new(&program).file_stem().is_some_and(|stem| stem == "clearway-lab");
            let lab = if is_lab { "" } else { " lab" };
            format!("{}{lab}", word(&program.to_string_lossy()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_command_runs_the_same_program() {
        let started_as = |program: &str| of(None, Some(program.into()));
        assert_eq!(started_as("clearway"), "clearway lab");
        assert_eq!(started_as("my programs/clearway"), "'my programs/clearway' lab");
        assert_eq!(started_as("target/debug/clearway-lab"), "target/debug/clearway-lab");
        assert_eq!(of(None, None), "clearway lab");
        // A program that another package's program starts.
        assert_eq!(of(Some("xtask"), Some("clearway".into())), "clearway lab");
        let by_cargo = |package| of(Some(package), Some("target/debug/any".into()));
        let release = if cfg!(debug_assertions) { "" } else { "--release " };
        let lab = format!("cargo run {release}-p clearway-lab-command --");
        assert_eq!(by_cargo("clearway-lab-command"), lab);
        assert_eq!(by_cargo("clearway-cli"), format!("cargo run {release}-- lab"));
    }
}
