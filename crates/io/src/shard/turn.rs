//! Limits of what a shard receives in one turn.

use clearway_udp::RECEIVE_BUFFERS;

/// Maximum number of receive calls per socket and turn, each of which fills up to all buffers: so
/// ACKs and requests of many connections, which the kernel does not coalesce, are received in one
/// turn, and the responses are sent in few batches.
pub(super) const RECEIVING_CALLS: usize = 32;
/// The same for a secondary socket, for long headers: connections' packets do not wait for long.
pub(super) const RECEIVING_CALLS_BESIDE: usize = 8;
/// Maximum number of datagrams (not coalesced by GRO) to receive per socket per turn.
pub(super) const RECEIVED_PER_TURN: usize = RECEIVING_CALLS * RECEIVE_BUFFERS;
/// The same for a secondary socket.
pub(super) const RECEIVED_PER_TURN_BESIDE: usize = RECEIVING_CALLS_BESIDE * RECEIVE_BUFFERS;
/// A turn stops receiving from a socket after this many bytes.
pub(super) const RECEIVING_BYTES: u64 = 2 << 20;
