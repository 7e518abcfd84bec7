//! The log of one connection: its beginning and its newest records.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

/// Maximum size in bytes of the newest records kept for readers who connect late. The beginning of
/// the log is always kept, since the rest cannot be parsed without it.
const MAX_BYTES: usize = 16 << 20;
/// Memory overhead per piece, in bytes.
const PIECE_COST: usize = 64;

/// A log that is read while it is written. A slow reader misses records, but never gets a partial
/// one.
#[derive(Debug)]
pub(crate) struct Trace {
    name: String,
    log: Mutex<Log>,
    grown: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// The first piece, which is always kept. Every piece consists of complete records.
    beginning: Option<Bytes>,
    recent: VecDeque<Bytes>,
    /// Number of pieces that were dropped between the beginning and the recent ones.
    forgotten: u64,
    bytes: usize,
    has_ended: bool,
}

fn cost(piece: &Bytes) -> usize {
    piece.len().saturating_add(PIECE_COST)
}

/// The next item that a reader gets.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    Piece(Bytes),
    /// The reader already has all records written so far.
    Later,
    /// The log has ended.
    End,
}

impl Log {
    fn append(&mut self, piece: Bytes) {
        if self.beginning.is_none() {
            self.beginning = Some(piece);
            return;
        }
        self.bytes = self.bytes.saturating_add(cost(&piece));
        self.recent.push_back(piece);
        self.shorten(MAX_BYTES);
    }

    /// Drops the oldest pieces, except the beginning, until the others take at most `maximum`
    /// bytes.
    fn shorten(&mut self, maximum: usize) {
        while self.bytes > maximum {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(cost(&oldest));
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    fn cost(&self) -> usize {
        self.bytes.saturating_add(self.beginning.as_ref().map_or(0, cost))
    }

    /// Returns the next piece for a reader; `position` is the number of pieces before it.
    fn next(&self, position: &mut u64) -> Next {
        let piece = match position {
            0 => self.beginning.as_ref(),
            _ => {
                *position = (*position).max(self.forgotten.saturating_add(1));
                let index = position.saturating_sub(self.forgotten).saturating_sub(1);
                usize::try_from(index).ok().and_then(|index| self.recent.get(index))
            }
        };
        match piece {
            Some(piece) => {
                *position = position.saturating_add(1);
                Next::Piece(piece.clone())
            }
            None if self.has_ended => Next::End,
            None => Next::Later,
        }
    }
}

impl Trace {
    pub(super) fn new(name: String) -> Self {
        Self { name, log: Mutex::default(), grown: watch::Sender::new(()) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Returns the log's memory usage in bytes.
    pub(super) fn cost(&self) -> usize {
        self.lock().cost()
    }

    /// Drops the log's oldest pieces, except the beginning, until it uses `bytes` less memory, if
    /// possible. Returns the actual reduction.
    pub(super) fn shorten_by(&self, bytes: usize) -> usize {
        let mut log = self.lock();
        let before = log.bytes;
        log.shorten(before.saturating_sub(bytes));
        before.saturating_sub(log.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds records. Returns the log's memory usage before and after that, in bytes.
    pub(super) fn append(&self, records: &[u8]) -> (usize, usize) {
        let mut log = self.lock();
        let before = log.cost();
        log.append(Bytes::copy_from_slice(records));
        (before, log.cost())
    }

    /// Notifies readers of appended records.
    pub(super) fn notify(&self) {
        self.grown.send_replace(());
    }

    /// Marks the log as ended.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.notify();
    }

    /// Returns a stream of all kept pieces, and of all later ones until the end of the log.
    pub(super) fn follow(self: Arc<Self>) -> impl Stream<Item = Bytes> + Send + 'static {
        let grown = self.grown.subscribe();
        unfold((self, grown, 0), |(trace, mut grown, mut position)| async move {
            loop {
                let next = trace.lock().next(&mut position);
                match next {
                    Next::Piece(piece) => return Some((piece, (trace, grown, position))),
                    Next::Later => grown.changed().await.ok()?,
                    Next::End => return None,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures_util::StreamExt;

    use super::super::traces::{Traces, Writer};
    use super::*;

    #[tokio::test]
    async fn a_late_reader_gets_the_beginning_and_the_newest_records() {
        let trace = Arc::new(Trace::new("a".to_owned()));
        let mut writer = Writer { trace: Arc::clone(&trace), traces: Traces::default() };
        writer.write_all(b"beginning").unwrap();
        let piece = vec![1; MAX_BYTES / 4 - PIECE_COST];
        for _ in 0..5 {
            writer.write_all(&piece).unwrap();
        }
        let mut early = Box::pin(Arc::clone(&trace).follow());
        assert_eq!(early.next().await, Some(Bytes::from_static(b"beginning")));
        writer.write_all(b"last").unwrap();
        drop(writer);
        let rest: Vec<_> = early.collect().await;
        assert_eq!(rest.len(), 4);
        assert_eq!(rest[3], Bytes::from_static(b"last"));
    }

    #[tokio::test]
    async fn a_reader_waits_for_later_records() {
        let trace = Arc::new(Trace::new("a".to_owned()));
        let mut writer = Writer { trace: Arc::clone(&trace), traces: Traces::default() };
        let reading = tokio::spawn(Arc::clone(&trace).follow().collect::<Vec<_>>());
        tokio::task::yield_now().await;
        writer.write_all(b"1").unwrap();
        tokio::task::yield_now().await;
        writer.write_all(b"2").unwrap();
        drop(writer);
        assert_eq!(reading.await.unwrap(), [Bytes::from("1"), Bytes::from("2")]);
        assert!(trace.has_ended());
    }
}
