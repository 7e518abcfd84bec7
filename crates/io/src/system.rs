//! Differences between operating systems: how a thread waits, how the kernel selects among the
//! sockets of one address, hot restart, and the source of random seeds. No other file of this crate
//! checks the target system.
//!
//! All systems except Linux wait with [`portable`]; with `CLEARWAY_POLLER=portable`, tests use it
//! on Linux, too. Linux-only features remain in use in these tests: hot restart, whose pipe is a
//! further source for either poller, and steering programs.

mod hot_restart_error;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
mod portable;
pub(crate) mod sources;
pub(crate) mod steering;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

pub use hot_restart_error::HotRestartError;
