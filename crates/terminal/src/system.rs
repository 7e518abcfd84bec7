//! Differences between operating systems: signals, the size of a terminal, and the length of file
//! names. No other file of this crate checks the target system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The signal that ended the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// SIGINT: Ctrl-C.
    Interrupted,
    /// SIGTERM, as sent by service managers; on Windows, Ctrl-Break or a shutdown.
    Terminated,
    /// SIGHUP: the terminal was closed; on Windows, also a logoff.
    HungUp,
}

impl Ended {
    /// Returns the exit status of a program that this signal ended early: 128 plus the signal
    /// number, as in shells.
    pub fn exit_status(self) -> u8 {
        // The numbers are those of `kill -l` (POSIX), even on systems without signals.
        0x80 | match self {
            Self::Interrupted => 2,
            Self::Terminated => 15,
            Self::HungUp => 1,
        }
    }
}
