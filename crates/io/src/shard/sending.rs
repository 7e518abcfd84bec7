//! Sending batches of datagrams.

use std::collections::VecDeque;
use std::io::ErrorKind;

use clearway_transport::{ConnectionHandle, Endpoint, SendFailure, SocketIndex, Transmit};
use clearway_udp::{Clock, MAX_BATCH_BYTES, MAX_TOGETHER, SendOutcome};
use clearway_units::Timestamp;
use clearway_wire::preface;

use super::connections::{Connections, Reply};
use super::sockets::Sockets;
use super::warnings::Warnings;
use crate::datagrams::{batch, send_failure};
use crate::statistics::ShardStatistics;

/// Maximum number of datagrams per batch: kernels accept no more in one call.
const MAX_SEGMENTS: usize = 64;
/// Maximum number of consecutive batches of one connection.
const BATCHES_PER_TURN: usize = 4;

/// Size in bytes up to which batches are collected for one call; combining larger batches would
/// gain little.
const MAX_BYTES_TOGETHER: usize = 16 << 10;

/// The buffer in which batches are built, and the batches that the kernel has not accepted yet.
pub(super) struct Sender {
    buffer: Box<[u8]>,
    /// Number of bytes of the buffer that are in use.
    filled: usize,
    /// The batches in the buffer, in sending order.
    built: Vec<Built>,
    /// Connections whose batches the kernel has accepted, and which may have more to send.
    unfinished: VecDeque<SendTurn>,
    /// Set if the socket's send buffer was too full for the first batch.
    is_blocked: bool,
    warnings: Warnings,
    /// Whether segmentation offload (GSO) was available for the last batch.
    can_segment: bool,
}

/// A batch in the buffer.
struct Built {
    turn: SendTurn,
    transmit: Transmit,
    /// The batch's offset in the buffer.
    start: usize,
    /// Number of bytes of the batch that the kernel has accepted.
    progress: usize,
}

