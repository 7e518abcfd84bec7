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
            "they are from another version of this program",
        ),
        (String::new(), "it is not a session file"),
        ("hello".into(), "it is not a session file"),
        (whole.replace("session localhost 03", "session localhost 0g"), "the file is damaged"),
        (whole.replace("session localhost", "session"), "the file is damaged"),
        (whole.replace("session l", "password l"), "the file is damaged"),
        (whole.trim_end_matches("end\n").into(), "the file was cut off"),
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
