//! The copy of the repository in which mutants are built. The copy and its target folder are kept
//! between runs, so that dependencies are built once and mutants are built incrementally.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, root, target};

/// Updates the copy to the current files, and returns its path. Unchanged files are not touched, so
/// that Cargo does not rebuild them. The incremental compilation cache of `profile` is removed,
/// because an interrupted run may have damaged it.
pub(super) fn update(profile: &str) -> Result<PathBuf, String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = command::output("listing the files", list.current_dir(root()))?;
    let names: BTreeSet<&Path> = names.split_terminator('\0').map(Path::new).collect();
    let tree = target().join("mutants/tree");
    let _ = fs::remove_dir_all(tree.join("target").join(profile).join("incremental"));
    synchronize(&root(), &tree, &names).map_err(|error| format!("{}: {error}", tree.display()))?;
    Ok(tree)
}

fn synchronize(from: &Path, to: &Path, names: &BTreeSet<&Path>) -> std::io::Result<()> {
    for name in names {
        let (source, copy) = (from.join(name), to.join(name));
        let Ok(content) = fs::read(&source) else { continue };
        if fs::read(&copy).is_ok_and(|present| present == content) {
            continue;
        }
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(&source, &copy)?;
    }
    remove_others(from, to, Path::new(""), names)
}

/// Removes files from the copy that are not in `names` or no longer exist in `from`. The copy's
/// target folder is kept.
fn remove_others(
    from: &Path,
    to: &Path,
    folder: &Path,
    names: &BTreeSet<&Path>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(to.join(folder))? {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                remove_others(from, to, &name, names)?;
            }
        } else if !names.contains(name.as_path()) || !from.join(&name).exists() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gets_what_changed_and_keeps_what_did_not() {
        let place = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        let write = |file: PathBuf, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write(from.join("a/same"), "1");
        write(from.join("a/changed"), "1");
        let names = ["a/same", "a/changed", "a/gone"].map(Path::new).into();
        synchronize(&from, &to, &names).unwrap();
        let modified = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = modified("a/same");
        write(to.join("a/changed"), "a mutant");
        write(to.join("a/gone"), "1");
        write(to.join("a/stray"), "1");
        write(to.join("target/built"), "1");
        synchronize(&from, &to, &names).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/changed")).unwrap(), "1");
        assert_eq!(modified("a/same"), before);
        assert!(!to.join("a/gone").exists() && !to.join("a/stray").exists());
        assert!(to.join("target/built").exists());
        fs::remove_dir_all(place).unwrap();
    }
}
