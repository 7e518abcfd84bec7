//! The workspace's packages, and the ones that a change affects.

use core::fmt;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{self, cargo, root};

/// A package of the workspace.
#[derive(Clone, Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// The package's folder, relative to the repository root.
    pub(super) folder: PathBuf,
    /// The workspace packages that this package depends on, including for tests.
    uses: Vec<String>,
    /// The names of the package's integration tests.
    tests: Vec<String>,
    has_library: bool,
}

impl Package {
    pub(super) fn manifest(&self) -> String {
        root().join(&self.folder).join("Cargo.toml").display().to_string()
    }
}

/// Returns all packages of the workspace.
pub(super) fn read() -> Result<Vec<Package>, String> {
    let mut metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let text = command::output("reading the workspace", &mut metadata)?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| format!("cannot read the workspace's metadata: {error}"))?;
    let packages =
        value["packages"].as_array().ok_or("the workspace's metadata contains no packages")?;
    Ok(packages.iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |name: &str| value[name].as_array().into_iter().flatten();
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    let folder = manifest.parent().and_then(|folder| folder.strip_prefix(root()).ok());
    let is_test = |target: &&Value| target["kind"][0] == "test";
    let is_library = |target: &Value| target["kind"][0] == "lib";
    Package {
        name: text(&value["name"]),
        folder: folder.unwrap_or(Path::new("")).to_owned(),
        uses: all("dependencies")
            .filter(|dependency| dependency["path"].is_string())
            .map(|dependency| text(&dependency["name"]))
            .collect(),
        tests: all("targets").filter(is_test).map(|target| text(&target["name"])).collect(),
        has_library: all("targets").any(is_library),
    }
}

fn git(arguments: &[&str]) -> Result<String, String> {
    command::output("git", Command::new("git").args(arguments).current_dir(root()))
}

/// Returns the default base of the comparison: the point where the current branch left the main
/// branch or, on the main branch, the last commit.
pub(super) fn default_base() -> Result<String, String> {
    let head = git(&["rev-parse", "HEAD"])?;
    for main in ["origin/main", "main"] {
        match git(&["merge-base", main, "HEAD"]) {
            Ok(base) if base != head => return Ok(base.trim().to_owned()),
            _ => {}
        }
    }
    Ok("HEAD".to_owned())
}

/// Returns the files that differ from `base`, including new files, relative to the repository root.
pub(super) fn changed_files(base: &str) -> Result<Vec<PathBuf>, String> {
    let changed = git(&["diff", "--name-only", base, "--"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(PathBuf::from).collect())
}

/// The packages whose tests are run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The changed packages, with all tests.
    Changed,
    /// Their direct dependents, with unit tests only.
    Dependents,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed crates",
            Self::Dependents => "dependent crates",
        })
    }
}

/// The packages that a change affects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Packages with a changed file.
    changed: BTreeSet<String>,
    /// Dependents of the changed packages that do not also depend on another dependent.
    near: BTreeSet<String>,
    /// All other dependents of the changed packages, direct and indirect.
    far: BTreeSet<String>,
}

