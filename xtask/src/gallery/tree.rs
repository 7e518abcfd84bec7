//! A scratch copy of the workspace, to which patches are applied.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::{GALLERY, cargo, root, target};

/// The scratch copy. Unchanged files are not rewritten, so that cargo rebuilds only what a patch
/// changes.
pub(super) struct Tree {
    root: PathBuf,
    /// The workspace's files at the start. Changes to the workspace during a run are ignored.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// A lock that is held as long as the copy is in use. Without it, a second run could change the
    /// files between applying a patch and building it.
    _lock: File,
}

impl Tree {
    /// Copies the current workspace. Fails if another run is using the copy.
    pub(super) fn new() -> Result<Self, String> {
        let folder = target().join("gallery");
        let lock = lock(&folder)?;
        let mut files = tracked()?;
        set_apart(&mut files)?;
        let tree = Self { root: folder.join("tree"), files, _lock: lock };
        tree.restore()?;
        Ok(tree)
    }

    /// Restores the copy to the initial state of the workspace.
    pub(super) fn restore(&self) -> Result<(), String> {
        for (file, content) in &self.files {
            let to = self.root.join(file);
            if fs::read(&to).is_ok_and(|present| present == *content) {
                continue;
            }
            let folder = to.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&to, content))
                .map_err(|error| format!("{}: {error}", to.display()))?;
        }
        self.remove_others(&self.root)
    }

    /// Removes files that are not in the workspace.
    fn remove_others(&self, folder: &Path) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                self.remove_others(&path)?;
            } else if path.strip_prefix(&self.root).is_ok_and(|name| !self.files.contains_key(name))
            {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Applies `patch`.
    pub(super) fn apply(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &[])
    }

    /// Checks that `patch` applies.
    pub(super) fn check(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &["--check"])
    }

    fn git_apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
        let mut git = Command::new("git");
        git.arg("apply").args(options).arg(patch).current_dir(&self.root);
        // The copy is in a folder of the repository, but is not a repository itself: git must not
        // look for one in a parent folder.
        git.env("GIT_CEILING_DIRECTORIES", target());
        let Output { status, stderr, .. } =
            git.output().map_err(|error| format!("cannot run git: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&stderr).trim().to_owned()),
        }
    }

    /// Returns a `cargo` command that runs in the copy with the original's target folder, so that
    /// common dependencies are compiled once.
    pub(super) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", target());
        // Each patch changes only a little code.
        command.env("CARGO_INCREMENTAL", "1");
        command
    }

    /// Returns a command that runs the `clearway-lab` program built by [`Self::cargo`].
    pub(super) fn program(&self) -> Command {
        let mut command = Command::new(target().join(GALLERY).join("clearway-lab"));
        command.current_dir(&self.root);
        command
    }
}

/// Locks `folder` for exclusive use by this process.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let failed = |error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "{}: another `cargo xtask gallery` is running; wait until it ends",
            path.display()
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Changes the version of the copy's packages. Otherwise cargo would treat them as those of the
/// workspace. Both are built in the same folder, so a file that is older than the other workspace's
/// build would not be recompiled.
fn set_apart(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    for (name, change) in
        [("Cargo.toml", manifest as fn(&str) -> String), ("Cargo.lock", lock_file)]
    {
        let content =
            files.get_mut(Path::new(name)).ok_or_else(|| format!("there is no {name}"))?;
        let changed = change(&String::from_utf8_lossy(content)).into_bytes();
        if changed == *content {
            return Err(format!("{name} does not have the workspace's version"));
        }
        *content = changed;
    }
    Ok(())
}

/// Returns the workspace's manifest with a different package version.
fn manifest(text: &str) -> String {
    match text.split_once("[workspace.package]") {
        Some((before, after)) => format!("{before}[workspace.package]{}", with_version(after)),
        None => text.to_owned(),
    }
}

/// Returns the lock file with the versions changed for packages that do not come from a registry.
fn lock_file(text: &str) -> String {
    let change = |package: &str| match package.contains("\nsource = ") {
        true => package.to_owned(),
        false => with_version(package),
    };
    let (head, packages) = text.split_once("[[package]]").unwrap_or((text, ""));
    let packages = packages.split("[[package]]").map(change).collect::<Vec<_>>();
    format!("{head}[[package]]{}", packages.join("[[package]]"))
}

/// Changes the first version in `text`. Dependents of the packages accept the new version, because
/// build metadata after the plus sign does not affect the order of versions.
fn with_version(text: &str) -> String {
    let begin = "\nversion = \"";
    match text.split_once(begin).and_then(|(before, after)| Some((before, after.split_once('"')?)))
    {
        Some((before, (version, after))) => format!("{before}{begin}{version}+gallery\"{after}"),
        None => text.to_owned(),
    }
}

/// Returns the workspace's files: those tracked by git, and new files that git does not ignore.
fn tracked() -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let Output { status, stdout, .. } =
        git.output().map_err(|error| format!("cannot run git: {error}"))?;
    if !status.success() {
        return Err("`git ls-files` failed in the workspace".to_owned());
    }
    let names = String::from_utf8_lossy(&stdout).into_owned();
    let files = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    files
        .filter(|file| root().join(file).is_file())
        .map(|file| {
            let path = root().join(&file);
            let content = fs::read(&path);
            Ok((file, content.map_err(|error| format!("{}: {error}", path.display()))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{lock_file, manifest};

    #[test]
    fn only_packages_of_the_workspace_are_set_apart() {
        let text = "[workspace]\n[workspace.package]\nversion = \"0.1.0\"\n[workspace.dependencies]\nx = { version = \"1\" }\n";
        assert_eq!(manifest(text), text.replace("0.1.0", "0.1.0+gallery"));
        let text = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"b\"\n\
            version = \"0.1.0\"\nsource = \"registry\"\n";
        assert_eq!(lock_file(text), text.replacen("0.1.0", "0.1.0+gallery", 1));
    }
}
