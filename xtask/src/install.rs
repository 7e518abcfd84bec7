//! Installs compilers and standard libraries for other targets.

use std::process::{Command, Stdio};

use crate::command;

/// Installs the standard library for `target`, unless it is there.
pub(crate) fn standard_library(target: &str) -> Result<(), String> {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]).current_dir(command::root()).stderr(Stdio::null());
    command::output(&format!("installing the standard library for {target}"), &mut rustup)?;
    Ok(())
}

/// Installs Debian packages, unless `program` can be run.
pub(crate) fn debian(packages: &[&str], program: &str) -> Result<(), String> {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    install(packages)
}

/// Installs Debian packages.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends"]).args(packages);
    command::run(&format!("installing {}", packages.join(" ")), &mut apt)
        .map_err(|error| format!("{error}; install these packages as root"))
}
