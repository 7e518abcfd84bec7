//! Functions for Linux, macOS and FreeBSD.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::Ended;

/// The signals that the thread receives.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP, sent when the terminal is closed; `None` if the program has no terminal.
    hang_up: Option<Signal>,
    /// Handles to notify of a SIGHUP that arrives while the terminal exists, or if there never was
    /// one. If empty, SIGHUP always ends the program.
    reload: Vec<Arc<Notify>>,
    /// Whether the program was started in a terminal.
    has_terminal: bool,
}

impl Signals {
    pub(crate) fn listen(reload: Vec<Arc<Notify>>) -> io::Result<Self> {
        // With a handler for SIGXFSZ, a write beyond the file size limit returns an error instead
        // of ending the program. The signal itself is ignored.
        drop(signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?);
        // nohup(1) detaches the program from the terminal, so that it continues when the terminal
        // is closed.
        let has_terminal = io::stdin().is_terminal();
        let hears_hang_up = has_terminal || !reload.is_empty();
        let hang_up = hears_hang_up.then(|| signal(SignalKind::hangup())).transpose()?;
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate, hang_up, reload, has_terminal })
    }

    /// Waits for the next signal that ends the program.
    pub(crate) async fn next(&mut self) -> Ended {
        loop {
            let hung_up = async {
                match &mut self.hang_up {
                    Some(hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => return Ended::Interrupted,
                _ = self.terminate.recv() => return Ended::Terminated,
                _ = hung_up => {
                    // A closed terminal no longer counts as a terminal.
                    let is_there = !self.has_terminal || io::stdin().is_terminal();
                    if self.reload.is_empty() || !is_there {
                        return Ended::HungUp;
                    }
                    self.reload.iter().for_each(|reload| reload.notify_one());
                }
            }
        }
    }
}

/// Returns the columns and rows of standard output, if it is a terminal.
pub(crate) fn output_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Returns the columns and rows of standard error, if it is a terminal.
pub(crate) fn error_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Returns whether the terminal behind standard error interprets escape sequences that move the
/// cursor.
pub(crate) fn understands_sequences() -> bool {
    true
}

/// Returns the length of a file name in the unit of [`LONGEST_NAME`](crate::whole_file): bytes.
pub(crate) fn name_length(name: &OsStr) -> usize {
    name.as_bytes().len()
}

/// Returns the first `length` bytes of a file name.
pub(crate) fn shortened(name: &OsStr, length: usize) -> &OsStr {
    name.as_bytes().get(..length).map_or(name, OsStr::from_bytes)
}
