//! What Linux offers beyond ordinary sockets.
//!
//! * [`bpf`]: programs of eBPF, written instruction by instruction, and what they share with their process.
//! * [`sendmmsg`]: several batches of datagrams in one call.
//! * [`DropReasons`]: why the kernel drops packets.
//! * [`DriverStatistics`]: what the drivers of network devices count.
//!
//! Nothing here decides anything about packets: which program is loaded, what is sent and what a number means is the business
//! of the caller. All functions that are public are safe to call. This is the only crate of Clearway with unsafe code, in three
//! files, where each block has its reason.
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
compile_error!("clearway-kernel is about Linux, and compiles there only");

pub mod bpf;
mod driver_statistics;
mod drop_reasons;
mod sendmmsg;

pub use driver_statistics::DriverStatistics;
pub use drop_reasons::DropReasons;
pub use sendmmsg::{MAX_MESSAGES, Message, sendmmsg};
