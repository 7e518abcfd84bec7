//! Forwards clients' datagrams to servers.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clearway_udp::{Batch, Clock, EcnCodepoint, MAX_BATCH_BYTES, Meta, Socket};
use clearway_units::Timestamp;
use clearway_wire::preface::{self, Preface, may_be_preface, may_be_two_prefaces};

use super::batch::Heading;
use super::batches::Batches;
use super::loops::Loops;
use super::ports::Ports;
use super::socket_io::{WaitBudget, send};
use super::statistics::{DirectionStatistics, Statistics};
use super::table::{Claim, Client};
use super::{Routed, Routing, Target, canonical};

/// Maximum number of replies queued while a batch is received.
const MAX_REPLIES: usize = 64;

/// A reply to a client.
pub(super) struct Reply {
    client: SocketAddr,
    local_ip: Option<IpAddr>,
    datagram: Vec<u8>,
}

/// The context for forwarding the datagrams of a received batch to servers.
pub(super) struct ToServers<'a> {
    pub(super) clock: &'a Clock,
    pub(super) routing: &'a mut dyn Routing,
    pub(super) batches: &'a mut Batches,
    pub(super) ports: &'a mut Ports,
    pub(super) replies: &'a mut Vec<Reply>,
    pub(super) loops: &'a mut Loops,
    pub(super) wait_budget: &'a mut WaitBudget,
    pub(super) statistics: &'a mut Statistics,
    /// The address to which clients send.
    pub(super) listening: SocketAddr,
}

