//! Embeds the project's scenarios, and the traces that they reference, in the library.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let scenarios = root.join("scenarios");
    let mut files = Vec::new();
    for (folder, extension) in [("", Some("toml")), ("traces", None)] {
        let folder = scenarios.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder).expect("the folder of scenarios can be read");
        let paths = entries.map(|entry| entry.expect("a directory entry can be read").path());
        let is_wanted = |path: &PathBuf| {
            path.is_file()
                && extension.is_none_or(|it| path.extension().is_some_and(|its| its == it))
        };
        files.extend(paths.filter(is_wanted));
    }
    files.sort();
    let mut list = String::from("[");
    for file in files {
        let name = file.strip_prefix(&scenarios).expect("the file is in the folder");
        let path = Path::new(&file).canonicalize().expect("the file exists");
        write!(list, "({name:?}, include_str!({path:?})),")
            .expect("writing to a string does not fail");
    }
    list.push(']');
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("scenarios.rs"), list).expect("the target folder can be written");
}
