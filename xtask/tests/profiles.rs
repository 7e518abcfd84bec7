//! Checks that releases are optimized, although the release profile inherits from one that compiles
//! quickly, and that `cargo install --path crates/cli` builds the program like a release.

use std::fs;
use std::path::Path;

use toml::{Table, Value};

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

/// Returns the optimization levels that a profile sets for packages.
fn levels(profile: &Table) -> Vec<(&str, i64)> {
    let packages = profile["package"].as_table().unwrap().iter();
    let level = |settings: &Value| settings.get("opt-level").and_then(Value::as_integer);
    packages.filter_map(|(name, settings)| Some((name.as_str(), level(settings)?))).collect()
}

#[test]
fn releases_are_optimized() {
    let file = read("Cargo.toml");
    let (quick, released) = (profile(&file, "release"), profile(&file, "dist"));
    assert_eq!(released["opt-level"].as_integer(), Some(3));
    let own = levels(&released);
    for (name, inherited) in levels(&quick) {
        let found = own.iter().find(|(other, _)| *other == name);
        let level = found.map_or(inherited, |(_, level)| *level);
        assert_eq!(level, 3, "{name}: level {inherited} of `release` applies to `dist`");
    }
}
