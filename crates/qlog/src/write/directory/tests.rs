use std::sync::atomic::AtomicUsize;

use super::super::testing::{at, connection_id, records, started};
use super::*;

/// A folder of its own for each test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("clearway-qlog-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn files_are_named_after_the_connection() {
    let id = connection_id(&[0x01, 0xab]);
    assert_eq!(file_name(&id, Side::Client), "01ab_client.sqlog");
    assert_eq!(file_name(&id, Side::Server), "01ab_server.sqlog");
}

#[test]
fn each_connection_has_its_file() {
    let folder = Folder::new("each");
    let directory = QlogDirectory::new(folder.0.join("made"), TraceOptions::default()).unwrap();
    let inner = Folder(folder.0.join("made"));
    assert_eq!(inner.names(), [""; 0], "the probe is gone and no file is made too early");
    directory.observer().observe(at(0), &started(Side::Client));
    directory.observer().observe(at(0), &started(Side::Server));
    let names = ["abababababababab_client.sqlog", "abababababababab_server.sqlog"];
    assert_eq!(inner.names(), names);
    for name in names {
        let log = records(&fs::read(inner.0.join(name)).unwrap());
        assert_eq!(log[1]["name"], "quic:connection_started");
    }
}

#[test]
fn an_earlier_log_is_kept() {
    let folder = Folder::new("kept");
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default()).unwrap();
    for _ in 0..3 {
        directory.observer().observe(at(0), &started(Side::Client));
    }
    let expected = ["", "_2", "_3"].map(|number| format!("abababababababab_client{number}.sqlog"));
    assert_eq!(folder.names(), expected);
}

#[test]
fn the_number_of_namesakes_is_bounded() {
    let folder = Folder::new("bounded");
    fs::create_dir_all(&folder.0).unwrap();
    let id = connection_id(&[7]);
    for _ in 0..MAX_NAMESAKES {
        create(&folder.0, &id, Side::Client).unwrap();
    }
    let error = create(&folder.0, &id, Side::Client).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_an_error_at_once() {
    let folder = Folder::new("unwritable");
    fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("file");
    File::create(&file).unwrap();
    let error = QlogDirectory::new(file.join("inside"), TraceOptions::default()).unwrap_err();
    assert!(matches!(error, QlogError::Directory { .. }));
    assert!(error.to_string().contains("inside"), "{error}");
}

#[test]
fn many_connections_report_one_error() {
    let folder = Folder::new("vanished");
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default())
        .unwrap()
        .with_error_handler(Arc::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
    fs::remove_dir_all(&folder.0).unwrap();
    for side in [Side::Client, Side::Server, Side::Client] {
        directory.observer().observe(at(0), &started(side));
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
