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
