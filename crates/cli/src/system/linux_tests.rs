use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

use super::{Errno, File, Kind, beneath, is_link, step_by_step};

/// Creates a directory for a test, with a file `a/b/file` and symbolic links to it and to `a`.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fs::write(folder.join("a/b/file"), "1").unwrap();
    std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("file", folder.join("a/b/link")).unwrap();
    folder
}

#[test]
fn name_by_name_no_link_is_followed() {
    let folder = folder("step");
    let step = |path: &str| {
        let root = open(&folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let opened = step_by_step(root, Path::new(path), OFlags::PATH);
        opened.map(|file| File::from(file).metadata().unwrap().is_file())
    };
    assert_eq!(step("a/b/file"), Ok(true));
    assert_eq!(step("a/b"), Ok(false));
    assert_eq!(step("."), Ok(false));
    for link in ["link", "link/b/file", "a/b/link"] {
        assert!(matches!(step(link), Err(Errno::LOOP | Errno::NOTDIR)), "{link}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The replacement of openat2(2) on other systems finds the same files.
#[test]
fn with_and_without_openat2_the_same_files_are_found() {
    let folder = folder("beneath");
    let (link, out) = (folder.join("out"), std::env::temp_dir());
    std::os::unix::fs::symlink(out, link).unwrap();
    let pipe = folder.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let paths = ["", "a", "a/b", "a/b/file", "pipe", "nothing", "a/nothing/x", "a/b/file/x"];
    for path in paths.into_iter().chain(["link", "link/b/file", "a/b/link", "out", "out/x"]) {
        let path = Path::new(path);
        let [kernel, steps] = [super::kind_beneath, beneath::kind_beneath]
            .map(|look| look(&folder, path).map_err(|error| (is_link(&error), error.kind())));
        assert_eq!(kernel, steps, "{path:?}");
        if kernel == Ok(Kind::File) {
            let [kernel, steps] = [super::open_beneath, beneath::open_beneath]
                .map(|open| std::io::read_to_string(open(&folder, path).unwrap()).unwrap());
            assert_eq!((kernel.as_str(), steps.as_str()), ("1", "1"), "{path:?}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
