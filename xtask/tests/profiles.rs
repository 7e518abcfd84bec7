//! `cargo install --path crates/cli` builds the program like a release.

use std::fs;
use std::path::Path;

use toml::Table;

fn read(path: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(path).unwrap().parse().unwrap()
}

fn profile(file: &Table, name: &str) -> Table {
    file["profile"][name].as_table().unwrap().clone()
}

#[test]
fn installing_has_the_settings_of_releases() {
    let mut released = profile(&read("Cargo.toml"), "dist");
    assert_eq!(released.remove("inherits").unwrap().as_str(), Some("release"));
    let installed = profile(&read("crates/cli/.cargo/config.toml"), "release");
    assert_eq!(installed, released);
}
