use std::os::unix::fs::PermissionsExt;

use super::*;

/// Returns a session as encoded by the library, which expires a day after second 1000.
fn session() -> SavedSession {
    let mut bytes = vec![3, 1, 0, 0, 0, 1, 0x13, 0x01];
    bytes.extend_from_slice(&1000_u64.to_be_bytes());
    bytes.extend_from_slice(&86_400_u32.to_be_bytes());
    bytes.extend_from_slice(&7_u32.to_be_bytes());
    let trust = [0, 0, 0, 0, 0, 0, 3, 232, 1];
    for part in [&b"h3"[..], &[5; 32], b"ticket", &[4, 1, 9], b"", &trust, b"certificate"] {
        bytes.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(part);
    }
    SavedSession::decode(&bytes).unwrap()
}

fn example() -> String {
    let memory = MemorySessionStore::default();
    memory.put_session("localhost", session());
    memory.put_token("localhost", b"token");
    text(&memory)
}

#[test]
fn what_was_written_is_read() {
    let memory = MemorySessionStore::default();
    fill(&memory, &example(), 2000).unwrap();
    assert_eq!(text(&memory), example());
    assert_eq!(memory.take_session("localhost", Version::V1), Some(session()));
    assert_eq!(memory.take_token("localhost"), Some(b"token".to_vec()));
}

#[test]
fn an_expired_session_is_left_out() {
    let memory = MemorySessionStore::default();
    fill(&memory, &example(), 1000 + 86_401).unwrap();
    assert_eq!(memory.take_session("localhost", Version::V1), None);
    assert!(memory.take_token("localhost").is_some());
}

#[test]
fn a_file_that_is_damaged_is_ignored_as_a_whole() {
    let whole = example();
    for (text, why) in [
        (
            whole.replace("sessions 2", "sessions 1"),
            "the file is from another version of this program",
        ),
        (String::new(), "not a session file"),
        ("hello".into(), "not a session file"),
        (whole.replace("session localhost 03", "session localhost 0g"), "the file is damaged"),
        (whole.replace("session localhost", "session"), "the file is damaged"),
        (whole.replace("session l", "password l"), "the file is damaged"),
        (whole.trim_end_matches("end\n").into(), "the file is truncated"),
    ] {
        let memory = MemorySessionStore::default();
        assert_eq!(fill(&memory, &text, 2000), Err(why));
        assert!(memory.contents().is_empty());
    }
    for end in HEADER.len() + 1..whole.len() - 1 {
        assert!(fill(&MemorySessionStore::default(), &whole[..end], 2000).is_err(), "{end}");
    }
}

#[test]
fn the_file_is_for_this_user_only() {
    let folder = std::env::temp_dir().join(format!("clearway-sessions-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sessions");
    fs::write(&path, "old").unwrap();
    write(&path, &example()).unwrap();
    assert_eq!(read(&path).unwrap(), example());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, vec![b'x'; usize::try_from(MAX_SIZE).unwrap() + 1]).unwrap();
    assert_eq!(read(&path).unwrap_err().to_string(), "the file is too large");
    fs::remove_dir_all(&folder).unwrap();
}

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

/// The session expired long ago, but tokens do not expire.
#[test]
fn the_clock_of_the_system_says_what_has_expired() {
    let scratch = Scratch::new("sessions-expired");
    let path = scratch.0.join("sessions");
    write(&path, &example()).unwrap();
    let store = Sessions::open(&path).store();
    assert_eq!(store.take_session("localhost", Version::V1), None);
    assert_eq!(store.take_token("localhost"), Some(b"token".to_vec()));
}

/// The sessions that a run stores replace the contents of the file, and the next run reads them.
#[test]
fn a_run_hands_its_sessions_to_the_next_one() {
    let scratch = Scratch::new("sessions-next");
    let path = scratch.0.join("sessions");
    let tokens = |sessions: &Sessions| {
        let store = sessions.store();
        ["a", "b"].map(|server| store.take_token(server))
    };
    for before in [None, Some("damaged")] {
        before.iter().for_each(|text| fs::write(&path, text).unwrap());
        let first = Sessions::open(&path);
        first.store().put_token("b", b"7");
        first.save().unwrap();
        assert_eq!(tokens(&Sessions::open(&path)), [None, Some(b"7".to_vec())], "{before:?}");
    }
    let missing = Sessions::open(&scratch.0.join("no/folder"));
    let why = missing.save().unwrap_err().to_string();
    assert!(why.contains("cannot write the sessions to") && why.contains("--sessions"), "{why}");
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 1, "nothing is left behind");
}

/// A run waits for the session that its server sends after the handshake, but not for a second one,
/// and not for long.
#[tokio::test]
async fn a_run_waits_for_its_first_session() {
    let sessions = Sessions { path: PathBuf::new(), store: Arc::default() };
    let begun = std::time::Instant::now();
    sessions.wait().await;
    assert!(begun.elapsed() >= TIMEOUT, "{:?}", begun.elapsed());
    let arrived = std::cell::Cell::new(false);
    let arriving = async {
        // The other future is waiting by now.
        tokio::task::yield_now().await;
        arrived.set(true);
        sessions.store().put_session("localhost", session());
    };
    let waiting = async {
        sessions.wait().await;
        assert!(arrived.get(), "it did not wait");
    };
    let begun = std::time::Instant::now();
    tokio::join!(waiting, arriving);
    let pending = sessions.wait();
    assert!(futures_util::FutureExt::now_or_never(pending).is_some(), "there is a session already");
    assert!(begun.elapsed() < TIMEOUT, "it does not wait for the limit: {:?}", begun.elapsed());
}
