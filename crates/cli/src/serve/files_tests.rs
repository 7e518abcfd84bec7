use std::fs;
use std::time::{Duration, SystemTime};

use super::*;

/// A temporary directory for one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name(found: &Found) -> Option<String> {
    match found {
        Found::File(file) => Some(format!("{} bytes", file.identity.length)),
        Found::Folder(place) => Some(place.clone()),
        Found::Nothing => None,
        other => Some(format!("{other:?}")),
    }
}

fn client() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

fn files(root: &Path, serves_hidden: bool) -> io::Result<Files> {
    Files::new(root, serves_hidden, Store::new(100, 64 << 20))
}

async fn found(files: &Files, path: &str) -> Option<String> {
    name(&files.find(client(), path).await)
}

#[tokio::test]
async fn finds_only_files_in_the_folder() {
    let scratch = Scratch::new("files");
    let root = scratch.0.join("root");
    fs::create_dir_all(root.join("sub dir")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(root.join("a.txt"), "12345").unwrap();
    fs::write(root.join("index.html"), "top").unwrap();
    fs::write(root.join("sub dir/index.html"), "subs").unwrap();
    fs::write(scratch.0.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(scratch.0.join("secret"), root.join("link")).unwrap();
    let files = files(&root, false).unwrap();
    for (path, expected) in [
        ("/a.txt", Some("5 bytes")),
        ("//./a.txt", Some("5 bytes")),
        ("/a%2Etxt", Some("5 bytes")),
        ("/", Some("3 bytes")),
        ("//", Some("3 bytes")),
        ("/sub%20dir/", Some("4 bytes")),
        ("/sub%20dir/.", Some("4 bytes")),
        ("/empty/", None),
        ("/nothing", None),
        ("/link", None),
        ("/../secret", None),
        ("/sub%20dir/../../secret", None),
        ("/%2e%2e/secret", None),
        ("/..%2fsecret", None),
        ("/a.txt%00", None),
        ("/%ff", None),
        ("a.txt", None),
        ("*", None),
    ] {
        assert_eq!(found(&files, path).await.as_deref(), expected, "{path}");
    }
    assert!(super::Files::new(&root.join("a.txt"), false, Store::new(1, 1 << 20)).is_err());
    assert!(super::Files::new(&root.join("nothing"), false, Store::new(1, 1 << 20)).is_err());
}

#[tokio::test]
async fn the_path_of_a_folder_does_not_find_a_file() {
    let scratch = Scratch::new("no-folder");
    fs::write(scratch.0.join("a.txt"), "12345").unwrap();
    let files = files(&scratch.0, false).unwrap();
    for path in ["/a.txt/", "/a.txt//", "/a.txt/.", "/a.txt/b"] {
        assert_eq!(found(&files, path).await, None, "{path}");
    }
}

#[tokio::test]
async fn a_redirect_stays_on_the_server() {
    let scratch = Scratch::new("redirect");
    fs::create_dir_all(scratch.0.join("docs/\u{fc} %?#")).unwrap();
    let files = files(&scratch.0, false).unwrap();
    for path in ["/docs", "//docs", "///docs", "/.//docs", "/%2Fdocs", "/%2f%2fdocs", "//%2e/docs"]
    {
        assert_eq!(found(&files, path).await.as_deref(), Some("/docs/"), "{path}");
    }
    for path in ["/\\docs", "/%5cdocs", "/%5c%5cdocs", "//%5cdocs"] {
        assert_eq!(found(&files, path).await, None, "{path}");
    }
    let encoded = "/docs/%C3%BC%20%25%3F%23";
    let expected = format!("{encoded}/");
    assert_eq!(found(&files, encoded).await, Some(expected));
}

#[tokio::test]
async fn names_that_begin_with_a_dot_are_served_only_on_request() {
    let scratch = Scratch::new("hidden");
    for name in [
        ".env",
        ".git/config",
        "a/.htpasswd",
        ".well-known/acme",
        "a/.well-known/x",
        ".well-known/.x",
    ] {
        fs::create_dir_all(scratch.0.join(name).parent().unwrap()).unwrap();
        fs::write(scratch.0.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink(".git", scratch.0.join("shown")).unwrap();
    let (visible, all) = (files(&scratch.0, false).unwrap(), files(&scratch.0, true).unwrap());
    for path in [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/a/.htpasswd",
        "/a/.well-known/x",
        "/.well-known/.x",
        "/shown/config",
        "/.git",
    ] {
        assert_eq!(found(&visible, path).await, None, "{path}");
        assert!(found(&all, path).await.is_some(), "{path}");
    }
    assert!(found(&visible, "/.well-known/acme").await.is_some());
}

#[tokio::test]
async fn media_types_match_the_content() {
    let scratch = Scratch::new("media");
    let mut packets = vec![0; 400];
    packets[0] = 0x47;
    packets[188] = 0x47;
    for (name, content, expected) in [
        ("a.txt", "text".as_bytes(), "text/plain; charset=utf-8"),
        ("a.html", b"", "text/html; charset=utf-8"),
        ("a.css", b"", "text/css; charset=utf-8"),
        ("a.ts", b"let a: number = 1;", "text/plain; charset=utf-8"),
        ("A.TS", &packets, "video/mp2t"),
        ("a.json", b"", "application/json"),
        ("a.png", b"", "image/png"),
        ("a", b"", "application/octet-stream"),
    ] {
        fs::write(scratch.0.join(name), content).unwrap();
        let files = files(&scratch.0, false).unwrap();
        let Found::File(file) = files.find(client(), &format!("/{name}")).await else {
            panic!("{name} is there")
        };
        assert_eq!(file.media_type, expected, "{name}");
    }
}

#[tokio::test]
async fn a_release_that_is_switched_by_a_link_is_served_at_once() {
    let scratch = Scratch::new("release");
    let (root, next) = (scratch.0.join("current"), scratch.0.join("next"));
    for (release, content) in [("r1", "1"), ("r2", "22")] {
        fs::create_dir_all(scratch.0.join(release)).unwrap();
        fs::write(scratch.0.join(release).join("index.html"), content).unwrap();
    }
    std::os::unix::fs::symlink("r1", &root).unwrap();
    let files = files(&root, false).unwrap();
    assert_eq!(found(&files, "/").await.as_deref(), Some("1 bytes"));
    std::os::unix::fs::symlink("r2", &next).unwrap();
    fs::rename(&next, &root).unwrap();
    assert_eq!(found(&files, "/").await.as_deref(), Some("2 bytes"));
    fs::remove_dir_all(scratch.0.join("r1")).unwrap();
    assert_eq!(found(&files, "/index.html").await.as_deref(), Some("2 bytes"));
}

#[tokio::test]
async fn links_within_the_folder_are_followed() {
    let scratch = Scratch::new("links");
    let root = scratch.0.join("root");
    fs::create_dir_all(root.join("r1/.git")).unwrap();
    fs::write(root.join("r1/a.txt"), "12345").unwrap();
    fs::write(root.join("r1/.git/config"), "").unwrap();
    for (link, target) in [
        ("relative", "r1".into()),
        ("absolute", root.join("r1")),
        ("up", "r1/../r1".into()),
        ("out", scratch.0.clone()),
        ("around", "../root/r1".into()),
        ("loop", "loop".into()),
        ("proc", "/proc/self/root".into()),
    ] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    let files = files(&root, false).unwrap();
    for link in ["relative", "absolute", "up", "around"] {
        let path = format!("/{link}/a.txt");
        assert_eq!(found(&files, &path).await.as_deref(), Some("5 bytes"), "{link}");
        assert_eq!(found(&files, &format!("/{link}/.git/config")).await, None, "{link}");
    }
    for path in ["/out/root/r1/.git/config", "/proc/etc/hostname", "/out"] {
        assert_eq!(found(&files, path).await, None, "{path}");
    }
    assert!(found(&files, "/loop").await.is_none_or(|it| it.starts_with("Failed")));
}

/// A directory and a symbolic link that leads out of the root are swapped while files are looked
/// up.
#[tokio::test]
async fn nothing_outside_is_found_however_links_are_exchanged() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let scratch = Scratch::new("exchanged");
    let (root, outside) = (scratch.0.join("root"), scratch.0.join("outside"));
    fs::create_dir_all(root.join("a")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(root.join("a/file"), "inside").unwrap();
    fs::write(outside.join("file"), "outside!").unwrap();
    std::os::unix::fs::symlink(&outside, root.join("b")).unwrap();
    let files = files(&root, false).unwrap();
    let is_done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let exchanging = {
        let (is_done, a, b) = (is_done.clone(), root.join("a"), root.join("b"));
        std::thread::spawn(move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        })
    };
    let mut inside = 0;
    for _ in 0..2000 {
        match found(&files, "/a/file").await.as_deref() {
            Some("6 bytes") => inside += 1,
            None => {}
            other => assert!(other.is_some_and(|it| it.starts_with("Failed")), "{other:?}"),
        }
    }
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    exchanging.join().unwrap();
    assert!(inside > 0);
}

#[tokio::test]
async fn copies_of_a_file_have_the_same_tag() {
    let scratch = Scratch::new("copies");
    let modified = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 5);
    let mut tags = Vec::new();
    for (folder, content) in [("a", "123"), ("b", "123"), ("c", "1234")] {
        let root = scratch.0.join(folder);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("file"), content).unwrap();
        let file = File::options().write(true).open(root.join("file")).unwrap();
        file.set_modified(modified).unwrap();
        let files = files(&root, false).unwrap();
        let Found::File(file) = files.find(client(), "/file").await else { panic!("it is there") };
        tags.push(file.identity.entity_tag(SystemTime::now()));
    }
    assert_eq!(tags[0], tags[1]);
    assert_ne!(tags[0], tags[2]);
}

/// A lookup is repeated only if a name may have been replaced in the meantime.
#[test]
fn errors_after_which_a_lookup_is_repeated() {
    use rustix::io::Errno;
    for (errno, expected) in [
        (Errno::LOOP, true),
        (Errno::XDEV, true),
        (Errno::NOENT, true),
        (Errno::ACCESS, false),
        (Errno::MFILE, false),
        (Errno::IO, false),
    ] {
        assert_eq!(place::has_changed(&errno.into()), expected, "{errno:?}");
    }
}
