use std::fs;
use std::path::Path;

use rustix::fs::Mode;

use super::Place;
use crate::system;

/// The kind of a directory entry, before or after it is replaced.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    File,
    Folder,
    LinkInside,
    LinkToHidden,
    LinkOutside,
    /// A symbolic link to a symbolic link that leads outside.
    Chain,
    Pipe,
    Nothing,
}

const KINDS: [Kind; 8] = [
    Kind::File,
    Kind::Folder,
    Kind::LinkInside,
    Kind::LinkToHidden,
    Kind::LinkOutside,
    Kind::Chain,
    Kind::Pipe,
    Kind::Nothing,
];

fn make(kind: Kind, path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
    let link = |to| std::os::unix::fs::symlink(to, path).unwrap();
    match kind {
        Kind::File => fs::write(path, "file").unwrap(),
        Kind::Folder => {
            fs::create_dir(path).unwrap();
            fs::write(path.join("leaf"), "leaf").unwrap();
        }
        Kind::LinkInside => link("inside"),
        Kind::LinkToHidden => link(".hidden"),
        Kind::LinkOutside => link("../outside"),
        Kind::Chain => link("second"),
        Kind::Pipe => {
            let (pipe, user) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
            rustix::fs::mknodat(rustix::fs::CWD, path, pipe, user, 0).unwrap();
        }
        Kind::Nothing => {}
    }
}

/// If a name is replaced after the lookup, it leads to its current target, or nowhere. This holds
/// whether the kernel or this program resolves the path.
#[test]
fn a_name_that_is_exchanged_leads_nowhere_else() {
    let base = std::env::temp_dir().join(format!("clearway-exchange-{}", std::process::id()));
    let _ = fs::remove_dir_all(&base);
    for folder in ["root/inside", "root/.hidden", "outside"] {
        fs::create_dir_all(base.join(folder)).unwrap();
        fs::write(base.join(folder).join("leaf"), folder).unwrap();
    }
    let root = base.join("root").canonicalize().unwrap();
    std::os::unix::fs::symlink("../outside", root.join("second")).unwrap();
    let name = root.join("x");
    let mut opened = 0;
    for (before, after) in KINDS.iter().flat_map(|it| KINDS.iter().map(move |to| (*it, *to))) {
        for path in ["x", "x/leaf"] {
            make(before, &name);
            let Ok(Some(place)) = Place::find(&root, Path::new(path)) else { continue };
            let case = format!("{path}: {before:?}, then {after:?}: {:?}", place.names());
            assert!(!matches!(before, Kind::LinkOutside | Kind::Chain), "{case}");
            make(after, &name);
            for open in system::OPENERS {
                let Ok(file) = open(&root, place.names()) else { continue };
                let at = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                assert_eq!(fs::read_link(at).unwrap(), root.join(place.names()), "{case}");
                opened += 1;
            }
        }
    }
    assert!(opened > 30, "{opened}");
    fs::remove_dir_all(&base).unwrap();
}
