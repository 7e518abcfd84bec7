//! One UDP socket that moves batches of datagrams, for whoever writes a protocol over UDP.
//!
//! * [`Socket`] sends datagrams of one size with one call ([`Batch`], segmentation offload), and several batches with one call;
//!   it receives what the kernel has merged, and passes it on one by one. It knows the ECN field, the address that a datagram was
//!   sent to, and the destinations of which ICMP messages say that they cannot be reached.
//! * [`ReceiveFailures`] and [`SendFailure`] say what it means that the kernel refuses.
//! * [`BusyPoll`] waits for descriptors, [`poll`] too, by the time of a [`Clock`].
//!
//! Sizes are in bytes of UDP payload. Datagrams are sent with the Don't Fragment bit set (RFC 9000 §14), and a socket asks for
//! buffers of [`SOCKET_BUFFER_SIZE`].
//!
//! No call of a socket waits, and none has state of its own between calls: what was sent of a batch is the caller's `progress`, so a
//! caller may stop after any of them, whether it is a thread or a task, and nothing is lost that the kernel has not taken. It has
//! neither threads nor connections. An instance serves one thread at a time.
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
//! Only Linux has the error queue, several batches in one call and the sharing of one address. On other systems each batch takes
//! a call of its own, [`Socket::unreachable`] reports nothing, and [`Socket::permit_twins`] fails.

mod busy_poll;
mod clock;
mod ecn;
mod receive_failures;
mod send_failure;
mod socket;

pub use busy_poll::{BusyPoll, MAX_BUSY_POLL, Waited};
pub use clock::{Clock, poll};
pub use ecn::EcnCodepoint;
pub use receive_failures::{ReceiveFailures, Verdict};
pub use send_failure::SendFailure;
#[cfg(any(test, feature = "faults"))]
pub use socket::faults;
pub use socket::{
    Batch, MAX_BATCH_BYTES, MAX_TOGETHER, Meta, RECEIVE_BUFFERS, ReceiveBuffer, SOCKET_BUFFER_SIZE,
    SendOutcome, Socket,
};
