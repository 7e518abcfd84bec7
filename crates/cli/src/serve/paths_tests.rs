//! Checks every path of up to three components, in a directory with every kind of symbolic link:
//! the path finds the file that it leads to, if the file is in the directory and no component of
//! either path is hidden. This also holds while entries are swapped.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use super::*;

/// Names in the directory and other parts of paths, encoded as in a URL.
const PARTS: [&str; 26] = [
    "file",
    ".hidden",
    "sub",
    ".dot",
    ".well-known",
    "in-file",
    "in-dir",
    "outside-file",
    "outside-dir",
    "beside",
    "to-hidden",
    "to-dot",
    "chain",
    "chain-out",
    "up",
    "back",
    "absolute",
    "circle",
    "dangling",
    "pipe",
    "hidden-index",
    "index.html",
    "",
    ".",
    "%2e%2e",
    "sub%2ffile",
];

/// A directory and its surroundings, removed at the end. Each file has a unique length, which is at
/// least 100 bytes for files outside the directory.
struct World {
    base: PathBuf,
    root: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        for (name, length) in [
            ("root/file", 1),
            ("root/.hidden", 2),
            ("root/sub/file", 3),
            ("root/sub/.hidden", 4),
            ("root/sub/index.html", 5),
            ("root/.dot/file", 6),
            ("root/.dot/index.html", 7),
            ("root/.well-known/file", 8),
            ("root/.well-known/.hidden", 9),
            ("root/sub/.well-known/file", 10),
            ("outside/file", 101),
            ("outside/index.html", 102),
            ("root-beside/file", 103),
        ] {
            let path = base.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'x'; length]).unwrap();
        }
        let root = base.join("root").canonicalize().unwrap();
        fs::create_dir(root.join("hidden-index")).unwrap();
        let absolute = root.join("sub");
        for (to, name) in [
            ("file", "in-file"),
            ("sub", "in-dir"),
            ("../outside/file", "outside-file"),
            ("../outside", "outside-dir"),
            ("../root-beside", "beside"),
            (".hidden", "to-hidden"),
            (".dot", "to-dot"),
            ("in-dir", "chain"),
            ("outside-dir", "chain-out"),
            ("..", "up"),
            ("../root/sub", "back"),
            (absolute.to_str().unwrap(), "absolute"),
            ("circle", "circle"),
            ("nothing", "dangling"),
            ("../.hidden", "hidden-index/index.html"),
        ] {
            symlink(to, root.join(name)).unwrap();
        }
        mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self { base, root }
    }

    fn files(&self, serves_hidden: bool) -> Files {
        Files::new(&self.root, serves_hidden, Store::new(100, 64 << 20)).unwrap()
    }

    /// Returns what `path` must find, in the format of [`described`].
    fn expected(&self, path: &str, serves_hidden: bool) -> Option<String> {
        let decoded = path.replace("%2e", ".").replace("%2f", "/");
        let parts: Vec<_> = decoded.strip_prefix('/')?.split('/').collect();
        let is_folder = matches!(parts.last(), Some(&("" | ".")));
        let names: Vec<_> = parts.into_iter().filter(|part| !matches!(*part, "" | ".")).collect();
        if names.contains(&"..") || !(serves_hidden || is_visible(names.iter().copied())) {
            return None;
        }
        let wanted = self.root.join(names.iter().collect::<PathBuf>());
        let metadata = self.inside(&wanted, serves_hidden)?;
        let file = match (metadata.is_dir(), is_folder) {
            (true, true) => self.inside(&wanted.join("index.html"), serves_hidden)?,
            (true, false) => return Some(format!("/{}/", names.join("/"))),
            (false, true) => return None,
            (false, false) => metadata,
        };
        file.is_file().then(|| format!("{} bytes", file.len()))
    }

    /// Returns what is at `path`, if that is in the directory and not hidden.
    fn inside(&self, path: &Path, serves_hidden: bool) -> Option<fs::Metadata> {
        let real = path.canonicalize().ok()?;
        let names = real.strip_prefix(&self.root).ok()?.iter().map(|name| name.to_str().unwrap());
        (serves_hidden || is_visible(names)).then(|| real.metadata().unwrap())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// Returns whether none of the names is hidden, except for the one that is always served.
fn is_visible<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    names.enumerate().all(|(at, name)| !name.starts_with('.') || (at == 0 && name == ".well-known"))
}

