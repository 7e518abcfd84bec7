//! Answers of servers on their way to clients.

use core::net::{IpAddr, SocketAddr};

use clearway_transport::{EcnCodepoint, SocketIndex};
use clearway_units::Timestamp;
use clearway_wire::preface::Preface;

use super::batch::{Batch, Heading};
use super::leg::{Patience, send};
use super::statistics::ForwardStatistics;
use super::table::Client;
use super::{Routing, canonical};
use crate::clock::Clock;
use crate::socket::{Meta, Socket};

/// What the datagrams of a batch pass through.
pub(super) struct ToClients<'a> {
    pub(super) clock: &'a Clock,
    pub(super) routing: &'a mut dyn Routing,
    pub(super) batch: &'a mut Batch,
    pub(super) listening: &'a mut Socket,
    pub(super) patience: &'a mut Patience,
    pub(super) statistics: &'a mut ForwardStatistics,
}

impl ToClients<'_> {
    /// Takes in a datagram that came where servers with preface send to.
    pub(super) fn take(&mut self, now: Timestamp, meta: &Meta, datagram: &mut [u8]) {
        let server = canonical(meta.remote);
        if !self.routing.is_server(server) {
            self.statistics.dropped_unknown_sender += 1;
            return;
        }
        let Some((Preface { client, local }, answer)) = Preface::split(datagram) else {
            self.statistics.dropped_no_preface += 1;
            return;
        };
        let source_ip = Some(local).filter(|ip| !ip.is_unspecified());
        let client = canonical(client);
        self.pass_on((now, server), (client, source_ip), meta.ecn, answer);
    }

    /// Takes in a datagram that came to the source port of `client`, if it has sent to this server.
    pub(super) fn take_plain(
        &mut self,
        now: Timestamp,
        client: Option<Client>,
        meta: &Meta,
        answer: &[u8],
    ) {
        let Some(Client { remote, local_ip }) = client else {
            self.statistics.dropped_unknown_sender += 1;
            return;
        };
        self.pass_on((now, canonical(meta.remote)), (remote, local_ip), meta.ecn, answer);
    }

    fn pass_on(
        &mut self,
        (now, server): (Timestamp, SocketAddr),
        (client, source_ip): (SocketAddr, Option<IpAddr>),
        ecn: EcnCodepoint,
        answer: &[u8],
    ) {
        if answer.is_empty() {
            self.statistics.to_clients.dropped_empty += 1;
            return;
        }
        let Some(destination) = self.listening.destination(client) else {
            self.statistics.to_clients.dropped_unreachable += 1;
            return;
        };
        self.routing.observe(now, server, canonical(client), answer);
        let heading = Heading { socket: SocketIndex::default(), destination, source_ip, ecn };
        if !self.batch.add(&heading, [&[], answer]) {
            self.flush();
            // Without its preface it is shorter than what a batch holds.
            if !self.batch.add(&heading, [&[], answer]) {
                self.statistics.to_clients.dropped_too_large += 1;
            }
        }
    }

    /// Sends what there is.
    pub(super) fn flush(&mut self) {
        if let Some(batch) = self.batch.contents() {
            let counts = &mut self.statistics.to_clients;
            send(self.listening, batch, self.clock, self.patience, counts);
        }
        self.batch.clear();
    }
}
