//! How the kernel chooses among the sockets of one address.

use core::fmt;

use clearway_udp::Socket;

/// How the datagrams of one port get to their shards. The best that the system permits is used.
///
/// The kernel chooses one socket for datagrams that it has merged, by the first of them. So each shard looks up the
/// connection ID of every datagram, whatever the method, and gives those to their shards that belong to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Steering {
    /// The kernel distributes them by a hash of addresses and ports. While a client keeps its address, that is always the
    /// shard of its connection; after that, another shard hands them over. Long headers are not told from short
    /// ones.
    Hash,
    /// A program of classic BPF finds the shard in the connection ID. Linux permits it to everyone.
    ClassicBpf,
    /// A program of eBPF finds the shard in the connection ID, and the shard's socket in an array. Linux permits it with
    /// CAP_BPF.
    Ebpf,
}

impl Steering {
    /// The best there is.
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

/// The sockets of one address, in the order in which they were bound: all of one kind, then all of the other.
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
