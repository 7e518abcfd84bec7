//! Limits on what a shard receives in one turn.

use clearway_udp::RECEIVE_BUFFERS;

/// Maximum number of receive calls per socket and turn; each call fills up to all buffers. So ACKs
/// and requests of many connections, which the kernel does not coalesce, are received in one turn,
/// and the responses are sent in few batches.
pub(super) const RECEIVING_CALLS: usize = 32;
/// Maximum number of receive calls per turn for a secondary socket (for long headers), so that
/// connections' packets do not wait for long.
pub(super) const RECEIVING_CALLS_BESIDE: usize = 8;
/// Maximum number of datagrams (not coalesced by GRO) to receive per socket per turn.
pub(super) const RECEIVED_PER_TURN: usize = RECEIVING_CALLS * RECEIVE_BUFFERS;
/// Maximum number of datagrams (not coalesced by GRO) to receive per turn from a secondary socket.
pub(super) const RECEIVED_PER_TURN_BESIDE: usize = RECEIVING_CALLS_BESIDE * RECEIVE_BUFFERS;
/// Number of bytes after which a turn stops receiving from a socket.
pub(super) const RECEIVING_BYTES: u64 = 2 << 20;
