//! Linux features that go beyond ordinary sockets.
//!
//! * [`bpf`]: eBPF programs, written instruction by instruction, and the maps that they share with
//!   their process.
//! * [`sendmmsg`]: sends several batches of datagrams in one call.
//! * [`DropReasons`]: counts dropped packets by the kernel's reason.
//! * [`DriverStatistics`]: reads the counters of network device drivers.
//!
//! This crate makes no decisions about packets: the caller chooses the programs to load and the
//! datagrams to send, and interprets the numbers. All public functions are safe to call. This is
//! the only crate of Clearway with unsafe code, in three files, where each block states its
//! justification.
//!
//! ```
//! use clearway_kernel::DriverStatistics;
//!
//! let mut statistics = DriverStatistics::open()?;
//! // The loopback device has none.
//! let error = statistics.read("lo").unwrap_err();
//! assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(not(target_os = "linux"))]
compile_error!("clearway-kernel supports only Linux");

pub mod bpf;
mod driver_statistics;
mod drop_reasons;
mod sendmmsg;

pub use driver_statistics::DriverStatistics;
pub use drop_reasons::DropReasons;
pub use sendmmsg::{MAX_MESSAGES, Message, sendmmsg};
