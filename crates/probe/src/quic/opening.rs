//! Removes the protection of received packets (RFC 9001 §5).

use clearway_wire::PacketNumber;
use clearway_wire::header::{is_long, key_phase, packet_number_len, reserved_bits_are_zero};
use rustls::quic::{HeaderProtectionKey, PacketKey};

use super::keys::AllKeys;
use super::packet::Level;

/// A packet whose protection has been removed.
pub(super) struct Opened {
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
    pub(super) key_phase: Option<bool>,
    pub(super) reserved_bits_are_zero: bool,
    /// Whether the packet is protected with the keys of the next key phase.
    pub(super) is_next_phase: bool,
}

/// Removes the protection of one packet, which ends at the end of `packet`.
pub(super) fn open(
    keys: &AllKeys,
    level: Level,
    packet: &mut [u8],
    number_offset: usize,
    largest: Option<u64>,
) -> Option<Opened> {
    let header_key: &dyn HeaderProtectionKey = match level {
        Level::Initial => &*keys.initial.as_ref()?.remote.header,
        Level::Handshake => &*keys.handshake.as_ref()?.remote.header,
        Level::ZeroRtt => &*keys.early.as_ref()?.header,
        Level::OneRtt => keys.application.as_ref()?.remote_header(),
    };
    let number_len = unprotect(packet, number_offset, header_key)?;
    let payload_offset = number_offset.checked_add(number_len)?;
    let (header, payload) = packet.split_at_checked(payload_offset)?;
    let largest = largest.and_then(PacketNumber::new);
    let number = PacketNumber::decode_truncated(header.get(number_offset..)?, largest).get();
    let first = *header.first()?;
    let try_open = |key: &dyn PacketKey| -> Option<Vec<u8>> {
        let mut payload = payload.to_vec();
        let length = key.decrypt_in_place(number, header, &mut payload).ok()?.len();
        payload.truncate(length);
        Some(payload)
    };
    let (payload, is_next_phase) = match level {
        Level::Initial => (try_open(&*keys.initial.as_ref()?.remote.packet)?, false),
        Level::Handshake => (try_open(&*keys.handshake.as_ref()?.remote.packet)?, false),
        Level::ZeroRtt => (try_open(&*keys.early.as_ref()?.packet)?, false),
        Level::OneRtt => keys
            .application
            .as_ref()?
            .remote(key_phase(first))
            .find_map(|(key, is_next)| Some((try_open(key)?, is_next)))?,
    };
    Some(Opened {
        number,
        payload,
        key_phase: (!is_long(first)).then(|| key_phase(first)),
        reserved_bits_are_zero: reserved_bits_are_zero(first),
        is_next_phase,
    })
}

/// Removes header protection, and returns the length of the packet number.
fn unprotect(
    packet: &mut [u8],
    number_offset: usize,
    key: &dyn HeaderProtectionKey,
) -> Option<usize> {
    let (start, rest) = packet.split_at_mut_checked(number_offset)?;
    let (number, sample) = rest.split_at_mut_checked(4)?;
    let sample = sample.get(..key.sample_len())?;
    let first = start.first_mut()?;
    key.decrypt_in_place(sample, first, number).ok()?;
    Some(packet_number_len(*first))
}
