//! Methods by which the kernel selects among the sockets at one address.

use core::fmt;

use clearway_udp::Socket;

/// The method by which a port's datagrams reach their shards. The best method that the system
/// allows is used.
///
/// For coalesced datagrams, the kernel selects one socket, based on the first datagram. So with
/// every method, each shard checks the connection ID of every datagram, and passes on datagrams
/// that belong to other shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Steering {
    /// The kernel distributes datagrams by a hash of addresses and ports. While a client keeps its
    /// address, its datagrams always reach the shard of its connection; when the address changes,
    /// another shard receives and hands them over. Long and short headers are not distinguished.
    Hash,
    /// A classic BPF program reads the shard from the connection ID. Linux allows this without
    /// privileges.
    ClassicBpf,
    /// An eBPF program reads the shard from the connection ID, and selects the shard's socket in an
    /// array. Linux requires CAP_BPF for this.
    Ebpf,
}

impl Steering {
    /// The best method.
    pub(crate) const BEST: Self = Self::Ebpf;
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "by addresses, with hand-over",
            Self::Ebpf => "by connection ID (eBPF)",
            Self::ClassicBpf => "by connection ID (classic BPF)",
        })
    }
}

/// The sockets at one address, in the order in which they were bound: first all primary sockets,
/// then all sockets for long headers.
pub(crate) struct AtAddress<'a> {
    /// The primary sockets, one for each shard, in the order of the shards.
    pub(crate) own: Vec<&'a Socket>,
    /// The sockets for long headers: one for each shard, or none.
    pub(crate) long: Vec<&'a Socket>,
}

impl AtAddress<'_> {
    pub(crate) fn has_long(&self) -> bool {
        !self.long.is_empty()
    }
}
