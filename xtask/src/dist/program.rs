//! The program, built for one target.

use std::path::PathBuf;

use super::Release;
use crate::command::{self, cargo, target};
use crate::install;

/// A built program.
pub(super) struct Program {
    pub(super) triple: &'static str,
    /// The folder with the build products for the target and profile.
    pub(super) folder: PathBuf,
}

impl Program {
    /// Builds the program for a target, without debug information.
    pub(super) fn build(release: &Release, triple: &'static str) -> Result<Self, String> {
        let Release { profile, .. } = release;
        install::standard_library(triple)?;
        match triple {
            "x86_64-unknown-linux-musl" => install::debian(&["musl-tools"], "musl-gcc")?,
            "x86_64-pc-windows-gnu" => {
                install::debian(&["gcc-mingw-w64-x86-64"], "x86_64-w64-mingw32-gcc")?;
                install::debian(&["zip"], "zip")?;
            }
            _ => {}
        }
        let mut build = cargo(&["build", "--locked", "--package", "clearway-cli"]);
        build.args(["--target", triple, "--profile", profile]);
        build.args(["--config", &format!("profile.{profile}.strip=\"debuginfo\"")]);
        command::run(&format!("building for {triple} with the profile {profile}"), &mut build)?;
        Ok(Self { triple, folder: target().join(triple).join(profile) })
    }

    /// Returns the path of the program.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(if self.is_for_windows() { "clearway.exe" } else { "clearway" })
    }

    pub(super) fn is_for_windows(&self) -> bool {
        self.triple.contains("-windows-")
    }
}
