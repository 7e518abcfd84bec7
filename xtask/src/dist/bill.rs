//! The bill of materials (SBOM) in CycloneDX format: the crates from which the program is built.

use std::fs;
use std::process::Command;

use super::{Metadata, Release, TARGETS};
use crate::command::{self, root};

/// The version of cargo-cyclonedx to use.
const VERSION: &str = "0.5.9";
/// The suffix of the files that the tool writes next to the manifests of all workspace members.
const SUFFIX: &str = "_bin.cdx.json";

pub(super) fn write(release: &Release) -> Result<(), String> {
    let mut list = Command::new(command::tool_of_version("cargo-cyclonedx", VERSION)?);
    list.args(["cyclonedx", "--quiet", "--manifest-path", "crates/cli/Cargo.toml"]);
    list.args(["--format", "json", "--spec-version", "1.5", "--describe", "binaries"]);
    list.args(["--target", TARGETS[0], "--no-build-deps"]).current_dir(root());
    command::run("writing the bill of materials", &mut list)?;
    let written = root().join(format!("crates/cli/clearway{SUFFIX}"));
    let text = fs::read_to_string(&written);
    remove_all()?;
    let text = text.map_err(|error| format!("{}: {error}", written.display()))?;
    // Crates of the workspace are identified by their paths.
    let text = text.replace(&format!("file://{}/", root().display()), "file:///");
    let path = release.out.join(format!("clearway-{}.cdx.json", release.version));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes the tool's files from the workspace.
fn remove_all() -> Result<(), String> {
    for package in Metadata::read()?.packages {
        let folder = package.manifest_path.parent().map(fs::read_dir);
        for entry in folder.and_then(Result::ok).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
                let path = entry.path();
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    Ok(())
}
