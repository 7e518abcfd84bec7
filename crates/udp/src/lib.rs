//! A UDP socket that sends and receives datagrams in batches, for implementations of protocols over
//! UDP.
//!
//! * [`Socket`] sends datagrams of one size with one call ([`Batch`], segmentation offload), and
//!   several batches with one call. It splits what the kernel has coalesced (GRO) into single
//!   datagrams. It reports the ECN field and the destination address of each datagram, and the
//!   destinations that ICMP messages report as unreachable.
//! * [`ReceiveFailures`] and [`SendFailure`] classify kernel errors.
//! * [`BusyPoll`] and [`poll`] wait for descriptors, using the time of a [`Clock`].
//!
//! Sizes are in bytes of UDP payload. Datagrams are sent with the Don't Fragment bit set (RFC 9000
//! §14), and sockets request buffers of [`SOCKET_BUFFER_SIZE`].
//!
//! No call on a socket blocks or keeps state between calls: the caller's `progress` records which
//! part of a batch was sent. So a caller, whether a thread or a task, may stop after any call
//! without losing data that the kernel has not accepted. The crate has neither threads nor
//! connections. Each instance serves one thread at a time.
//!
//! ```
//! use std::time::Duration;
//!
//! use clearway_udp::{Batch, EcnCodepoint, ReceiveBuffer, SendOutcome, Socket, poll};
//! use rustix::event::{PollFd, PollFlags};
//!
//! let mut sender = Socket::bind("127.0.0.1:0".parse().unwrap())?;
//! let mut receiver = Socket::bind("127.0.0.1:0".parse().unwrap())?;
//!
//! // Three datagrams in one call, of 1000, 1000 and 500 bytes.
//! let batch = Batch {
//!     destination: receiver.local_address(),
//!     source_ip: None,
//!     ecn: EcnCodepoint::Ect0,
//!     contents: &[7; 2500],
//!     segment_size: Some(1000),
//! };
//! assert!(matches!(sender.send(&batch, &mut 0), SendOutcome::Sent));
//!
//! let (mut buffer, mut sizes) = (ReceiveBuffer::new(), Vec::new());
//! while sizes.len() < 3 {
//!     poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(Duration::from_secs(5)))?;
//!     receiver.receive(&mut buffer, |meta, datagram| {
//!         assert_eq!((meta.remote, meta.ecn), (sender.local_address(), EcnCodepoint::Ect0));
//!         sizes.push(datagram.len());
//!     })?;
//! }
//! assert_eq!(sizes, [1000, 1000, 500]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Only Linux supports the error queue, several batches in one call, and several sockets at one
//! address. On other systems each batch takes one call, [`Socket::unreachable`] reports nothing,
//! and [`Socket::allow_shared_address`] fails.

mod busy_poll;
mod clock;
mod ecn;
mod receive_failures;
mod send_failure;
mod socket;

pub use busy_poll::{BusyPoll, MAX_BUSY_POLL, Waited};
pub use clock::{Clock, poll};
pub use ecn::EcnCodepoint;
pub use receive_failures::{ReceiveFailures, Verdict, is_final};
pub use send_failure::SendFailure;
#[cfg(any(test, feature = "faults"))]
pub use socket::faults;
pub use socket::{
    Batch, MAX_BATCH_BYTES, MAX_TOGETHER, Meta, RECEIVE_BUFFERS, ReceiveBuffer, SOCKET_BUFFER_SIZE,
    SendOutcome, Socket, is_report, new_state,
};
