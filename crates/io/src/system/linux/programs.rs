//! Programs with which the kernel chooses among the sockets of one address.

mod classic;
mod ebpf;

use std::io;

use super::super::steering::{AtAddress, Steering};
use crate::shard_ids::{IdFormat, Layout};

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

/// Has the kernel choose among the sockets of each address by the connection ID and the form of the header: by `best`, or the
/// best that the system permits.
///
/// Long headers have sockets of their own, so that short ones, which are nearly all that connections need after the
/// handshake, do not wait behind them, and are not lost where they are too many: anyone can send first packets of clients.
/// The connection IDs of those are the clients' own; they go by the first octet, so that all first packets of a client get
/// to one shard, whatever its address.
pub(crate) fn steer(addresses: &[AtAddress<'_>], format: IdFormat, best: Steering) -> Steering {
    if best >= Steering::Ebpf {
        match addresses.iter().try_for_each(|address| ebpf::attach(address, format)) {
            Ok(()) => return Steering::Ebpf,
            Err(error) => tracing::debug!(%error, "cannot attach a program of eBPF"),
        }
    }
    if best >= Steering::ClassicBpf {
        let attach = |address: &AtAddress<'_>| match address.own.first() {
            Some(first) => classic::attach(first, format, address.has_long()),
            None => Ok(()),
        };
        match addresses.iter().try_for_each(attach) {
            Ok(()) => return Steering::ClassicBpf,
            Err(error) => tracing::warn!(%error, "cannot attach a program of classic BPF"),
        }
    }
    Steering::Hash
}

/// Has the kernel choose between the two sockets that one shard has at each address.
pub(crate) fn divide(addresses: &[AtAddress<'_>]) -> io::Result<()> {
    let divided = addresses.iter().filter(|address| address.has_long());
    let mut firsts = divided.filter_map(|address| address.own.first());
    firsts.try_for_each(|first| classic::attach_division(first))
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
