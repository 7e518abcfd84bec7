//! The SHA256SUMS file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command;

/// Writes the checksums of all files in `folder`, for `sha256sum --check`.
pub(super) fn write(folder: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    let sums =
        command::output("sha256sum", Command::new("sha256sum").args(names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums).map_err(failed)
}

/// Returns the checksum of a file.
pub(super) fn of(file: &Path) -> Result<String, String> {
    let line = command::output("sha256sum", Command::new("sha256sum").arg(file))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}
