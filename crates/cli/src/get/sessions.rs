//! The file for `get --sessions`: TLS sessions, tokens, and other data about servers, kept from one
//! run to the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clearway::{MemorySessionStore, SavedSession, SessionStore, Version};
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::output;
use crate::system;

/// The first line, with the version of the format.
const HEADER: &str = "clearway sessions 2";
/// The last line of the file; without it, the file is truncated.
const END: &str = "end";
/// Maximum file size: the sessions of all remembered servers fit into it.
const MAX_SIZE: u64 = 8 << 20;
/// Maximum time that a run waits, before it ends, for a TLS session, which the server sends after
/// the handshake.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The TLS sessions that one run reads and stores.
#[derive(Debug)]
pub(super) struct Sessions {
    path: PathBuf,
    store: Arc<Store>,
}

/// The session store, and whether this run has added anything to it.
#[derive(Debug, Default)]
struct Store {
    memory: MemorySessionStore,
    has_new: AtomicBool,
    arrived: Notify,
}

impl SessionStore for Store {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        self.memory.put_session(server_name, session);
        self.has_new.store(true, Ordering::SeqCst);
        self.arrived.notify_waiters();
    }

    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession> {
        self.memory.take_session(server_name, version)
    }

    fn put_token(&self, server_name: &str, token: &[u8]) {
        self.memory.put_token(server_name, token);
    }

    fn take_token(&self, server_name: &str) -> Option<Vec<u8>> {
        self.memory.take_token(server_name)
    }
}

impl Sessions {
    /// Reads the file, if it exists. An invalid file is reported and ignored.
    pub(super) fn open(path: &Path) -> Self {
        let store = Arc::new(Store::default());
        let ignored = match read(path) {
            Ok(text) => fill(&store.memory, &text, now()).err().map(str::to_owned),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = ignored {
            let path = path.display();
            output::status(&format!("clearway: ignoring the sessions in {path}: {why}"));
        }
        Self { path: path.to_owned(), store }
    }

    pub(super) fn store(&self) -> Arc<dyn SessionStore> {
        self.store.clone()
    }

    /// Waits a short time for a TLS session from a connection of this run.
    pub(super) async fn wait(&self) {
        let arrived = self.store.arrived.notified();
        if !self.store.has_new.load(Ordering::SeqCst) {
            // A server need not send a session.
            let _ = tokio::time::timeout(TIMEOUT, arrived).await;
        }
    }

    /// Rewrites the file, readable only by this user.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(super) fn save(&self) -> Result<(), Failure> {
        write(&self.path, &text(&self.store.memory)).map_err(|error| {
            Failure::new(format!("cannot write the sessions to {}: {error}", self.path.display()))
                .advise("choose another file with --sessions")
        })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(io::Error::other("the file is too large"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not a session file"))
}

/// Puts all unexpired entries of `text` into `memory`; none if it is invalid.
fn fill(memory: &MemorySessionStore, text: &str, now: u64) -> Result<(), &'static str> {
    let mut lines = text.lines();
    match lines.next() {
        Some(HEADER) => {}
        Some(other) if other.starts_with("clearway sessions ") => {
            return Err("the file is from another version of this program");
        }
        _ => return Err("not a session file"),
    }
    let mut found = Vec::new();
    loop {
        let line = lines.next().ok_or("the file is truncated")?;
        if line == END {
            break;
        }
        found.push(parse(line)?);
    }
    for (server, entry) in found {
        match entry {
            Entry::Session(session) if session.expires() >= now => {
                memory.put_session(&server, session);
            }
            Entry::Session(_) => {}
            Entry::Token(token) => memory.put_token(&server, &token),
        }
    }
    Ok(())
}

enum Entry {
    Session(SavedSession),
    Token(Vec<u8>),
}

fn parse(line: &str) -> Result<(String, Entry), &'static str> {
    const DAMAGED: &str = "the file is damaged";
    let mut words = line.split(' ');
    let (Some(kind), Some(server), Some(digits), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(DAMAGED);
    };
    let bytes = bytes_of(digits).ok_or(DAMAGED)?;
    let entry = match kind {
        "session" => Entry::Session(SavedSession::decode(&bytes).map_err(|_| DAMAGED)?),
        "token" => Entry::Token(bytes),
        _ => return Err(DAMAGED),
    };
    Ok((server.to_owned(), entry))
}

/// Decodes hexadecimal digits.
pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

fn text(memory: &MemorySessionStore) -> String {
    let mut text = format!("{HEADER}\n");
    let mut line = |kind: &str, server: &str, bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{kind} {server} {digits}\n"));
    };
    for (server, sessions, tokens) in memory.contents() {
        sessions.iter().for_each(|session| line("session", &server, &session.encode()));
        tokens.iter().for_each(|token| line("token", &server, token));
    }
    text.push_str(END);
    text.push('\n');
    text
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut options = OpenOptions::new();
        system::private(options.write(true).create_new(true));
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, &path)
    })();
    if written.is_err() {
        // Report only the first error.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
