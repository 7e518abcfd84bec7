//! How the kernel selects among the sockets of one address.

use core::fmt;

use clearway_udp::Socket;

/// How the datagrams of one port reach their shards. The best method that the system allows is
/// used.
///
/// For coalesced datagrams, the kernel selects one socket, based on the first of them. So each
/// shard looks up the connection ID of every datagram, whatever the method, and passes those that
/// belong to other shards to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Steering {
    /// The kernel distributes datagrams by a hash of addresses and ports. While a client keeps its
    /// address, they always reach the shard of its connection; afterwards, another shard hands them
    /// over. Long and short headers are not distinguished.
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

/// The sockets of one address, in the order in which they were bound: first all of one kind, then
/// all of the other.
pub(crate) struct AtAddress<'a> {
    /// One for each shard, in the order of the shards.
    pub(crate) own: Vec<&'a Socket>,
    /// For long headers: one for each shard, or none.
    pub(crate) long: Vec<&'a Socket>,
}

impl AtAddress<'_> {
    pub(crate) fn has_long(&self) -> bool {
        !self.long.is_empty()
    }
}