/// A connection's turn to send batches.
struct SendTurn {
    handle: ConnectionHandle,
    /// Number of batches that the connection may still send in this turn.
    batches: usize,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; MAX_BYTES_TOGETHER + MAX_BATCH_BYTES].into(),
            filled: 0,
            built: Vec::with_capacity(MAX_TOGETHER),
            unfinished: VecDeque::with_capacity(MAX_TOGETHER),
            is_blocked: false,
            warnings: Warnings::default(),
            can_segment: false,
        }
    }

    /// Returns the socket whose full buffer blocks a batch.
    pub(super) fn blocked_socket(&self) -> Option<SocketIndex> {
        let first = self.built.first().filter(|_| self.is_blocked);
        first.map(|built| built.transmit.socket)
    }

    /// Sends everything that the ready connections can send now; connections take turns.
    pub(super) fn send(
        &mut self,
        clock: &Clock,
        sockets: &mut Sockets,
        connections: &mut Connections,
        statistics: &mut ShardStatistics,
    ) {
        let mut context = Context { clock, sockets, connections, statistics };
        self.is_blocked = false;
        self.hand_over(&mut context);
        let mut waiting = context.connections.sending_len();
        while !self.is_blocked {
            match self.next_turn(&mut context, &mut waiting) {
                Some(turn) => self.take(&mut context, turn),
                None if self.built.is_empty() => return context.reply(),
                None => self.hand_over(&mut context),
            }
        }
    }

    /// Returns the next turn. Turns that have begun continue before those of `waiting` connections
    /// begin.
    fn next_turn(&mut self, context: &mut Context<'_>, waiting: &mut usize) -> Option<SendTurn> {
        if let Some(turn) = self.unfinished.pop_front() {
            return Some(turn);
        }
        *waiting = waiting.checked_sub(1)?;
        let handle = context.connections.next_sending()?;
        Some(SendTurn { handle, batches: BATCHES_PER_TURN })
    }

    /// Builds the next batch of a connection, and hands over the built batches unless more can be
    /// collected.
    fn take(&mut self, context: &mut Context<'_>, turn: SendTurn) {
        let SendTurn { handle, batches } = turn;
        let Some(batches) = batches.checked_sub(1) else {
            return context.connections.mark_sending(handle);
        };
        let now = context.clock.now();
        let segments = context.sockets.max_gso_segments().clamp(1, MAX_SEGMENTS);
        self.note_segmentation(segments > 1, context.statistics);
        let via = context.connections.via(handle);
        // Reserves room for the prefaces that a balancer needs, which are inserted afterward.
        let reserved = via.map_or(0, |_| segments * preface::MAX_LEN);
        let room = &mut self.buffer[self.filled..][..MAX_BATCH_BYTES];
        let transmit = |endpoint: &mut Endpoint| {
            endpoint.transmit(handle, now, &mut room[..MAX_BATCH_BYTES - reserved], segments)
        };
        let built = context.connections.guard_endpoint(now, handle, transmit).flatten();
        let Some(transmit) = built else {
            return context.connections.rest(now, handle, context.sockets);
        };
        let transmit = via.map_or(transmit, |via| via.wrap(&transmit, room));
        let turn = SendTurn { handle, batches };
        self.built.push(Built { turn, transmit, start: self.filled, progress: 0 });
        self.filled += transmit.size;
        if self.filled >= MAX_BYTES_TOGETHER || self.built.len() == MAX_TOGETHER {
            self.hand_over(context);
        }
    }

    /// Logs, and counts, that the kernel has started to reject segmentation offload (GSO).
    fn note_segmentation(&mut self, can_segment: bool, statistics: &mut ShardStatistics) {
        if self.can_segment && !can_segment {
            statistics.segmentation_refused += 1;
            tracing::warn!(
                "the kernel rejects segmentation offload (GSO): from now on, each datagram takes a \
                 separate call, which uses more CPU time; check for an interface without checksum \
                 offload or an IPsec policy"
            );
        }
        self.can_segment = can_segment;
    }

    /// Passes the built batches to the kernel until the socket's buffer is full, and reports the
    /// send time to the connections (law 2). The clock is read before the call, so that a delay in
    /// between cannot make a measured round trip too short.
    fn hand_over(&mut self, context: &mut Context<'_>) {
        while !self.built.is_empty() && !self.is_blocked {
            let now = context.clock.now();
            if self.hand_over_several(context, now) == 0 {
                self.hand_over_first(context, now);
            }
        }
        if self.built.is_empty() {
            self.filled = 0;
        }
    }

    /// Passes the first batches to the kernel in one call, if there are several. Returns how many
    /// the kernel has accepted.
    fn hand_over_several(&mut self, context: &mut Context<'_>, now: Timestamp) -> usize {
        let [Built { transmit: Transmit { socket: index, .. }, progress: 0, .. }, _, ..] =
            self.built[..]
        else {
            return 0;
        };
        let Some(socket) = context.sockets.get_mut(index) else { return 0 };
        let several = self.built.iter().take_while(|built| built.transmit.socket == index);
        let batch = |built: &Built| batch(&built.transmit, &self.buffer[built.start..]);
        let taken = socket.send_together(several.map(batch));
        if taken > 0 {
            context.statistics.send_calls += 1;
        }
        for built in self.built.drain(..taken) {
            context.sent(&built.transmit);
            context.transmitted(built.turn.handle, now);
            self.unfinished.push_back(built.turn);
        }
        taken
    }

    /// Passes the first batch to the kernel, or determines why the kernel does not accept it.
    fn hand_over_first(&mut self, context: &mut Context<'_>, now: Timestamp) {
        let Some(built) = self.built.first_mut() else { return };
        let (handle, transmit) = (built.turn.handle, built.transmit);
        // A batch for a closed socket is dropped, like datagrams that are lost in the network.
        let batch = batch(&transmit, &self.buffer[built.start..]);
        let outcome = match context.sockets.get_mut(transmit.socket) {
            Some(socket) => socket.send(&batch, &mut built.progress),
            None => SendOutcome::Failed(ErrorKind::NotConnected.into()),
        };
        match outcome {
            SendOutcome::WouldBlock => {
                context.statistics.send_blocked += 1;
                self.is_blocked = true;
                return;
            }
            SendOutcome::Sent => {
                context.statistics.send_calls += 1;
                context.sent(&transmit);
                context.transmitted(handle, now);
            }
            SendOutcome::TooLarge => {
                let refused = |endpoint: &mut Endpoint| endpoint.transmit_refused(handle, now);
                context.connections.guard_endpoint(now, handle, refused);
            }
            SendOutcome::Failed(error) => {
                tracing::debug!(
                    %error,
                    destination = %transmit.destination,
                    source = ?transmit.source_ip,
                    "cannot send"
                );
                if let Some(failures) = self.warnings.on_failure(now) {
                    tracing::warn!(
                        %error,
                        failures,
                        destination = %transmit.destination,
                        "cannot send; the datagrams count as lost; if this persists, check for a firewall rule or a missing route"
                    );
                }
                context.statistics.batches_failed += 1;
                let failure = send_failure(&error, transmit.source_ip);
                if failure == SendFailure::NoRoute {
                    context.connections.on_unreachable(now, transmit.destination);
                }
                let failed =
                    |endpoint: &mut Endpoint| endpoint.transmit_failed(handle, now, failure);
                context.connections.guard_endpoint(now, handle, failed);
            }
        }
        self.unfinished.push_back(self.built.remove(0).turn);
    }
}

/// The parts of the shard that sending needs.
struct Context<'a> {
    clock: &'a Clock,
    sockets: &'a mut Sockets,
    connections: &'a mut Connections,
    statistics: &'a mut ShardStatistics,
}

impl Context<'_> {
    /// Counts a batch that the kernel has accepted.
    fn sent(&mut self, transmit: &Transmit) {
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let datagrams = transmit.size.div_ceil(segment) as u64;
        self.statistics.on_batch_sent(datagrams, transmit.size);
    }

    /// Records that the last batch of a connection was passed to the kernel, or dropped.
    fn transmitted(&mut self, handle: ConnectionHandle, now: Timestamp) {
        let transmitted = |endpoint: &mut Endpoint| endpoint.transmitted(handle, now);
        self.connections.guard_endpoint(now, handle, transmitted);
    }

    /// Sends the replies that belong to no connection. They are optional: replies that cannot be
    /// sent immediately are dropped.
    fn reply(&mut self) {
        while let Some(Reply { mut transmit, mut contents, via }) = self.connections.next_reply() {
            if let Some(via) = via {
                contents.resize(contents.len() + preface::MAX_LEN, 0);
                transmit = via.wrap(&transmit, &mut contents);
            }
            let Some(socket) = self.sockets.get_mut(transmit.socket) else { continue };
            if matches!(socket.send(&batch(&transmit, &contents), &mut 0), SendOutcome::Sent) {
                self.statistics.send_calls += 1;
                self.sent(&transmit);
            }
        }
    }
}

#[cfg(test)]
#[path = "sending_tests.rs"]
mod tests;
