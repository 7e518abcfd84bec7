use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_transport::Observation;
use clearway_wire::PacketType;

use super::super::testing::{at, connection_id, received, records, started};
use super::*;

/// A temporary folder for one test, which is removed at its end.
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

/// Begins a connection, and validates its peer's address.
fn begin(directory: &QlogDirectory, side: Side) {
    let mut observer = directory.observer();
    observer.observe(at(0), &started(side));
    observer.observe(at(1), &received(PacketType::Handshake));
}

fn finish(directory: &QlogDirectory) -> QlogSummary {
    let summary = directory.finish(Duration::from_secs(60));
    assert!(summary.disk.is_complete);
    summary
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
    assert_eq!(inner.names(), [""; 0], "the probe is removed and no file is created too early");
    begin(&directory, Side::Client);
    begin(&directory, Side::Server);
    finish(&directory);
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
        begin(&directory, Side::Client);
    }
    finish(&directory);
    let expected = ["", "_2", "_3"].map(|number| format!("abababababababab_client{number}.sqlog"));
    assert_eq!(folder.names(), expected);
}

#[cfg(unix)]
#[test]
fn only_this_user_may_read_a_log() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("private");
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default()).unwrap();
    begin(&directory, Side::Client);
    finish(&directory);
    let file = folder.0.join("abababababababab_client.sqlog");
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_symbolic_link() {
    let folder = Folder::new("link");
    fs::create_dir_all(folder.0.join("logs")).unwrap();
    let victim = folder.0.join("victim");
    fs::write(&victim, "kept").unwrap();
    let logs = folder.0.join("logs");
    let process = std::process::id();
    for name in ["abababababababab_client.sqlog".to_owned(), format!(".clearway-qlog-{process}")] {
        std::os::unix::fs::symlink(&victim, logs.join(name)).unwrap();
    }
    let directory = QlogDirectory::new(&logs, TraceOptions::default()).unwrap();
    begin(&directory, Side::Client);
    finish(&directory);
    assert_eq!(fs::read(&victim).unwrap(), b"kept");
    assert!(logs.join("abababababababab_client_2.sqlog").is_file());
}

#[test]
fn incomplete_connections_have_no_files() {
    let folder = Folder::new("junk");
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default()).unwrap();
    for _ in 0..2000 {
        directory.observer().observe(at(0), &started(Side::Server));
    }
    assert_eq!(finish(&directory).unopened, 2000);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn the_number_of_logs_with_the_same_name_is_bounded() {
    let folder = Folder::new("bounded");
    fs::create_dir_all(&folder.0).unwrap();
    let id = connection_id(&[7]);
    for _ in 0..MAX_NAMESAKES {
        drop(create(&folder.0, &id, Side::Client).unwrap());
    }
    let error = create(&folder.0, &id, Side::Client).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

/// Begins a server's connection with this original destination connection ID, whose peer's address
/// is validated.
fn connection(directory: &QlogDirectory, id: u64) -> Box<dyn Observer> {
    let mut observer = directory.observer();
    let id = connection_id(&id.to_be_bytes());
    let remote = "192.0.2.1:443".parse().unwrap();
    let (local_id, remote_id, original_destination_id) = (id, id, id);
    let side = Side::Server;
    let started =
        Observation::Started { side, remote, local_id, remote_id, original_destination_id };
    observer.observe(at(0), &started);
    observer.observe(at(1), &received(PacketType::Handshake));
    observer
}

#[test]
fn the_oldest_finished_files_make_room() {
    let folder = Folder::new("room");
    let errors = Arc::new(Mutex::new(Vec::new()));
    let noted = errors.clone();
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default())
        .unwrap()
        .with_maximum_bytes(20_000)
        .with_error_handler(Arc::new(move |error| noted.lock().unwrap().push(error.to_string())));
    fs::write(folder.0.join("of-another"), [0; 50_000]).unwrap();
    let living = connection(&directory, 0);
    for id in 1..=100 {
        drop(connection(&directory, id));
    }
    let removed = finish(&directory).removed;
    let names = folder.names();
    let size = |name: &String| fs::metadata(folder.0.join(name)).unwrap().len();
    let total: u64 = names.iter().filter(|name| *name != "of-another").map(size).sum();
    assert!((10_000..=20_000).contains(&total), "{total}");
    assert_eq!(names.len() as u64, 102 - removed);
    for (id, is_there) in [(0, true), (1, false), (100, true)] {
        let name = file_name(&connection_id(&u64::to_be_bytes(id)), Side::Server);
        assert_eq!(names.contains(&name), is_there, "{name}");
    }
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("20000 bytes; the oldest are removed"), "{errors:?}");
    drop(living);
}

#[test]
fn floods_on_open_connections_end_their_logs_and_not_those_of_others() {
    let folder = Folder::new("full");
    let errors = Arc::new(Mutex::new(Vec::new()));
    let noted = errors.clone();
    let directory = QlogDirectory::new(&folder.0, TraceOptions::default())
        .unwrap()
        .with_maximum_bytes(200_000)
        .with_error_handler(Arc::new(move |error| noted.lock().unwrap().push(error.to_string())));
    let mut quiet = connection(&directory, 100);
    let mut flooded: Vec<_> = (0..4).map(|id| connection(&directory, id)).collect();
    for round in 0..100 {
        for observer in &mut flooded {
            for _ in 0..20 {
                observer.observe(at(round * 200), &received(PacketType::OneRtt));
            }
        }
        quiet.observe(at(round * 200), &received(PacketType::OneRtt));
        finish(&directory);
    }
    // This log begins although the other logs take a lot of space.
    let later = connection(&directory, 101);
    let names = folder.names();
    let read = |name: &String| fs::read(folder.0.join(name)).unwrap();
    let total: usize = names.iter().map(|name| read(name).len()).sum();
    assert!((100_000..=220_000).contains(&total), "{total}");
    let last = |name: &String| records(&read(name)).pop().unwrap()["name"].clone();
    let name = |id: u64| file_name(&connection_id(&id.to_be_bytes()), Side::Server);
    let ended = (0..4).map(name).filter(|name| names.contains(name));
    let ended: Vec<_> = ended.map(|name| last(&name)).collect();
    assert!(ended.len() > 1 && ended.iter().all(|last| last == "loglevel:warning"), "{ended:?}");
    assert_eq!(last(&name(100)), "quic:packet_received");
    drop((later, quiet));
    finish(&directory);
    assert!(folder.names().contains(&name(101)));
    let errors = errors.lock().unwrap();
    assert!(errors[0].contains("200000 bytes in total"), "{errors:?}");
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
        begin(&directory, side);
    }
    finish(&directory);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
