//! Prepares the parts of a file on several threads, and returns them in file order.
//!
//! One thread cuts the file into batches. Each batch goes to any idle worker, and the receivers for
//! the results go to the reader, in file order. The number of batches in progress is limited, so
//! memory stays bounded.

use core::ops::Range;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::vec;

use super::envelope::Content;
use super::part::{Part, SharedLayout};
use super::prepare::{Prepared, prepare};
use super::reading::Damage;
use super::split::Splitter;

/// The approximate size of a batch in bytes.
const BATCH: usize = 256 << 10;
/// The maximum number of parts in a batch. This limit is needed because some parts have no bytes.
const MAX_PARTS: usize = 1 << 12;
/// The maximum number of workers. More would not help, because the consumer of the events is
/// slower.
const MAX_WORKERS: usize = 8;

/// A batch of parts that are not prepared yet.
#[derive(Debug, Default)]
struct Cut {
    bytes: Vec<u8>,
    parts: Vec<(u64, Kind, Range<usize>)>,
    damage: Option<Damage>,
}

#[derive(Clone, Debug)]
enum Kind {
    Record(SharedLayout),
    Event(SharedLayout),
    Header { of_trace: bool },
    Trace,
    TooLong,
}

/// A batch of prepared parts, each with its offset in the file.
#[derive(Debug)]
struct Batch<T> {
    parts: vec::IntoIter<(u64, Prepared<T>)>,
    damage: Option<Damage>,
}

/// The receivers of the batches, in file order.
type Batches<T> = Receiver<Receiver<Batch<T>>>;

/// The reader's handle to the threads that prepare parts.
#[derive(Debug)]
pub(super) struct Pool<T> {
    /// The splitter and the number of workers, until the first call of [`next`](Self::next) starts
    /// the threads.
    waiting: Option<(Splitter, usize)>,
    batches: Option<Batches<T>>,
    present: Option<Batch<T>>,
    offset: u64,
}

/// Returns the number of workers for this machine. Zero if the machine runs only one thread at a
/// time.
pub(super) fn workers() -> usize {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    if threads < 2 { 0 } else { threads.min(MAX_WORKERS) }
}

impl<T: Content> Pool<T> {
    /// Creates a pool, which reads nothing before the first call of [`next`](Self::next).
    pub(super) const fn new(splitter: Splitter, workers: usize) -> Self {
        Self { waiting: Some((splitter, workers)), batches: None, present: None, offset: 0 }
    }

    /// Returns the next part, or `None` at the end and after damage.
    pub(super) fn next(&mut self) -> Result<Option<Prepared<T>>, Damage> {
        if let Some((splitter, workers)) = self.waiting.take() {
            self.batches = Some(start(splitter, workers));
        }
        loop {
            if let Some(batch) = &mut self.present {
                if let Some((offset, part)) = batch.parts.next() {
                    self.offset = offset;
                    return Ok(Some(part));
                }
                if let Some(damage) = batch.damage.take() {
                    return Err(damage);
                }
            }
            // At the end of the file, the cutting thread exits, which closes the channel.
            let batch = self.batches.as_ref().and_then(|batches| batches.recv().ok());
            let Some(batch) = batch else { return Ok(None) };
            self.present = batch.recv().ok();
        }
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }
}

fn start<T: Content>(splitter: Splitter, workers: usize) -> Batches<T> {
    let waiting = workers.saturating_mul(2);
    let (to_reader, batches) = sync_channel(waiting);
    let (to_workers, work) = sync_channel(waiting);
    let work = Arc::new(Mutex::new(work));
    for _ in 0..workers {
        let work = work.clone();
        thread::spawn(move || prepare_batches(&work));
    }
    thread::spawn(move || cut(splitter, &to_workers, &to_reader));
    batches
}

type Work<T> = (Cut, SyncSender<Batch<T>>);

/// Cuts the file into batches, until its end or until the receiver is dropped.
fn cut<T>(
    mut splitter: Splitter,
    to_workers: &SyncSender<Work<T>>,
    to_reader: &SyncSender<Receiver<Batch<T>>>,
) {
    loop {
        let (cut, is_last) = next_cut(&mut splitter);
        let (result, place) = sync_channel(1);
        if to_reader.send(place).is_err() || to_workers.send((cut, result)).is_err() || is_last {
            return;
        }
    }
}

fn next_cut(splitter: &mut Splitter) -> (Cut, bool) {
    let mut cut = Cut::default();
    while cut.bytes.len() < BATCH && cut.parts.len() < MAX_PARTS {
        let (kind, bytes): (_, &[u8]) = match splitter.next() {
            Ok(Some(Part::Record { json, layout })) => (Kind::Record(layout.clone()), json),
            Ok(Some(Part::Event { json, layout })) => (Kind::Event(layout.clone()), json),
            Ok(Some(Part::Header { of_trace, json })) => (Kind::Header { of_trace }, json),
            Ok(Some(Part::Trace)) => (Kind::Trace, &[]),
            Ok(Some(Part::TooLong)) => (Kind::TooLong, &[]),
            Ok(None) => return (cut, true),
            Err(damage) => {
                cut.damage = Some(damage);
                return (cut, true);
            }
        };
        let begin = cut.bytes.len();
        cut.bytes.extend_from_slice(bytes);
        let range = begin..cut.bytes.len();
        cut.parts.push((splitter.offset(), kind, range));
    }
    (cut, false)
}

fn prepare_batches<T: Content>(work: &Mutex<Receiver<Work<T>>>) {
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((cut, result)) = next else { return };
        let parts = cut.parts.iter().map(|(offset, kind, range)| {
            let json = cut.bytes.get(range.clone()).unwrap_or_default();
            let part = match kind {
                Kind::Record(layout) => Part::Record { json, layout },
                Kind::Event(layout) => Part::Event { json, layout },
                Kind::Header { of_trace } => Part::Header { of_trace: *of_trace, json },
                Kind::Trace => Part::Trace,
                Kind::TooLong => Part::TooLong,
            };
            (*offset, prepare(part))
        });
        let parts = parts.collect::<Vec<_>>().into_iter();
        // The reader may have been dropped already.
        let _ = result.send(Batch { parts, damage: cut.damage });
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
