//! How the kernel chooses among the sockets of one address.

pub(crate) mod bpf;
mod classic;
mod ebpf;
pub(crate) mod instructions;

use core::fmt;

use crate::shard_ids::{IdFormat, Layout};
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

// What the programs read of a packet of any version of QUIC (RFC 8999 §5): offsets in the UDP payload.

/// The bit of the first octet that tells a long header from a short one.
const IS_LONG: u32 = 0x80;
/// The Destination Connection ID of a short header.
const SHORT_ID: u32 = 1;
/// The length of that of a long header.
const LONG_ID_LEN: u32 = 5;
/// The Destination Connection ID of a long header.
const LONG_ID: u32 = 6;

/// How much of a packet with a long header the programs read: up to the octet that names the shard.
const fn read_len(layout: Layout) -> u32 {
    LONG_ID + layout.shard_octet() as u32 + 1
}

/// Has the kernel choose among the sockets of each address by the connection ID of a datagram: by `best`, or the best that
/// the system permits. The sockets of an address are in the order of their shards, which is the order in which they were
/// bound.
pub(crate) fn steer(addresses: &[Vec<&Socket>], format: IdFormat, best: Steering) -> Steering {
    if best >= Steering::Ebpf {
        match addresses.iter().try_for_each(|sockets| ebpf::attach(sockets, format)) {
            Ok(()) => return Steering::Ebpf,
            Err(error) => tracing::debug!(%error, "cannot attach a program of eBPF"),
        }
    }
    if best >= Steering::ClassicBpf {
        let mut firsts = addresses.iter().filter_map(|sockets| sockets.first());
        match firsts.try_for_each(|first| classic::attach(first, format)) {
            Ok(()) => return Steering::ClassicBpf,
            Err(error) => tracing::warn!(%error, "cannot attach a program of classic BPF"),
        }
    }
    Steering::Hash
}

#[cfg(test)]
#[path = "steering_tests.rs"]
mod tests;
