//! How the kernel chooses among the sockets of one address.

use core::fmt;
use std::io;

use crate::shard_ids::IdFormat;
use crate::socket::Socket;

/// How the datagrams of one port get to their shards. The best that the system permits is used.
///
/// The kernel chooses one socket for datagrams that it has merged, by the first of them. So each shard looks up the
/// connection ID of every datagram, whatever the method, and gives those to their shards that belong to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Steering {
    /// The kernel distributes them by a hash of addresses and ports. While a client keeps its address, that is always the
    /// shard of its connection; after that, another shard hands them over.
    Hash,
}

impl Steering {
    /// The best there is.
    pub(crate) const BEST: Self = Self::Hash;
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "a hash of addresses, and hand-over",
        })
    }
}

/// Has the kernel choose among the sockets of each address by the connection ID of a datagram, if `best` and the system
/// permit it. The sockets of an address are in the order of their shards, which is the order in which they were bound.
pub(crate) fn steer(
    _addresses: &[Vec<&Socket>],
    _format: IdFormat,
    best: Steering,
) -> io::Result<Steering> {
    Ok(best)
}
