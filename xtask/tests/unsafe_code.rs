//! Checks that unsafe code is forbidden everywhere except in three files.

use std::path::{Path, PathBuf};

/// The files that may contain unsafe code.
const EXCEPTIONS: [&str; 3] = [
    "crates/kernel/src/bpf.rs",
    "crates/kernel/src/driver_statistics/ethtool.rs",
    "crates/kernel/src/sendmmsg.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn table(file: &str) -> toml::Table {
    let text = std::fs::read_to_string(root().join(file)).expect("a manifest");
    text.parse().expect("a manifest is TOML")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The crate with the exceptions has the workspace's lints, and only denies the lints that the
/// workspace forbids: `forbid` allows no exceptions.
#[test]
fn the_lints_of_kernel_are_those_of_the_workspace_but_for_one() {
    let mut kernel = table("crates/kernel/Cargo.toml");
    let ours = kernel["lints"]["rust"].as_table_mut().expect("lints");
    let denied = ours.insert("unsafe_code".to_owned(), "forbid".into());
    assert_eq!(denied, Some("deny".into()));
    assert_eq!(kernel["lints"], table("Cargo.toml")["workspace"]["lints"]);
}

#[test]
fn only_the_exceptions_allow_unsafe_code() {
    let mut files = Vec::new();
    sources(&root().join("crates/kernel"), &mut files);
    let allows = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a source");
        text.lines().any(|line| line.contains("#") && line.contains("(unsafe_code"))
    };
    files.retain(allows);
    files.sort();
    assert_eq!(files, EXCEPTIONS.map(|file| root().join(file)));
}

#[test]
fn all_other_packages_have_the_lints_of_the_workspace() {
    for crates in ["crates", "."] {
        for entry in std::fs::read_dir(root().join(crates)).expect("a folder") {
            let manifest = entry.expect("an entry").path().join("Cargo.toml");
            let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
            let name = manifest.parent().and_then(Path::file_name);
            if name.is_some_and(|name| name == "kernel" || name == "fuzz") {
                continue;
            }
            let package: toml::Table = text.parse().expect("a manifest is TOML");
            let lints = package.get("lints").and_then(|lints| lints.get("workspace"));
            assert_eq!(lints, Some(&true.into()), "{}", manifest.display());
        }
    }
}

/// Every document that lists the files with unsafe code must list all of them, and state their
/// number.
#[test]
fn documents_list_the_exceptions() {
    for document in ["SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root().join(document)).expect("a document");
        let paragraph = text.split("\n\n").find(|it| it.contains(EXCEPTIONS[0]));
        let paragraph = paragraph.unwrap_or_else(|| panic!("{document} lists no exceptions"));
        for file in EXCEPTIONS {
            assert!(paragraph.contains(file), "{document} does not list {file}");
        }
        let listed = paragraph.matches("crates/kernel/src/").count();
        assert_eq!(listed, EXCEPTIONS.len(), "{document} lists another file");
        assert!(!paragraph.contains("two short files"), "{document}");
    }
}
