//! The Debian package. `[package.metadata.deb]` in `crates/cli/Cargo.toml` lists its files.

use std::process::Command;

use super::{OF_DEBIAN, Release};
use crate::command::{self, root};

/// The version of cargo-deb to use.
const VERSION: &str = "3.8.0";

/// Packs the program and its manual pages, which must have been built.
pub(super) fn pack(release: &Release) -> Result<(), String> {
    let mut pack = Command::new(command::tool_of_version("cargo-deb", VERSION)?);
    pack.args(["--package", "clearway-cli", "--target", OF_DEBIAN, "--locked"]);
    pack.args(["--profile", &release.profile, "--no-build", "--no-strip", "--output"]);
    pack.arg(&release.out).current_dir(root());
    command::run("packing the Debian package", &mut pack)
}
