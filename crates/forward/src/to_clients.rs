//! Forwards servers' responses to clients.

use core::net::{IpAddr, SocketAddr};

use clearway_udp::{Clock, EcnCodepoint, Meta, Socket};
use clearway_units::Timestamp;
use clearway_wire::preface::Preface;

use super::batch::Heading;
use super::batches::Batches;
use super::socket_io::{WaitBudget, send};
use super::statistics::Statistics;
use super::table::Client;
use super::{Routing, canonical};

/// The context for forwarding the datagrams of a received batch to clients.
pub(super) struct ToClients<'a> {
    pub(super) clock: &'a Clock,
    pub(super) routing: &'a mut dyn Routing,
    pub(super) batches: &'a mut Batches,
    pub(super) listening: &'a mut Socket,
    pub(super) wait_budget: &'a mut WaitBudget,
    pub(super) statistics: &'a mut Statistics,
}

impl ToClients<'_> {
    /// Processes a datagram that arrived at a port. If its sender is a server without prefaces,
    /// `client_of` returns the client of the port.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        meta: &Meta,
        datagram: &mut [u8],
        client_of: impl FnOnce(SocketAddr, &[u8]) -> Option<Client>,
    ) {
        let server = canonical(meta.remote);
        if self.routing.is_server(server) {
            self.take_with_preface((now, server), meta.ecn, datagram);
        } else if let Some(Client { remote, local_ip }) = client_of(server, datagram) {
            self.pass_on((now, server), (remote, local_ip), meta.ecn, datagram);
        } else {
            self.statistics.dropped_unknown_sender += 1;
        }
    }

    fn take_with_preface(
        &mut self,
        from: (Timestamp, SocketAddr),
        ecn: EcnCodepoint,
        datagram: &mut [u8],
    ) {
        let Some((Preface { client, local }, answer)) = Preface::split(datagram) else {
            self.statistics.dropped_no_preface += 1;
            return;
        };
        let source_ip = Some(local).filter(|ip| !ip.is_unspecified());
        let client = canonical(client);
        self.pass_on(from, (client, source_ip), ecn, answer);
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
        let heading = Heading { port: 0, destination, source_ip, ecn };
        let Self { clock, listening, wait_budget, statistics, .. } = self;
        let counts = &mut statistics.to_clients;
        let is_added = self.batches.add(&heading, [&[], answer], |(_, batch)| {
            send(listening, &batch, clock, wait_budget, counts);
        });
        counts.dropped_too_large += u64::from(!is_added);
    }

    /// Sends all open batches.
    pub(super) fn flush(&mut self) {
        let Self { clock, listening, wait_budget, statistics, .. } = self;
        let counts = &mut statistics.to_clients;
        self.batches.flush(|(_, batch)| send(listening, &batch, clock, wait_budget, counts));
    }
}
