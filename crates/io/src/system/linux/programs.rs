//! BPF programs with which the kernel selects among the sockets at one address.

mod classic;
mod ebpf;

use std::io;

use super::super::steering::{AtAddress, Steering};
use crate::shard_ids::{IdFormat, Layout};

// The fields that the programs read in packets of any QUIC version (RFC 8999 §5): offsets in the
// UDP payload.

/// The bit of the first octet that marks a long header.
const IS_LONG: u32 = 0x80;
/// Offset of the Destination Connection ID in a short header.
const SHORT_ID: u32 = 1;
/// Offset of the length of the Destination Connection ID in a long header.
const LONG_ID_LEN: u32 = 5;
/// Offset of the Destination Connection ID in a long header.
const LONG_ID: u32 = 6;

/// Returns how many bytes of a long header packet the programs read: up to the octet that encodes
/// the shard.
const fn read_len(layout: Layout) -> u32 {
    LONG_ID + layout.shard_octet() as u32 + 1
}

/// Makes the kernel select among the sockets at each address by the connection ID and the header
/// form, with `best` or the best method that the system allows.
///
/// Long headers have separate sockets. So packets with short headers, which are nearly all packets
/// after the handshake, do not wait behind long headers, and are not dropped if there are too many
/// of these: anyone can send Initial packets. The client chooses the connection ID of Initial
/// packets. Its first octet selects the shard, so that all first packets of a client reach the same
/// shard, regardless of the client's address.
pub(crate) fn steer(addresses: &[AtAddress<'_>], format: IdFormat, best: Steering) -> Steering {
    if best >= Steering::Ebpf {
        match addresses.iter().try_for_each(|address| ebpf::attach(address, format)) {
            Ok(()) => return Steering::Ebpf,
            Err(error) => tracing::debug!(%error, "cannot attach an eBPF program"),
        }
    }
    if best >= Steering::ClassicBpf {
        let attach = |address: &AtAddress<'_>| match address.own.first() {
            Some(first) => classic::attach(first, format, address.has_long()),
            None => Ok(()),
        };
        match addresses.iter().try_for_each(attach) {
            Ok(()) => return Steering::ClassicBpf,
            Err(error) => tracing::warn!(%error, "cannot attach a classic BPF program"),
        }
    }
    Steering::Hash
}

/// Makes the kernel select between the two sockets that one shard has at each address.
pub(crate) fn divide(addresses: &[AtAddress<'_>]) -> io::Result<()> {
    let divided = addresses.iter().filter(|address| address.has_long());
    let mut firsts = divided.filter_map(|address| address.own.first());
    firsts.try_for_each(|first| classic::attach_division(first))
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
