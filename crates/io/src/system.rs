//! Abstraction of differences between operating systems: how a thread is woken, how the kernel
//! selects among the sockets of one address, hot restart, and the source of random seeds. No other
//! file of this crate depends on the target system.
//!
//! On all systems except Linux, threads are woken through [`loopback`]; with
//! `CLEARWAY_POLLER=portable`, tests use it on Linux, too.

mod hot_restart_error;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test, feature = "testing"))]
mod loopback;
#[cfg(not(target_os = "linux"))]
mod other;
mod poller;
pub(crate) mod sources;
pub(crate) mod steering;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;

pub use hot_restart_error::HotRestartError;
pub(crate) use poller::Poller;
