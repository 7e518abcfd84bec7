use std::fs;

use super::*;

/// A folder of its own for one test, removed at its end.
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
        Found::File { path, .. } => Some(path.file_name()?.to_str()?.to_owned()),
        Found::Folder => Some("/".to_owned()),
        Found::Nothing => None,
    }
}

#[tokio::test]
async fn finds_what_is_in_the_folder_and_nothing_else() {
    let scratch = Scratch::new("files");
    let root = scratch.0.join("root");
    fs::create_dir_all(root.join("sub dir")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(root.join("a.txt"), "12345").unwrap();
    fs::write(root.join("index.html"), "top").unwrap();
    fs::write(root.join("sub dir/index.html"), "sub").unwrap();
    fs::write(scratch.0.join("secret"), "secret").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(scratch.0.join("secret"), root.join("link")).unwrap();
    let files = Files::new(&root).unwrap();
    for (path, expected) in [
        ("/a.txt", Some("a.txt")),
        ("//./a.txt", Some("a.txt")),
        ("/a%2Etxt", Some("a.txt")),
        ("/", Some("index.html")),
        ("/sub%20dir/", Some("index.html")),
        ("/sub%20dir", Some("/")),
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
        let found = files.find(path).await;
        assert_eq!(name(&found).as_deref(), expected, "{path}");
    }
    let Found::File { length, .. } = files.find("/a.txt").await else { panic!("it is there") };
    assert_eq!(length, 5);
    assert!(Files::new(&root.join("a.txt")).is_err());
    assert!(Files::new(&root.join("nothing")).is_err());
}

#[test]
fn ranges_are_those_of_the_rfc() {
    for (range, expected) in [
        (None, Part::Whole),
        (Some("bytes=0-0"), Part::Some(0..1)),
        (Some("bytes=2-5"), Part::Some(2..6)),
        (Some("bytes=2-"), Part::Some(2..10)),
        (Some("bytes=-3"), Part::Some(7..10)),
        (Some("bytes=-99"), Part::Some(0..10)),
        (Some("bytes=5-18446744073709551615"), Part::Some(5..10)),
        (Some("bytes=10-"), Part::Unsatisfiable),
        (Some("bytes=-0"), Part::Unsatisfiable),
        (Some("bytes=5-2"), Part::Whole),
        (Some("bytes=0-1,3-4"), Part::Whole),
        (Some("bytes=-"), Part::Whole),
        (Some("lines=1-2"), Part::Whole),
    ] {
        assert_eq!(part(range, 10), expected, "{range:?}");
    }
    assert_eq!(part(Some("bytes=0-"), 0), Part::Unsatisfiable);
}
