//! Reads files for clients, with limits on the number of open files and on the content in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway_units::{AddressPrefix, FairShares};
use tokio::sync::{Notify, Semaphore};

use super::identity::Identity;
use super::memory::{ContentStatistics, Held, Memory, Share};
use super::place::Place;
use super::reserve::Reserve;
use crate::events::{Event, note_often};
use crate::system::{self, is_shortage};

/// Number of bytes to read from a file at a time, which is the maximum that the transport buffers
/// for a stream.
pub(super) const PIECE: usize = 64 << 10;

/// Maximum number of files that are looked up, opened or read concurrently, each on its own thread.
const READS: usize = 16;

/// Maximum time that a request waits for a descriptor or memory if the machine has none left.
const TIMEOUT: Duration = Duration::from_secs(2);
/// First and longest pause between two attempts. The pause ends early if a file is closed.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(320)];

/// Memory that a piece uses in addition to its content, in bytes.
const OVERHEAD: u64 = 128;

/// The open files and the content memory that the server uses for its clients.
#[derive(Clone, Debug)]
pub(super) struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Permits for looking up, opening or reading a file.
    reads: Arc<Semaphore>,
    idle: Mutex<Idle>,
    memory: Arc<Memory>,
    reserve: Reserve,
    /// Wakes a waiting request when a file is closed.
    closed: Notify,
}

/// Open files that are not being read, because their clients accept no data. This is only a cache:
/// a closed file is reopened when its client continues, if it is still the same version.
#[derive(Debug)]
struct Idle {
    files: BTreeMap<u64, (SocketAddr, File)>,
    /// The open files of each host, by key.
    by_host: BTreeMap<AddressPrefix, BTreeSet<u64>>,
    /// Number of open files of each host.
    shares: FairShares,
    next: u64,
    most: usize,
}

impl Idle {
    /// Keeps a file open. If its host, or all hosts together, have too many open files, the least
    /// recently read ones are closed.
    fn put(&mut self, client: SocketAddr, file: File) -> u64 {
        let key = self.next;
        self.next += 1;
        self.files.insert(key, (client, file));
        let own = self.by_host.entry(AddressPrefix::host(client)).or_default();
        let oldest = own.first().copied();
        own.insert(key);
        let has_share = self.shares.check(client, 1).is_ok();
        self.shares.add(client, 1);
        if let Some(oldest) = oldest.filter(|_| !has_share) {
            self.take(oldest);
        }
        while self.files.len() > self.most {
            self.close_oldest();
        }
        key
    }

    fn take(&mut self, key: u64) -> Option<File> {
        let (client, file) = self.files.remove(&key)?;
        self.shares.remove(client, 1);
        let host = AddressPrefix::host(client);
        if let Some(own) = self.by_host.get_mut(&host) {
            own.remove(&key);
            if own.is_empty() {
                self.by_host.remove(&host);
            }
        }
        Some(file)
    }

    /// Closes the least recently read idle file. Returns whether there was one.
    fn close_oldest(&mut self) -> bool {
        let oldest = self.files.first_key_value().map(|(key, _)| *key);
        oldest.and_then(|key| self.take(key)).is_some()
    }
}

impl Store {
    /// Creates a store with at most `open_files` open files and `memory` bytes of content.
    pub(super) fn new(open_files: usize, memory: u64) -> Self {
        let most = open_files.saturating_sub(READS);
        let idle = Idle {
            files: BTreeMap::new(),
            by_host: BTreeMap::new(),
            shares: FairShares::new(most as u64),
            next: 0,
            most,
        };
        let reads = Arc::new(Semaphore::new(READS.min(open_files).max(1)));
        let memory = Memory::new(memory);
        let (reserve, closed) = (Reserve::new(), Notify::new());
        Self(Arc::new(Inner { reads, idle: Mutex::new(idle), memory, reserve, closed }))
    }

    /// Returns the counters of the content memory.
    pub(super) fn statistics(&self) -> ContentStatistics {
        self.0.memory.statistics()
    }

    /// Returns the memory share of a response to the client at this address.
    pub(super) fn share(&self, client: SocketAddr) -> Share {
        self.0.memory.share(client)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `open`. If there is no free descriptor, closes files that are not being read, and then
    /// a part of the reserve.
    pub(super) fn with_room<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_shortage(&error) && self.make_room(&error) => {}
                opened => return opened,
            }
        }
    }

    /// Closes files or reserved descriptors because of `error`. Returns whether there were any.
    fn make_room(&self, error: &io::Error) -> bool {
        if self.idle().close_oldest() {
            return true;
        }
        note_often(Event::NoDescriptor, || {
            format!(
                "clearway: cannot open a file: {error}; using reserved descriptors, and requests wait \
                 for up to {TIMEOUT:?}; raise the limit (LimitNOFILE=, ulimit -n), or lower \
                 --open-files"
            )
        });
        self.0.reserve.release()
    }

    /// Notifies a waiting request that a file was closed.
    fn on_closed(&self) {
        self.0.reserve.fill();
        self.0.closed.notify_one();
    }

    /// Returns the waiting state of a request that begins now.
    pub(super) fn patience(&self) -> Patience<'_> {
        Patience { store: self, until: Instant::now() + TIMEOUT, pause: PAUSES[0] }
    }

    /// Opens a file, inspects it with `look`, and keeps it open for a [`Reader`].
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system; see [`is_shortage`].
    pub(super) async fn inspect<T: Send + 'static>(
        &self,
        client: SocketAddr,
        place: Place,
        look: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<(T, Kept)> {
        let store = self.clone();
        self.in_background(move || {
            let file = store.with_room(|| place.open())?;
            let looked = look(&file)?;
            let key = AtomicU64::new(store.idle().put(client, file));
            Ok((looked, Kept { store, key, client, place }))
        })
        .await
    }

    /// Calls a function that may wait for a disk. If the request is canceled in the meantime, its
    /// permit is released only when the function has returned. The number of threads is therefore
    /// limited, no matter how many requests clients make and cancel.
    pub(super) async fn in_background<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = self.0.reads.clone().acquire_owned().await.map_err(io::Error::other)?;
        let called = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call()
        });
        called.await.map_err(io::Error::other)?
    }

    /// Returns the number of open files that are not being read.
    #[cfg(test)]
    pub(super) fn idle_files(&self) -> usize {
        self.idle().files.len()
    }
}

