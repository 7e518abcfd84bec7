//! Functions for Windows, where console events take the place of signals.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use console::Term;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};
use tokio::sync::Notify;

use super::Ended;

/// The console events that the thread receives.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: CtrlC,
    break_key: CtrlBreak,
    close: CtrlClose,
    log_off: CtrlLogoff,
    shut_down: CtrlShutdown,
}

impl Signals {
    /// Starts receiving the events. Never notifies `_reload`: no console event requests a reload.
    pub(crate) fn listen(_reload: Vec<Arc<Notify>>) -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            break_key: ctrl_break()?,
            close: ctrl_close()?,
            log_off: ctrl_logoff()?,
            shut_down: ctrl_shutdown()?,
        })
    }

    /// Waits for the next event that ends the program.
    pub(crate) async fn next(&mut self) -> Ended {
        tokio::select! {
            _ = self.interrupt.recv() => Ended::Interrupted,
            _ = self.break_key.recv() => Ended::Terminated,
            _ = self.shut_down.recv() => Ended::Terminated,
            _ = self.close.recv() => Ended::HungUp,
            _ = self.log_off.recv() => Ended::HungUp,
        }
    }
}

/// Returns the columns and rows of standard output, if it is a console.
pub(crate) fn output_size() -> Option<(u16, u16)> {
    size(&Term::stdout())
}

/// Returns the columns and rows of standard error, if it is a console.
pub(crate) fn error_size() -> Option<(u16, u16)> {
    size(&Term::stderr())
}

fn size(terminal: &Term) -> Option<(u16, u16)> {
    terminal.size_checked().map(|(rows, columns)| (columns, rows))
}

/// Returns whether the console behind standard error interprets escape sequences that move the
/// cursor, after enabling this. Consoles before Windows 10 cannot do this.
pub(crate) fn understands_sequences() -> bool {
    Term::stderr().features().colors_supported()
}

/// Returns the length of a file name in the unit of [`LONGEST_NAME`](crate::whole_file): UTF-16
/// code units.
pub(crate) fn name_length(name: &OsStr) -> usize {
    name.encode_wide().count()
}

/// Returns the first `length` UTF-16 code units of a file name.
pub(crate) fn shortened(name: &OsStr, length: usize) -> OsString {
    let units: Vec<u16> = name.encode_wide().take(length).collect();
    OsString::from_wide(&units)
}
