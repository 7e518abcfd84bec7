//! Non-blocking output: a thread writes the lines, and lines that it cannot write in time are
//! dropped and counted.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt;

/// Maximum number of queued lines.
const MAX_LINES: usize = 4096;
/// Maximum size of the queued lines, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Interval at which a thread that waits for the writer checks whether to keep waiting.
const INTERVAL: Duration = Duration::from_millis(5);

enum Message {
    /// Bytes to write. They end with a newline unless they draw a progress bar.
    Line(Vec<u8>),
    /// A line whose sender waits for the outcome.
    Result(Vec<u8>, SyncSender<io::Result<()>>),
    /// Flush everything queued before this message, then drop the sender to acknowledge.
    Settle(SyncSender<()>),
}

/// The queue of lines for one stream.
pub(crate) struct Lines {
    sender: SyncSender<Message>,
    counts: Arc<Counts>,
    /// The stream's name in messages.
    stream: &'static str,
}

#[derive(Default)]
struct Counts {
    /// Total size of the queued lines, in bytes.
    waiting: AtomicUsize,
    /// Number of lines dropped since the last report in the stream.
    missing: AtomicU64,
    /// Total number of dropped lines.
    dropped: AtomicU64,
}

impl Counts {
    fn add_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Lines {
    /// Starts the thread that writes to `output`. It calls `report` when a line cannot be written
    /// although the previous one was.
    pub(crate) fn start(
        thread: &str,
        stream: &'static str,
        mut output: impl Write + Send + 'static,
        report: impl Fn(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let (lines, receiver) = Self::new(stream, MAX_LINES);
        let counts = lines.counts.clone();
        let thread = thread::Builder::new().name(thread.to_owned());
        thread.spawn(move || write(&receiver, &counts, &mut output, report))?;
        Ok(lines)
    }

    fn new(stream: &'static str, capacity: usize) -> (Self, Receiver<Message>) {
        let (sender, receiver) = sync_channel(capacity);
        (Self { sender, counts: Arc::default(), stream }, receiver)
    }

    /// Queues a line, unless the queue is full; never blocks. A line that does not fit is counted
    /// as dropped, and the next one that fits is preceded by a line with the number of missing
    /// lines.
    pub(crate) fn add(&self, line: Vec<u8>) {
        if self.counts.missing.load(Ordering::Relaxed) > 0 {
            let missing = self.counts.missing.swap(0, Ordering::Relaxed);
            if missing > 0 && !self.try_add(shortfall(self.stream, missing)) {
                self.counts.missing.fetch_add(missing, Ordering::Relaxed);
            }
        }
        if !self.try_add(line) {
            self.counts.missing.fetch_add(1, Ordering::Relaxed);
            self.counts.add_dropped();
        }
    }

    /// Queues bytes, unless the queue is full; never blocks. Returns whether they were queued.
    pub(crate) fn try_add(&self, bytes: Vec<u8>) -> bool {
        let size = bytes.len();
        let before = self.counts.waiting.fetch_add(size, Ordering::Relaxed);
        let has_room = before.saturating_add(size) <= MAX_BYTES
            && self.sender.try_send(Message::Line(bytes)).is_ok();
        if !has_room {
            self.counts.waiting.fetch_sub(size, Ordering::Relaxed);
        }
        has_room
    }

    /// Writes a line after everything that is queued, no matter how long this takes.
    pub(crate) fn write(&self, line: Vec<u8>) -> io::Result<()> {
        let ended = |_| io::Error::from(ErrorKind::BrokenPipe);
        let (sender, outcome) = sync_channel(1);
        self.sender.send(Message::Result(line, sender)).map_err(|_| ended(()))?;
        outcome.recv().map_err(|_| ended(()))?
    }

    /// Writes a line after everything that is queued. Waits for at most `patience`, and not at all
    /// after the user has interrupted the program twice. Returns `None` if the outcome is unknown.
    pub(crate) fn write_within(&self, line: Vec<u8>, patience: Duration) -> Option<io::Result<()>> {
        let deadline = Instant::now() + patience;
        let (sender, outcome) = sync_channel(1);
        if self.sender.try_send(Message::Result(line, sender)).is_err() {
            self.counts.add_dropped();
            return None;
        }
        loop {
            match outcome.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) if may_wait_until(deadline) => {}
                outcome => return outcome.ok(),
            }
        }
    }

