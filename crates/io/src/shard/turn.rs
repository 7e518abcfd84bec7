//! How much one turn of a shard receives.

use clearway_udp::RECEIVE_BUFFERS;

/// How often a turn receives from a socket while there is more, each time as much as the buffers hold: so many ACKs and requests
/// of different connections, which the kernel does not merge, come in one turn, and what they lead to goes out in few batches.
pub(super) const RECEIVING_CALLS: usize = 32;
/// How often from a socket beside another one, which long headers come to: what connections need does not wait for long.
pub(super) const RECEIVING_CALLS_BESIDE: usize = 8;
/// Maximum number of datagrams (not coalesced by GRO) to receive per socket per turn.
pub(super) const RECEIVED_PER_TURN: usize = RECEIVING_CALLS * RECEIVE_BUFFERS;
/// The same for a socket that shares the turn with another one.
pub(super) const RECEIVED_PER_TURN_BESIDE: usize = RECEIVING_CALLS_BESIDE * RECEIVE_BUFFERS;
/// After so many bytes a turn receives no more from a socket.
pub(super) const RECEIVING_BYTES: u64 = 2 << 20;
