//! Sending batches of datagrams.

use std::io::ErrorKind;

use clearway_transport::{ConnectionHandle, SocketIndex, Transmit};
use clearway_units::Timestamp;
use clearway_wire::preface;

use super::connections::{Connections, Reply};
use super::sockets::Sockets;
use crate::clock::Clock;
use crate::socket::{MAX_BATCH_BYTES, SendOutcome};
use crate::statistics::ShardStatistics;

/// A batch has at most this many datagrams: kernels take no more in one call.
const MAX_SEGMENTS: usize = 64;
/// After this many batches in a row it is another connection's turn.
const BATCHES_PER_TURN: usize = 4;

/// The one buffer in which batches are built, and the batch that the socket had no room for.
pub(super) struct Sender {
    buffer: Box<[u8]>,
    blocked: Option<Blocked>,
}

/// A batch that waits in the buffer until the socket has room.
struct Blocked {
    handle: ConnectionHandle,
    transmit: Transmit,
    progress: usize,
}

/// The result of a connection's turn to send.
enum Turn {
    /// It has no more at this time.
    Done(Timestamp),
    /// It may have more.
    Unfinished,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; MAX_BATCH_BYTES].into(), blocked: None }
    }

    /// The socket in which a batch waits for room.
    pub(super) fn blocked_socket(&self) -> Option<SocketIndex> {
        self.blocked.as_ref().map(|blocked| blocked.transmit.socket)
    }

    fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Sends what the connections that are ready can send now, each in its turn.
    pub(super) fn send(
        &mut self,
        clock: &Clock,
        sockets: &mut Sockets,
        connections: &mut Connections,
        statistics: &mut ShardStatistics,
    ) {
        let mut turn = TurnContext { clock, sockets, connections, statistics };
        if let Some(blocked) = self.blocked.take() {
            self.hand_over(&mut turn, blocked);
        }
        for _ in 0..turn.connections.sending_len() {
            if self.is_blocked() {
                return;
            }
            let Some(handle) = turn.connections.next_sending() else { break };
            match self.take_turn(&mut turn, handle) {
                Turn::Done(now) => turn.connections.rest(now, handle, turn.sockets),
                Turn::Unfinished => turn.connections.mark_sending(handle),
            }
        }
        if !self.is_blocked() {
            reply(&mut turn);
        }
    }

    fn take_turn(&mut self, turn: &mut TurnContext<'_>, handle: ConnectionHandle) -> Turn {
        let segments = turn.sockets.max_gso_segments().clamp(1, MAX_SEGMENTS);
        for _ in 0..BATCHES_PER_TURN {
            let now = turn.clock.now();
            let via = turn.connections.via(handle);
            // What a balancer needs before each datagram goes in between afterwards.
            let room = via.map_or(0, |_| segments * preface::MAX_LEN);
            let room = &mut self.buffer[..MAX_BATCH_BYTES - room];
            let endpoint = &mut turn.connections.endpoint;
            let Some(transmit) = endpoint.transmit(handle, now, room, segments) else {
                return Turn::Done(now);
            };
            let transmit = via.map_or(transmit, |via| via.wrap(&transmit, &mut self.buffer));
            self.hand_over(turn, Blocked { handle, transmit, progress: 0 });
            if self.is_blocked() {
                break;
            }
        }
        Turn::Unfinished
    }

    /// Passes the batch in the buffer to the kernel and reports the time of that to its connection (law 2). The clock is
    /// read first: a thread that is delayed in between then measures no round trip that is too short.
    fn hand_over(&mut self, turn: &mut TurnContext<'_>, mut batch: Blocked) {
        let now = turn.clock.now();
        // What is for a socket that was closed is lost, like what a network loses.
        let socket = turn.sockets.get_mut(batch.transmit.socket);
        let outcome = match socket {
            Some(socket) => socket.send(&batch.transmit, &self.buffer, &mut batch.progress),
            None => SendOutcome::Failed(ErrorKind::NotConnected.into()),
        };
        match outcome {
            SendOutcome::WouldBlock => {
                turn.statistics.send_blocked += 1;
                self.blocked = Some(batch);
                return;
            }
            SendOutcome::Sent => {
                let count = datagrams(&batch.transmit);
                turn.statistics.on_batch_sent(count, batch.transmit.size);
            }
            SendOutcome::TooLarge => {
                turn.connections.endpoint.transmit_refused(batch.handle, now);
                return;
            }
            SendOutcome::Failed(error) => {
                tracing::debug!(%error, destination = %batch.transmit.destination, "cannot send");
                turn.statistics.batches_failed += 1;
                let kind = error.kind();
                if matches!(kind, ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) {
                    turn.connections.on_unreachable(now, batch.transmit.destination);
                }
            }
        }
        turn.connections.endpoint.transmitted(batch.handle, now);
    }
}

struct TurnContext<'a> {
    clock: &'a Clock,
    sockets: &'a mut Sockets,
    connections: &'a mut Connections,
    statistics: &'a mut ShardStatistics,
}

/// Sends the replies outside of connections. They are optional: those that cannot be sent at once are dropped.
fn reply(turn: &mut TurnContext<'_>) {
    while let Some(Reply { mut transmit, mut contents, via }) = turn.connections.next_reply() {
        if let Some(via) = via {
            contents.resize(contents.len() + preface::MAX_LEN, 0);
            transmit = via.wrap(&transmit, &mut contents);
        }
        let Some(socket) = turn.sockets.get_mut(transmit.socket) else { continue };
        if matches!(socket.send(&transmit, &contents, &mut 0), SendOutcome::Sent) {
            turn.statistics.on_batch_sent(1, transmit.size);
        }
    }
}

fn datagrams(transmit: &Transmit) -> u64 {
    let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
    transmit.size.div_ceil(segment) as u64
}
