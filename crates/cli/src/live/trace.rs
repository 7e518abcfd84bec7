//! The log of one connection: its beginning, and the newest of what follows.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

/// What is kept for those who come late, beside the beginning, which makes sense of the rest.
const MAX_BYTES: usize = 16 << 20;

/// A log that is read while it is written. Who reads too slowly misses records, but never half of one.
#[derive(Debug)]
pub(crate) struct Trace {
    name: String,
    log: Mutex<Log>,
    grown: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    /// Pieces of whole records. The first is kept.
    beginning: Option<Bytes>,
    recent: VecDeque<Bytes>,
    /// Pieces that came between the beginning and what is recent.
    forgotten: u64,
    bytes: usize,
    has_ended: bool,
}

/// What comes next for a reader.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    Piece(Bytes),
    Later,
    Nothing,
}

impl Log {
    fn append(&mut self, piece: Bytes) {
        if self.beginning.is_none() {
            self.beginning = Some(piece);
            return;
        }
        self.bytes = self.bytes.saturating_add(piece.len());
        self.recent.push_back(piece);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
            self.forgotten = self.forgotten.saturating_add(1);
        }
    }

    /// `position` counts the pieces before the next one.
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
            None if self.has_ended => Next::Nothing,
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

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it, and what is still to come.
    pub(super) fn follow(
        self: Arc<Self>,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        let grown = self.grown.subscribe();
        unfold((self, grown, 0), |(trace, mut grown, mut position)| async move {
            loop {
                let next = trace.lock().next(&mut position);
                match next {
                    Next::Piece(piece) => return Some((Ok(piece), (trace, grown, position))),
                    Next::Later => grown.changed().await.ok()?,
                    Next::Nothing => return None,
                }
            }
        })
    }
}

/// Where a connection writes its log: memory, so that it never waits.
#[derive(Debug)]
pub(super) struct Writer(pub(super) Arc<Trace>);

impl Write for Writer {
    fn write(&mut self, records: &[u8]) -> io::Result<usize> {
        self.0.lock().append(Bytes::copy_from_slice(records));
        self.0.grown.send_replace(());
        Ok(records.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.grown.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test]
    async fn who_comes_late_gets_the_beginning_and_what_is_recent() {
        let trace = Arc::new(Trace::new("a".to_owned()));
        let mut writer = Writer(Arc::clone(&trace));
        writer.write_all(b"beginning").unwrap();
        let piece = vec![1; MAX_BYTES / 4];
        for _ in 0..5 {
            writer.write_all(&piece).unwrap();
        }
        let mut early = Box::pin(Arc::clone(&trace).follow());
        assert_eq!(early.next().await, Some(Ok(Bytes::from_static(b"beginning"))));
        writer.write_all(b"last").unwrap();
        drop(writer);
        let rest: Vec<_> = early.collect().await;
        assert_eq!(rest.len(), 4);
        assert_eq!(rest[3], Ok(Bytes::from_static(b"last")));
    }

    #[tokio::test]
    async fn a_reader_waits_for_what_is_written_later() {
        let trace = Arc::new(Trace::new("a".to_owned()));
        let mut writer = Writer(Arc::clone(&trace));
        let reading = tokio::spawn(Arc::clone(&trace).follow().collect::<Vec<_>>());
        tokio::task::yield_now().await;
        writer.write_all(b"1").unwrap();
        tokio::task::yield_now().await;
        writer.write_all(b"2").unwrap();
        drop(writer);
        assert_eq!(reading.await.unwrap(), [Ok(Bytes::from("1")), Ok(Bytes::from("2"))]);
        assert!(trace.has_ended());
    }
}