impl Scope {
    /// Returns the scope of a change to these files. Files outside all packages affect the package
    /// `xtask`, whose tests check documents and similar files. The workspace's manifest affects all
    /// packages.
    pub(super) fn of(packages: &[Package], files: &[PathBuf]) -> Self {
        let owner = |file: &PathBuf| {
            let inside = packages.iter().filter(|package| file.starts_with(&package.folder));
            let package = inside.max_by_key(|package| package.folder.components().count());
            package.map_or("xtask", |package| &package.name).to_owned()
        };
        let of_all =
            |file: &PathBuf| file == Path::new("Cargo.toml") || file == Path::new("Cargo.lock");
        let changed: BTreeSet<String> = match files.iter().any(of_all) {
            true => packages.iter().map(|package| package.name.clone()).collect(),
            false => files.iter().map(owner).collect(),
        };
        let mut reached = changed.clone();
        loop {
            let uses = |package: &&Package| package.uses.iter().any(|name| reached.contains(name));
            let more: Vec<String> = packages
                .iter()
                .filter(|package| !reached.contains(&package.name))
                .filter(uses)
                .map(|package| package.name.clone())
                .collect();
            if more.is_empty() {
                break;
            }
            reached.extend(more);
        }
        let dependents: BTreeSet<String> = reached.difference(&changed).cloned().collect();
        let is_far = |name: &&String| {
            let package = packages.iter().find(|package| package.name == **name);
            let uses = package.into_iter().flat_map(|package| &package.uses);
            // Some packages depend on themselves for tests, with different features.
            uses.into_iter().any(|used| used != *name && dependents.contains(used))
        };
        let far: BTreeSet<String> = dependents.iter().filter(is_far).cloned().collect();
        Self { near: dependents.difference(&far).cloned().collect(), changed, far }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Returns whether anything depends on the changed packages.
    pub(super) fn has_dependents(&self) -> bool {
        !self.near.is_empty()
    }

    /// Returns the packages of a part.
    const fn part(&self, part: Part) -> &BTreeSet<String> {
        match part {
            Part::Changed => &self.changed,
            Part::Dependents => &self.near,
        }
    }

    /// Returns the Cargo arguments that select the packages of a part.
    pub(super) fn select(&self, part: Part) -> impl Iterator<Item = &str> {
        self.part(part).iter().flat_map(|name| ["--package", name])
    }

    /// Returns the names of the integration tests to run for a part.
    pub(super) fn integration_tests<'a>(
        &'a self,
        packages: &'a [Package],
        part: Part,
    ) -> impl Iterator<Item = &'a str> {
        let tested = packages.iter().filter(move |it| self.includes(&it.name, part, true));
        tested.flat_map(|package| package.tests.iter().map(String::as_str))
    }

    /// Returns whether any package of a part has a library. Without one, Cargo rejects `--lib`.
    pub(super) fn has_library(&self, packages: &[Package], part: Part) -> bool {
        packages.iter().any(|it| it.has_library && self.includes(&it.name, part, false))
    }

    /// Returns whether to run the unit tests or integration tests of a package for a part.
    pub(super) fn includes(&self, package: &str, part: Part, is_integration: bool) -> bool {
        let has_those = part == Part::Changed || !is_integration;
        has_those && self.part(part).contains(package)
    }

    /// Describes the tests that are not run.
    pub(super) fn left_out(&self) -> String {
        let part = |what: &str, names: &BTreeSet<String>| match names.is_empty() {
            true => String::new(),
            false => format!("{what} of {}; ", list(names)),
        };
        part("the integration tests", &self.near) + &part("all tests", &self.far)
    }
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &BTreeSet<String>| match names.is_empty() {
            true => "nothing".to_owned(),
            false => list(names),
        };
        write!(
            f,
            "{}; used by {}, and indirectly by {}",
            names(&self.changed),
            names(&self.near),
            names(&self.far)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(files: &[&str]) -> Scope {
        let package = |name: &str, folder: &str, uses: &[&str]| Package {
            name: name.to_owned(),
            folder: folder.into(),
            uses: uses.iter().map(|name| (*name).to_owned()).collect(),
            tests: vec![format!("tests-of-{name}")],
            has_library: name != "xtask",
        };
        let packages = [
            package("wire", "crates/wire", &[]),
            package("transport", "crates/transport", &["wire"]),
            package("io", "crates/io", &["transport"]),
            package("interop", "interop", &["io"]),
            package("namespaces", "interop/namespaces", &[]),
            package("xtask", "xtask", &["namespaces"]),
        ];
        Scope::of(&packages, &files.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    fn names(names: &BTreeSet<String>) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    #[test]
    fn dependents_are_found_through_others() {
        let scope = scope(&["crates/transport/src/lib.rs"]);
        assert_eq!(names(&scope.changed), ["transport"]);
        assert_eq!((names(&scope.near), names(&scope.far)), (vec!["io"], vec!["interop"]));
        let (own, others) = (Part::Changed, Part::Dependents);
        assert!(scope.includes("transport", own, true) && scope.includes("io", others, false));
        assert!(!scope.includes("transport", others, false) && !scope.includes("io", own, false));
        assert!(!scope.includes("io", others, true) && !scope.includes("wire", own, false));
        assert!(!scope.includes("interop", others, false));
        assert_eq!(scope.select(own).collect::<Vec<_>>(), ["--package", "transport"]);
        assert_eq!(scope.select(others).collect::<Vec<_>>(), ["--package", "io"]);
        assert_eq!(scope.left_out(), "the integration tests of io; all tests of interop; ");
    }

    #[test]
    fn files_belong_to_the_innermost_package_or_to_xtask() {
        assert_eq!(names(&scope(&["interop/namespaces/src/lib.rs"]).changed), ["namespaces"]);
        assert_eq!(names(&scope(&["docs/metrics.md"]).changed), ["xtask"]);
        assert_eq!(scope(&["Cargo.toml"]).changed.len(), 6);
        assert!(scope(&[]).changed.is_empty());
    }

    #[test]
    fn the_workspace_is_read() {
        let packages = read().unwrap();
        let transport =
            packages.iter().find(|package| package.name == "clearway-transport").unwrap();
        assert_eq!(transport.folder, Path::new("crates/transport"));
        assert!(transport.uses.iter().any(|name| name == "clearway-wire"));
        assert!(transport.tests.iter().any(|name| name == "suite"));
        assert!(Path::new(&transport.manifest()).exists());
    }
}
