use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::WholeFile;

/// A temporary directory for a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_file_exists_completely_or_not_at_all() {
    let folder = Folder::new("whole");
    let target = folder.0.join("file");
    let mut file = WholeFile::create(&target).unwrap();
    file.write_all(b"half").unwrap();
    assert!(!target.exists());
    drop(file);
    assert!(folder.names().is_empty());
    let mut file = WholeFile::create(&target).unwrap();
    file.write_all(b"all").unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"all");
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn links_and_devices_are_written_to_and_not_replaced() {
    let folder = Folder::new("special");
    let (real, link) = (folder.0.join("real"), folder.0.join("link"));
    fs::write(&real, b"before").unwrap();
    symlink(&real, &link).unwrap();
    let mut file = WholeFile::create(&link).unwrap();
    file.write_all(b"after").unwrap();
    file.finish().unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read(&real).unwrap(), b"after");
    // The device is accessed through a symbolic link, so that a bug here does not harm it.
    let device = folder.0.join("device");
    symlink("/dev/full", &device).unwrap();
    let mut file = WholeFile::create(&device).unwrap();
    file.write_all(b"lost").unwrap();
    assert!(file.finish().is_err());
    assert!(device.is_symlink());
    assert!(WholeFile::create(&folder.0).is_err(), "a folder");
}

/// Two files are written at the same time, and their names differ only at the end.
#[test]
fn the_longest_names_can_be_written() {
    let folder = Folder::new("long-names");
    let names = ["a", "b"].map(|end| format!("{}{end}", "x".repeat(254)));
    let files = names.each_ref().map(|name| WholeFile::create(&folder.0.join(name)).unwrap());
    for (mut file, name) in files.into_iter().zip(&names) {
        file.write_all(name.as_bytes()).unwrap();
        file.finish().unwrap();
    }
    for name in &names {
        assert_eq!(fs::read(folder.0.join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(folder.names().len(), 2);
}