/// Returns the length of a file, or the redirect of a directory.
fn described(found: &Found) -> Option<String> {
    match found {
        Found::File(file) => Some(format!("{} bytes", file.identity.length)),
        Found::Folder(url) => Some(url.clone()),
        _ => None,
    }
}

fn client() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

#[tokio::test]
async fn every_path_finds_what_its_names_lead_to_inside_or_nothing() {
    let world = World::new("paths");
    let mut found = BTreeSet::new();
    for serves_hidden in [false, true] {
        let files = world.files(serves_hidden);
        for first in PARTS {
            for second in PARTS {
                for third in [None].into_iter().chain(PARTS.map(Some)) {
                    let third = third.map_or(String::new(), |third| format!("/{third}"));
                    let path = format!("/{first}/{second}{third}");
                    let expected = world.expected(&path, serves_hidden);
                    let actual = described(&files.find(client(), &path).await);
                    assert_eq!(actual, expected, "{path}, hidden: {serves_hidden}");
                    found.extend(actual);
                }
            }
        }
    }
    // All files inside the directory were found, and a few directories.
    assert!((1..=10).all(|length| found.contains(&format!("{length} bytes"))), "{found:?}");
    assert!(found.contains("/sub/") && found.contains("/chain/"), "{found:?}");
}

/// If a name is replaced during a lookup, the path finds the old entry, the new entry, or nothing,
/// for all kinds of entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_exchanged_meanwhile_leads_to_one_of_both() {
    let world = World::new("exchange");
    let [x, y] = ["x", "y"].map(|name| world.root.join(name));
    let kinds = ["sub", "file", ".dot", ".hidden", "../outside", "outside-dir", "nothing"];
    let files = world.files(false);
    let mut found = BTreeSet::new();
    for (number, first) in kinds.into_iter().enumerate() {
        // A separate directory, and symbolic links.
        for second in [None].into_iter().chain(kinds[..number].iter().copied().map(Some)) {
            symlink(first, &x).unwrap();
            match second {
                Some(second) => symlink(second, &y).unwrap(),
                None => {
                    fs::create_dir(&y).unwrap();
                    fs::write(y.join("file"), [0; 20]).unwrap();
                    fs::write(y.join("index.html"), [0; 21]).unwrap();
                }
            }
            let paths = ["/x", "/x/", "/x/file", "/x/.hidden"];
            let exchange = || renameat_with(CWD, &x, CWD, &y, RenameFlags::EXCHANGE).unwrap();
            let expected = [(); 2].map(|()| {
                exchange();
                paths.map(|path| world.expected(path, false))
            });
            let is_done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        exchange();
                    }
                });
                let runtime = tokio::runtime::Handle::current();
                tokio::task::block_in_place(|| {
                    runtime.block_on(async {
                        for _ in 0..50 {
                            for (at, path) in paths.into_iter().enumerate() {
                                let actual = described(&files.find(client(), path).await);
                                let is_one = actual.is_none()
                                    || expected.iter().any(|expected| expected[at] == actual);
                                is_done.fetch_or(!is_one, Ordering::Relaxed);
                                assert!(is_one, "{path}, {first}, {second:?}: {actual:?}");
                                found.extend(actual);
                            }
                        }
                        is_done.store(true, Ordering::Relaxed);
                    });
                });
            });
            for path in [&x, &y] {
                let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
            }
        }
    }
    assert!(found.contains("3 bytes") && found.contains("20 bytes"), "{found:?}");
}