    /// Waits until everything queued so far is written, for at most `patience`, and not at all
    /// after the user has interrupted the program twice.
    pub(crate) fn settle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let (sender, receiver) = sync_channel(0);
        let mut message = Message::Settle(sender);
        while let Err(TrySendError::Full(unsent)) = self.sender.try_send(message) {
            if !may_wait_until(deadline) {
                return;
            }
            message = unsent;
            thread::sleep(INTERVAL);
        }
        // The other end acknowledges by dropping its sender.
        while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(INTERVAL) {
            if !may_wait_until(deadline) {
                return;
            }
        }
    }

    /// Returns how many lines were dropped, because too many were queued or because they could not
    /// be written.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

/// Returns whether a thread may keep waiting for the writer.
fn may_wait_until(deadline: Instant) -> bool {
    Instant::now() < deadline && !interrupt::is_urgent()
}

fn shortfall(stream: &str, missing: u64) -> Vec<u8> {
    let are_missing = if missing == 1 { "line is" } else { "lines are" };
    format!("{missing} {are_missing} missing here: {stream} is too slow\n").into_bytes()
}

fn write(
    lines: &Receiver<Message>,
    counts: &Counts,
    output: &mut impl Write,
    report: impl Fn(&io::Error),
) {
    let mut is_failing = false;
    let mut write = |line: &[u8]| output.write_all(line).and_then(|()| output.flush());
    for message in lines {
        match message {
            Message::Line(line) => {
                let written = write(&line);
                if let Err(error) = &written {
                    counts.add_dropped();
                    if !is_failing {
                        report(error);
                    }
                }
                is_failing = written.is_err();
                counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            // The receiver waits for this result.
            Message::Result(line, outcome) => drop(outcome.send(write(&line))),
            Message::Settle(settled) => drop(settled),
        }
    }
}

/// Output of a progress bar, collected until the frame is complete.
#[derive(Debug, Default)]
pub(crate) struct Frame(Mutex<Vec<u8>>);

impl Frame {
    pub(crate) fn append(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "standard error";

    /// Returns the output that is written after the last line was added.
    fn rest(lines: Lines, receiver: &Receiver<Message>) -> String {
        let (counts, mut output) = (lines.counts.clone(), Vec::new());
        drop(lines);
        write(receiver, &counts, &mut output, |_| {});
        assert_eq!(counts.waiting.load(Ordering::Relaxed), 0);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn lines_without_room_are_counted_and_nobody_waits() {
        let (lines, receiver) = Lines::new(STREAM, 2);
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            lines.add(line.into());
        }
        assert_eq!(lines.dropped(), 2);
        let mut output = Vec::new();
        for message in receiver.try_iter() {
            let Message::Line(line) = message else { panic!("no sender waits") };
            lines.counts.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            output.extend(line);
        }
        lines.add(b"e\n".to_vec());
        assert_eq!(lines.dropped(), 2);
        let text = String::from_utf8(output).unwrap() + &rest(lines, &receiver);
        assert_eq!(text, "a\nb\n2 lines are missing here: standard error is too slow\ne\n");
    }

    #[test]
    fn the_size_of_what_waits_is_bounded() {
        let (lines, receiver) = Lines::new(STREAM, MAX_LINES);
        for _ in 0..3 {
            lines.add(vec![b'x'; MAX_BYTES / 2]);
        }
        assert_eq!(lines.dropped(), 1);
        // Even a very long line does not block later ones forever.
        lines.add(vec![b'x'; 2 * MAX_BYTES]);
        assert_eq!((lines.dropped(), rest(lines, &receiver).len()), (2, MAX_BYTES));
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let reports = Arc::new(AtomicU64::new(0));
        let report = {
            let reports = reports.clone();
            move |_: &io::Error| {
                reports.fetch_add(1, Ordering::Relaxed);
            }
        };
        let lines = Lines::start("test", STREAM, Broken, report).unwrap();
        lines.add(b"a\n".to_vec());
        lines.add(b"b\n".to_vec());
        let error = lines.write(b"b\n".to_vec()).unwrap_err();
        assert_eq!((error.kind(), lines.dropped()), (ErrorKind::BrokenPipe, 2));
        assert_eq!(reports.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_end_waits_for_what_was_added_but_not_for_ever() {
        let (lines, receiver) = Lines::new(STREAM, 8);
        lines.add(b"a\n".to_vec());
        // No thread writes the lines.
        lines.settle(Duration::from_millis(1));
        let counts = lines.counts.clone();
        let writing = thread::spawn(move || {
            let mut output = Vec::new();
            write(&receiver, &counts, &mut output, |_| {});
            output
        });
        lines.add(b"b\n".to_vec());
        lines.settle(Duration::from_secs(10));
        drop(lines);
        assert_eq!(writing.join().unwrap(), b"a\nb\n");
    }
}
