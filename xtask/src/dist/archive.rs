//! The archive for one target: the program, its manual pages, and the licenses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;
use super::program::Program;
use crate::command::{self, root};

/// Files of the repository to include in each archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packs the archive for a program, and returns the archive's path.
pub(super) fn pack(release: &Release, program: &Program, pages: &Path) -> Result<PathBuf, String> {
    let name = release.name(program.triple);
    let parent = program.folder.join("archive");
    let _ = fs::remove_dir_all(&parent);
    let folder = parent.join(&name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = vec![program.path(), pages.join("completions")];
    if !program.is_for_windows() {
        files.extend([pages.join("man"), root().join("packaging/systemd")]);
    }
    files.extend(DOCUMENTS.map(|name| root().join(name)));
    let mut copy = Command::new("cp");
    copy.arg("--recursive").args(files).arg(&folder);
    command::output("copying the files of the archive", &mut copy)?;
    let path = release.out.join(format!("{name}.{}", suffix(program)));
    command::run(
        &format!("packing {}", path.display()),
        &mut packer(program, &parent, &name, &path),
    )?;
    Ok(path)
}

fn suffix(program: &Program) -> &'static str {
    if program.is_for_windows() { "zip" } else { "tar.gz" }
}

/// Returns the command that packs the folder `name` from `parent`.
fn packer(program: &Program, parent: &Path, name: &str, path: &Path) -> Command {
    let mut pack;
    if program.is_for_windows() {
        pack = Command::new("zip");
        pack.args(["--quiet", "--recurse-paths"]).arg(path);
    } else {
        pack = Command::new("tar");
        pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--gzip"]);
        pack.args(["--create", "--file"]).arg(path);
    }
    pack.arg(name).current_dir(parent);
    pack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_gets_a_zip() {
        let folder = PathBuf::new();
        let program = Program { triple: "x86_64-pc-windows-gnu", folder };
        assert_eq!(suffix(&program), "zip");
        assert!(program.path().ends_with("clearway.exe"));
        let command = packer(&program, Path::new("."), "name", Path::new("name.zip"));
        assert_eq!(command.get_program(), "zip");
    }
}