impl ToServers<'_> {
    /// Processes a client's datagram.
    pub(super) fn take(&mut self, now: Timestamp, meta: &Meta, datagram: &[u8]) {
        if datagram.is_empty() {
            self.statistics.to_servers.dropped_empty += 1;
            return;
        }
        let client = canonical(meta.remote);
        let local = local_ip(meta, client);
        let port = self.listening.port();
        // A datagram from this balancer's own address cannot come from a client.
        if client.port() == port && [local, self.listening.ip()].contains(&client.ip()) {
            self.statistics.dropped_looped += 1;
            return;
        }
        let routed = self.routing.route(now, client, SocketAddr::new(local, port), datagram);
        let (target, reply) = match routed {
            Routed::To(target) => (Some(target), None),
            Routed::Reply(reply) => (None, Some(reply)),
            Routed::ToWithReply(target, reply) => (Some(target), Some(reply)),
            Routed::Dropped => {
                self.statistics.dropped_not_routed += 1;
                (None, None)
            }
        };
        match target {
            Some(Target { server, has_preface: true, .. }) => {
                if may_be_two_prefaces(datagram) {
                    self.drop_looped(now, client, server);
                } else {
                    self.with_preface(server, Preface { client, local }, meta.ecn, datagram);
                }
            }
            Some(Target { server, has_preface: false, begins }) => {
                self.without_preface(now, server, meta, Claim { datagram, begins });
            }
            None => {}
        }
        if let Some(reply) = reply {
            self.keep(meta, reply);
        }
    }

    /// Queues a reply until the entire batch has been received.
    fn keep(&mut self, meta: &Meta, datagram: Vec<u8>) {
        if self.replies.len() < MAX_REPLIES {
            self.statistics.replies += 1;
            let Meta { remote: client, local_ip, .. } = *meta;
            self.replies.push(Reply { client, local_ip, datagram });
        } else {
            self.statistics.replies_dropped += 1;
        }
    }

    fn with_preface(
        &mut self,
        server: SocketAddr,
        preface: Preface,
        ecn: EcnCodepoint,
        datagram: &[u8],
    ) {
        let port = self.ports.port_with_preface(preface.client);
        let way = port.and_then(|(port, socket)| Some((port, socket.destination(server)?)));
        // A response could not be sent, because the preface does not contain the link on which the
        // address is valid.
        let is_link_local = match preface.client.ip() {
            IpAddr::V4(_) => false,
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let Some((port, destination)) = way.filter(|_| !is_link_local) else {
            self.statistics.to_servers.dropped_unreachable += 1;
            return;
        };
        let (octets, length): ([u8; preface::MAX_LEN], usize) = preface.encode();
        let octets = octets.get(..length).unwrap_or_default();
        let heading = Heading { port, destination, source_ip: None, ecn };
        self.add(&heading, [octets, datagram]);
    }

    fn without_preface(
        &mut self,
        now: Timestamp,
        server: SocketAddr,
        meta: &Meta,
        claim: Claim<'_>,
    ) {
        let client = Client { remote: meta.remote, local_ip: meta.local_ip };
        let (known_as, datagram) = (canonical(server), claim.datagram);
        // A server that does expect prefaces would accept any client address in a preface. Such a
        // server never clears the QUIC bit on a connection that began without a preface.
        if may_be_preface(datagram) && !self.ports.table.may_clear_quic_bit(known_as, client) {
            self.statistics.dropped_like_preface += 1;
            return;
        }
        if self.loops.is_back(now, client.remote, datagram) {
            self.drop_looped(now, client.remote, server);
            return;
        }
        let Some((port, socket)) = self.ports.port_for(now, known_as, client, claim) else {
            self.statistics.dropped_no_port += 1;
            return;
        };
        let Some(destination) = socket.destination(server) else {
            self.statistics.to_servers.dropped_unreachable += 1;
            return;
        };
        let heading = Heading { port, destination, source_ip: None, ecn: meta.ecn };
        self.add(&heading, [&[], datagram]);
    }

    fn drop_looped(&mut self, now: Timestamp, from: SocketAddr, server: SocketAddr) {
        self.statistics.dropped_looped += 1;
        self.loops.warn(now, from, server);
    }

    fn add(&mut self, heading: &Heading, parts: [&[u8]; 2]) {
        let Self { clock, ports, wait_budget, statistics, .. } = self;
        let counts = &mut statistics.to_servers;
        let is_added = self.batches.add(heading, parts, |batch| {
            send_from(ports, batch, clock, wait_budget, counts);
        });
        counts.dropped_too_large += u64::from(!is_added);
    }

    /// Sends the replies to clients.
    pub(super) fn reply(&mut self, listening: &mut Socket) {
        let Self { clock, wait_budget, statistics, .. } = self;
        for Reply { client, local_ip, datagram } in self.replies.drain(..) {
            if datagram.is_empty() || datagram.len() > MAX_BATCH_BYTES {
                statistics.replies_dropped += 1;
                continue;
            }
            let batch = Batch {
                destination: client,
                source_ip: local_ip,
                ecn: EcnCodepoint::NotEct,
                contents: &datagram,
                segment_size: None,
            };
            send(listening, &batch, clock, wait_budget, &mut statistics.to_clients);
        }
    }

    /// Sends all open batches.
    pub(super) fn flush(&mut self) {
        let Self { clock, ports, wait_budget, statistics, .. } = self;
        let counts = &mut statistics.to_servers;
        self.batches.flush(|batch| send_from(ports, batch, clock, wait_budget, counts));
    }
}

/// Sends a batch from its source port.
fn send_from(
    ports: &mut Ports,
    (port, batch): (u32, Batch<'_>),
    clock: &Clock,
    wait_budget: &mut WaitBudget,
    counts: &mut DirectionStatistics,
) {
    if let Some(socket) = ports.socket_mut(port) {
        send(socket, &batch, clock, wait_budget, counts);
    }
}

/// Returns the address to which a client has sent, in the client's address family.
fn local_ip(meta: &Meta, client: SocketAddr) -> IpAddr {
    let local = meta.local_ip.map(|ip| ip.to_canonical());
    let unknown: IpAddr = match client {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    local.unwrap_or(unknown)
}
