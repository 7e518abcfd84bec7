//! What the library reports with `tracing`, on standard error.
//!
//! A thread writes the lines. What reports, a shard among others, never waits for standard error: if too many lines wait,
//! further ones are left out, and counted.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::Failure;
use crate::output;

/// How many lines may wait for standard error.
const MAX_WAITING: usize = 4096;
/// How long the program waits at its end for the lines to be written.
const PATIENCE: Duration = Duration::from_secs(1);

static LINES: OnceLock<Lines> = OnceLock::new();

/// The option for what is reported.
#[derive(Args, Debug)]
pub(crate) struct LogOptions {
    /// Report on standard error what happens to connections: error, warn, info, debug or trace; or a list of
    /// TARGET=LEVEL with commas between them, such as warn,clearway_io=debug [default: $RUST_LOG, else nothing].
    #[arg(long = "log", value_name = "LEVEL", value_parser = parse)]
    filter: Option<Targets>,
}

/// A level for everything, or levels by target. A target without a level is refused: it is rather a level with a mistake.
fn parse(input: &str) -> Result<Targets, String> {
    for part in input.split(',') {
        // An empty word is a level to `tracing`.
        let is_level = !part.is_empty() && part.parse::<LevelFilter>().is_ok();
        if !is_level && !part.contains('=') {
            return Err(format!(
                "\"{part}\" is no level; these are error, warn, info, debug, trace"
            ));
        }
    }
    input.parse::<Targets>().map_err(|error| error.to_string())
}

impl LogOptions {
    /// Begins to report, if the option or RUST_LOG asks for it.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        let Some(filter) = self.filter.clone().or_else(from_environment) else { return Ok(()) };
        let lines = Lines::start()
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let lines = LINES.get_or_init(|| lines);
        let layer = layer().with_writer(lines).with_filter(filter);
        // Only this function sets a subscriber, and it is called once.
        let _ = tracing_subscriber::registry().with(layer).try_init();
        Ok(())
    }
}

fn from_environment() -> Option<Targets> {
    let text = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(filter) => Some(filter),
        Err(error) => {
            output::status(&format!("clearway: RUST_LOG is ignored: {error}"));
            None
        }
    }
}

/// Waits until the lines are written, for at most a second.
pub(crate) fn finish() {
    if let Some(lines) = LINES.get() {
        lines.finish(PATIENCE);
    }
}

enum Message {
    Line(Vec<u8>),
    /// All lines before this are to be written, then this is to be dropped.
    End(SyncSender<()>),
}

/// The lines that wait to be written.
struct Lines {
    sender: SyncSender<Message>,
    /// How many were left out because too many waited.
    missing: AtomicU64,
}

impl Lines {
    fn start() -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let thread = thread::Builder::new().name("clearway-log".to_owned());
        thread.spawn(move || write(&receiver, &mut io::stderr()))?;
        Ok(Self { sender, missing: AtomicU64::new(0) })
    }

    fn add(&self, line: &[u8]) {
        if self.missing.load(Ordering::Relaxed) > 0 {
            let missing = self.missing.swap(0, Ordering::Relaxed);
            if missing > 0 && self.sender.try_send(Message::Line(shortfall(missing))).is_err() {
                self.missing.fetch_add(missing, Ordering::Relaxed);
            }
        }
        if self.sender.try_send(Message::Line(line.to_vec())).is_err() {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn finish(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let (sender, receiver) = sync_channel(0);
        let mut message = Message::End(sender);
        while let Err(TrySendError::Full(unsent)) = self.sender.try_send(message) {
            if Instant::now() >= deadline {
                return;
            }
            message = unsent;
            thread::sleep(Duration::from_millis(5));
        }
        // That the other end is dropped is the answer.
        let _ = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

fn shortfall(missing: u64) -> Vec<u8> {
    format!("clearway: {missing} lines are missing here: standard error is too slow\n").into_bytes()
}

fn write(lines: &Receiver<Message>, output: &mut impl Write) {
    for message in lines {
        match message {
            // If standard error cannot be written, that cannot be reported either.
            Message::Line(line) => drop(output.write_all(&line)),
            Message::End(end) => drop(end),
        }
    }
}

impl<'a> MakeWriter<'a> for &'static Lines {
    type Writer = OneLine;

    fn make_writer(&'a self) -> OneLine {
        OneLine(self)
    }
}

/// Takes a line, which comes in one piece.
struct OneLine(&'static Lines);

impl Write for OneLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_lists_of_targets_are_filters_and_words_are_not() {
        for good in ["info", "TRACE", "off", "warn,clearway_io=debug", "clearway_io=info"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["inof", "", "clearway_io", "info,x", "clearway_io=loud"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_reports_does_not_wait_and_missing_lines_are_counted() {
        let (sender, receiver) = sync_channel(2);
        let lines = Lines { sender, missing: AtomicU64::new(0) };
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            lines.add(line.as_bytes());
        }
        let mut output = Vec::new();
        for message in receiver.try_iter() {
            let Message::Line(line) = message else { panic!("nothing has ended") };
            output.extend(line);
        }
        lines.add(b"e\n");
        drop(lines);
        write(&receiver, &mut output);
        let text = String::from_utf8(output).unwrap();
        assert_eq!(text, format!("a\nb\n{}e\n", String::from_utf8(shortfall(2)).unwrap()));
    }

    #[test]
    fn the_end_waits_for_what_was_reported_but_not_for_ever() {
        let (sender, receiver) = sync_channel(8);
        let lines = Lines { sender, missing: AtomicU64::new(0) };
        lines.add(b"a\n");
        // Nobody writes.
        lines.finish(Duration::from_millis(1));
        let writing = thread::spawn(move || {
            let mut output = Vec::new();
            write(&receiver, &mut output);
            output
        });
        lines.add(b"b\n");
        lines.finish(Duration::from_secs(10));
        drop(lines);
        assert_eq!(writing.join().unwrap(), b"a\nb\n");
    }
}
