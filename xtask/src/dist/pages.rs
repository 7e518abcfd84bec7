//! Manual pages and completion scripts, which the program itself generates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::Program;
use super::{TARGETS, target};
use crate::command;

/// The supported shells, with the file name that each expects for its script.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "clearway.bash"),
    ("zsh", "_clearway"),
    ("fish", "clearway.fish"),
    ("powershell", "_clearway.ps1"),
];

/// Writes the pages to the folder `pages` next to `program`, and returns this folder. If `program`
/// does not run on this machine, the program of the first target generates them.
pub(super) fn write(program: &Program) -> Result<PathBuf, String> {
    let writer = match program.is_for_windows() {
        true => {
            let profile = program.folder.file_name().unwrap_or_default();
            target().join(TARGETS[0]).join(profile).join("clearway")
        }
        false => program.path(),
    };
    let folder = program.folder.join("pages");
    let _ = fs::remove_dir_all(&folder);
    let completions = folder.join("completions");
    fs::create_dir_all(&completions).map_err(|error| format!("{}: {error}", folder.display()))?;
    let run = |arguments: &[&str]| {
        command::output(&arguments.join(" "), Command::new(&writer).args(arguments))
    };
    run(&["manual", &text(&folder.join("man"))?])?;
    for (shell, name) in SHELLS {
        let path = completions.join(name);
        let script = run(&["completions", shell])?;
        fs::write(&path, script).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(folder)
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not UTF-8", path.display()))
}