/// Limits how long a request waits for descriptors or memory that the machine lacks.
pub(super) struct Patience<'a> {
    store: &'a Store,
    until: Instant,
    pause: Duration,
}

impl Patience<'_> {
    /// Returns whether to retry after `error`. If so, waits for a pause or until a file is closed.
    pub(super) async fn permits(&mut self, error: &io::Error) -> bool {
        if !is_shortage(error) || Instant::now() >= self.until {
            return false;
        }
        let _ = tokio::time::timeout(self.pause, self.store.0.closed.notified()).await;
        self.pause = (2 * self.pause).min(PAUSES[1]);
        true
    }
}

/// A file's entry in the store. Dropping it closes the file.
#[derive(Debug)]
pub(super) struct Kept {
    store: Store,
    /// The key among the idle files, which changes each time the file is read.
    key: AtomicU64,
    client: SocketAddr,
    place: Place,
}

impl Kept {
    /// Returns the file, unless it was closed to make room.
    fn take(&self) -> Option<File> {
        self.store.idle().take(self.key.load(Ordering::Relaxed))
    }

    /// Opens the file again, if it is still the same version.
    fn open(&self, identity: Identity) -> io::Result<File> {
        self.store.with_room(|| self.place.open()).and_then(|file| identity.check(file))
    }

    /// Keeps the file open until the next piece is read.
    fn put_back(&self, file: File) {
        self.key.store(self.store.idle().put(self.client, file), Ordering::Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.store.idle().take(self.key.load(Ordering::Relaxed)));
        self.store.on_closed();
    }
}

/// Reads a part of a file, piece by piece, as fast as the client accepts the data.
#[derive(Debug)]
pub(super) struct Reader {
    /// The file's entry, shared with the reading thread, which may outlive the request.
    kept: Arc<Kept>,
    share: Share,
    identity: Identity,
    at: u64,
    end: u64,
}

impl Reader {
    /// Reads from `start` to `end` of an [inspected](Store::inspect) file.
    pub(super) fn new(kept: Kept, share: Share, identity: Identity, start: u64, end: u64) -> Self {
        Self { kept: Arc::new(kept), share, identity, at: start, end }
    }

    /// Returns whether the entire part was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// Sets the callback `reset` for resetting the response when memory is low and the client
    /// accepts no data.
    pub(super) fn on_shortage(&self, reset: impl FnOnce() + Send + 'static) {
        self.share.on_shortage(reset);
    }

    /// Returns the next piece as soon as there is memory for it, and an empty piece at the end.
    /// `credit` is the client's remaining flow control credit, in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or is no longer the version that was announced.
    pub(super) async fn next(&mut self, credit: usize) -> io::Result<Bytes> {
        let wanted = (credit.min(PIECE) as u64).min(self.end - self.at);
        if wanted == 0 {
            return Ok(Bytes::new());
        }
        let held = self.share.hold(wanted + OVERHEAD).await;
        let store = self.kept.store.clone();
        let mut patience = store.patience();
        let piece = loop {
            match self.read(wanted).await {
                Err(error) if patience.permits(&error).await => {}
                read => break read?,
            }
        };
        if piece.is_empty() {
            return Err(io::Error::other("the file was truncated"));
        }
        self.at += piece.len() as u64;
        Ok(Bytes::from_owner(Piece { piece, _held: held }))
    }

    /// Reads up to `wanted` bytes.
    async fn read(&self, wanted: u64) -> io::Result<Vec<u8>> {
        let kept = self.kept.clone();
        let (identity, at, end) = (self.identity, self.at, self.end);
        // The buffer is allocated here because the allocator keeps spare memory for each thread
        // that allocates.
        let mut piece = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
        let read = move || {
            let file = kept.take().map_or_else(|| kept.open(identity), Ok)?;
            let count = read_at(&file, &mut piece, at)?;
            piece.truncate(count);
            // The file is put back here, and not when the request continues, which may be much
            // later: otherwise, the limit on open files would not hold.
            if at + (count as u64) < end {
                kept.put_back(file);
            }
            Ok(piece)
        };
        self.kept.store.in_background(read).await
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], start: u64) -> io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = buffer.get_mut(count..).filter(|rest| !rest.is_empty()) {
        match system::read_at(file, rest, start + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// A piece of content, which occupies content memory until its last byte is acknowledged.
struct Piece {
    piece: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
