//! Receiving from a shard's own sockets, in bounded batches.

use core::net::SocketAddr;
use std::io;

use clearway_transport::SocketIndex;
use clearway_udp::{Clock, ReceiveBuffer, Verdict};
use clearway_units::Timestamp;

use super::connections::Connections;
use super::peer_shards::{Passed, PeerShards};
use super::sockets::Open;
use super::turn::{RECEIVING_BYTES, RECEIVING_CALLS, RECEIVING_CALLS_BESIDE};
use crate::balancers::Balancers;
use crate::datagrams::Meta;
use crate::statistics::ShardStatistics;

/// The parts of a shard that process received datagrams.
pub(super) struct Intake<'a> {
    pub(super) clock: Clock,
    pub(super) connections: &'a mut Connections,
    pub(super) balancers: &'a mut Balancers,
    pub(super) statistics: &'a mut ShardStatistics,
    /// The other shards at the same port.
    pub(super) peer_shards: Option<&'a PeerShards>,
}

impl Intake<'_> {
    /// Receives from the socket `index` until it is empty or the turn's limit is reached. If
    /// receiving fails, returns what to do about the error.
    pub(super) fn receive(
        &mut self,
        index: SocketIndex,
        open: &mut Open,
        buffer: &mut ReceiveBuffer,
    ) -> Option<Verdict> {
        let Open { socket, failures, known_as, users, .. } = open;
        let (socket_index, is_listening) = (*known_as, users.is_none());
        let enough = self.statistics.bytes_received + RECEIVING_BYTES;
        let calls = if index == socket_index { RECEIVING_CALLS } else { RECEIVING_CALLS_BESIDE };
        for _ in 0..calls {
            let mut received_at = None;
            let received = socket.receive(buffer, |meta, datagram| {
                let now = *received_at.get_or_insert_with(|| self.clock.now());
                self.take(now, socket_index, is_listening, meta.into(), datagram);
            });
            match received {
                Ok(count) => {
                    if failures.on_success() {
                        tracing::info!("the UDP socket is receiving again");
                    }
                    self.statistics.datagrams_received += count as u64;
                    self.statistics.batches_received += u64::from(count > 0);
                }
                Err(error) => {
                    self.statistics.receive_failures += 1;
                    let verdict = failures.on_failure(self.clock.now(), &error);
                    warn(verdict, &error, socket.local_address());
                    return Some(verdict);
                }
            }
            if !socket.may_have_more() || self.statistics.bytes_received >= enough {
                break;
            }
        }
        None
    }

    /// Passes one datagram to its connection, which may belong to another shard. Datagrams to
    /// listening sockets may come from a balancer.
    fn take(
        &mut self,
        now: Timestamp,
        socket: SocketIndex,
        is_listening: bool,
        mut meta: Meta,
        datagram: &mut [u8],
    ) {
        self.statistics.bytes_received += datagram.len() as u64;
        let admitted = match is_listening {
            true => self.balancers.admit(&mut meta, datagram),
            false => Some(datagram),
        };
        let Some(datagram) = admitted else {
            self.statistics.foreign_dropped += 1;
            return;
        };
        let passed = self
            .peer_shards
            .map_or(Passed::No, |peer_shards| peer_shards.pass_on(socket, &meta, datagram));
        count(self.statistics, passed);
        if passed == Passed::No {
            let passed = self.connections.receive(now, socket, &meta, datagram);
            count(self.statistics, passed);
        }
    }
}

/// Counts what happened to a datagram that may belong to another shard or process.
pub(super) fn count(statistics: &mut ShardStatistics, passed: Passed) {
    match passed {
        Passed::No => {}
        Passed::On => statistics.handed_over += 1,
        Passed::Dropped => statistics.hand_over_dropped += 1,
        Passed::Forwarded => statistics.forwarded += 1,
        Passed::ForwardDropped => statistics.forward_dropped += 1,
    }
}

/// Logs that a socket cannot receive, once per series of failures.
fn warn(verdict: Verdict, error: &io::Error, address: SocketAddr) {
    match verdict {
        Verdict::Later { is_first: true } => tracing::warn!(
            %error,
            %address,
            "the UDP socket cannot receive; retrying, at most once per second; if this persists, \
             check for memory pressure (net.core.rmem_max, the memory limit of the process) or an \
             interface that is down"
        ),
        Verdict::Later { is_first: false } => {}
        Verdict::Never => tracing::error!(
            %error,
            %address,
            "the UDP socket is no longer usable: its connections are lost; bind the endpoint again"
        ),
    }
}
