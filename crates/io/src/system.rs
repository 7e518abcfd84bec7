//! What differs between operating systems: how a thread waits, how the kernel chooses among the sockets of one address, hot restart,
//! and where seeds come from. No other file of this crate asks which one it is compiled for.
//!
//! [`portable`] waits on all systems but Linux; with `CLEARWAY_POLLER=portable`, tests wait with it on Linux, too. What only Linux has
//! stays Linux's own in these tests: hot restart, whose pipe is a further source for either poller, and programs that steer.

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
