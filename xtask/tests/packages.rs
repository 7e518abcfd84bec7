//! Checks the packages that a release publishes: each package must be complete, and docs/release.md
//! must list the packages in an order in which they can be published.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// File size above which a file needs a reason to be in a package.
const MAX_FILE: u64 = 200_000;

/// The file extensions in packages: source code, documents, and files that these include.
const EXTENSIONS: [&str; 15] = [
    "rs", "toml", "md", "html", "trace", "down", "up", "sqlog", "txt", "lock", "orig", "json",
    "jsonl", "svg", "css",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A package of the workspace that is published.
struct Package {
    name: String,
    folder: PathBuf,
    manifest: Value,
}

impl Package {
    fn text(&self, key: &str) -> &str {
        self.manifest[key].as_str().unwrap_or_default()
    }

    /// Returns the packages that must already be in the registry: dependencies of all kinds that
    /// have a version.
    fn needs(&self) -> BTreeSet<&str> {
        let all = self.manifest["dependencies"].as_array().unwrap().iter();
        let own = all.filter(|it| it["path"].is_string() && it["req"] != "*");
        own.filter_map(|it| it["name"].as_str()).filter(|name| *name != self.name).collect()
    }
}

fn published() -> Vec<Package> {
    let text = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let mut metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array_mut().unwrap().drain(..);
    let published = packages.filter(|package| package["publish"].is_null());
    let package = |manifest: Value| Package {
        name: manifest["name"].as_str().unwrap().to_owned(),
        folder: Path::new(manifest["manifest_path"].as_str().unwrap()).parent().unwrap().into(),
        manifest,
    };
    published.map(package).collect()
}

#[test]
fn packages_can_be_published_in_the_documented_order() {
    let document = std::fs::read_to_string(root().join("docs/release.md")).unwrap();
    let section = document.split("\n## Order of publication\n").nth(1).unwrap();
    let items = section.lines().filter_map(|line| line.split_once(". `"));
    let order: Vec<&str> = items.filter_map(|(_, rest)| rest.split('`').next()).collect();
    let packages = published();
    let names: BTreeSet<_> = packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), names);
    assert_eq!(order.len(), names.len(), "a package is listed twice");
    for package in &packages {
        let place = |name: &str| order.iter().position(|it| *it == name);
        for needed in package.needs() {
            assert!(place(needed) < place(&package.name), "{needed} is after {}", package.name);
        }
    }
}

#[test]
fn only_crates_are_published_and_all_of_them() {
    for package in published() {
        assert!(package.folder.parent().unwrap().ends_with("crates"), "{}", package.name);
    }
    assert_eq!(published().len(), std::fs::read_dir(root().join("crates")).unwrap().count());
}

#[test]
fn published_packages_describe_themselves() {
    for package in published() {
        let name = &package.name;
        assert!(name.starts_with("clearway"), "{name}");
        let length = package.text("description").len();
        assert!((20..=160).contains(&length), "{name}: a description of {length} bytes");
        assert_eq!(package.text("license"), "MIT OR Apache-2.0", "{name}");
        for key in ["keywords", "categories"] {
            let count = package.manifest[key].as_array().unwrap().len();
            assert!((1..=5).contains(&count), "{name}: {count} {key}");
        }
        for file in [package.text("readme"), "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(package.folder.join(file).is_file(), "{name} has no {file}");
        }
        // docs.rs documents only the default features unless configured otherwise.
        let features = package.manifest["features"].as_object().unwrap();
        let is_library = package.manifest["targets"].as_array().unwrap().iter().any(|target| {
            target["doc"] == true
                && target["kind"].as_array().is_some_and(|it| it.contains(&"lib".into()))
        });
        if is_library && !features.is_empty() {
            let configured = &package.manifest["metadata"]["docs"]["rs"];
            assert!(
                configured.is_object(),
                "{name} has features, but no configuration for docs.rs"
            );
        }
    }
}

#[test]
fn packages_contain_no_stray_files() {
    for package in published() {
        let list = cargo(&["package", "-p", &package.name, "--list", "--offline", "--allow-dirty"]);
        assert!(list.lines().count() > 5, "{}: {list}", package.name);
        for file in list.lines() {
            let (name, path) = (&package.name, package.folder.join(file));
            let is_known = EXTENSIONS.iter().any(|it| file.ends_with(&format!(".{it}")))
                && (!file.starts_with('.') || file == ".cargo_vcs_info.json");
            assert!(is_known || file.starts_with("LICENSE-"), "{name}: {file} is in the package");
            // Cargo generates some of the files.
            let size = path.metadata().map_or(0, |metadata| metadata.len());
            assert!(size <= MAX_FILE, "{name}: {file} has {size} bytes");
        }
    }
}
