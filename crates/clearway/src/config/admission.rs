//! Settings for clients that connect, until their handshakes begin.

use core::net::IpAddr;

use clearway_io::Admission;

use super::ServerConfig;

/// Default of [`ServerConfig::retry_above`].
const DEFAULT_RETRY_ABOVE: usize = 1000;

pub(super) fn default() -> Admission {
    Admission { retry_above: DEFAULT_RETRY_ABOVE, ..Admission::default() }
}

impl ServerConfig {
    /// Sets the number of incomplete handshakes above which the server sends Retry (RFC 9000
    /// §8.1.2). The default is 1,000; with 0, every client must validate its address.
    ///
    /// The server keeps sending Retry until half that number of handshakes remain. A Retry costs
    /// the client a round trip; a client with a token does not need one. With several
    /// [`shards`](Self::shards), each shard counts its own clients, and gets an equal share of the
    /// limit, rounded up.
    ///
    /// Anyone can begin handshakes from spoofed addresses. Each handshake costs a signature, and up
    /// to 64 KiB of memory until it times out; a Retry packet costs neither. So clients with an
    /// unvalidated address use at most 64 KiB times this number, plus 2 MiB per shard for datagrams
    /// that wait for a handshake or a Retry packet: 68 MB by default. Clients with a validated
    /// address are limited by [`max_connections`](Self::max_connections), and by
    /// [`max_incoming`](Self::max_incoming) until their handshake begins.
    ///
    /// Established connections are served first, no matter how many clients connect: in each turn
    /// of its loop, a shard receives a few datagrams, sends the responses, sends at most one Retry
    /// packet and begins at most one handshake. If datagrams arrive faster than the shard can
    /// receive them, handshakes get a quarter of the shard's time, and the first datagrams of other
    /// clients are dropped and counted in
    /// [`ShardStatistics::incoming_dropped`](crate::ShardStatistics::incoming_dropped).
    pub fn retry_above(mut self, half_open: usize) -> Self {
        self.admission.retry_above = half_open;
        self
    }

    /// Sets the addresses of load balancers that prepend a preface with the client's address to
    /// each datagram, as `clearway balance` does. At most [`MAX_BALANCERS`](crate::MAX_BALANCERS)
    /// are allowed.
    ///
    /// Datagrams from all other addresses are then dropped and counted in
    /// [`ShardStatistics::foreign_dropped`](crate::ShardStatistics::foreign_dropped). By default,
    /// datagrams are accepted from any address, and have no preface.
    ///
    /// The preface contains the client's address, which is treated as the source address of the
    /// datagram: connections report it, Retry validates it, and it changes when a client migrates.
    /// A datagram without a preface, such as a health check, comes from the balancer itself. Such a
    /// datagram must not clear the QUIC bit (RFC 9287), since the server does not allow this.
    ///
    /// A host that can send from a balancer's address can claim any client address, so put the
    /// server on a network that only the balancers can reach. Clients then cannot reach [preferred
    /// addresses](Self::preferred_address_v4) either.
    pub fn balancers(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.admission.balancers = addresses.into_iter().collect();
        self
    }

    /// Sets the maximum number of clients that wait, at each [shard](Self::shards), until their
    /// handshake begins or an [`Acceptor`](crate::Acceptor) has decided on them. The default is
    /// 1,024.
    ///
    /// This applies to clients with a validated address; additional ones are dropped and counted in
    /// [`ShardStatistics::incoming_dropped`](crate::ShardStatistics::incoming_dropped). A quarter
    /// of it, rounded up, applies to other clients; additional ones get a Retry packet. At least
    /// one client of each kind can wait.
    pub fn max_incoming(mut self, clients: usize) -> Self {
        self.admission.max_incoming = clients;
        self
    }

    /// Sets the maximum total size of the datagrams of [waiting](Self::max_incoming) clients, at
    /// each [shard](Self::shards), in bytes. The default is 4 MiB; less than 64 KiB counts as 64
    /// KiB.
    ///
    /// A quarter of it applies to clients without a validated address. Up to twelve datagrams of a
    /// client are kept; they may contain early data.
    pub fn incoming_buffer(mut self, bytes: usize) -> Self {
        self.admission.incoming_buffer = bytes;
        self
    }
}
