//! Protection of packets with short headers (RFC 9001 §5.3, §5.4), in place, with the same traits
//! and library that connections use. Uses Initial keys, which are always AES-128-GCM keys, because
//! no public API provides a connection's 1-RTT keys.

use clearway_transport::{Side, initial_keys};
use clearway_wire::{ConnectionId, Version};
use rustls::quic::Keys;

use crate::Outcome;

/// Destination connection ID of all packets.
const ID: [u8; 8] = *b"benchmrk";
/// Length of the header: first byte, connection ID and packet number.
const HEADER_LEN: usize = NUMBER_OFFSET + NUMBER_LEN;
const NUMBER_OFFSET: usize = 1 + ID.len();
const NUMBER_LEN: usize = 4;
/// First byte of a short header with a four-byte packet number.
const FIRST_BYTE: u8 = 0x43;

/// The packet protection of one endpoint.
pub(super) struct Protection {
    keys: Keys,
    next: u32,
}

impl Protection {
    pub(super) fn sender() -> Outcome<Self> {
        Self::new(Side::Client)
    }

    pub(super) fn receiver() -> Outcome<Self> {
        Self::new(Side::Server)
    }

    fn new(side: Side) -> Outcome<Self> {
        let id = ConnectionId::new(&ID)?;
        Ok(Self { keys: initial_keys(Version::V1, side, &id)?, next: 0 })
    }

    /// Encrypts every `size` bytes of `batch` as a packet. The contents are arbitrary.
    pub(super) fn seal_all(&mut self, batch: &mut [u8], size: usize) -> Outcome {
        let keys = &self.keys.local;
        for packet in batch.chunks_mut(size) {
            let (header, rest) = packet.split_at_mut(HEADER_LEN);
            let (payload, tag) = rest.split_at_mut(rest.len() - keys.packet.tag_len());
            header[0] = FIRST_BYTE;
            header[1..NUMBER_OFFSET].copy_from_slice(&ID);
            header[NUMBER_OFFSET..].copy_from_slice(&self.next.to_be_bytes());
            let made = keys.packet.encrypt_in_place(self.next.into(), header, payload)?;
            tag.copy_from_slice(made.as_ref());
            let (first, number) = header.split_at_mut(NUMBER_OFFSET);
            let sample = &payload[..keys.header.sample_len()];
            keys.header.encrypt_in_place(sample, &mut first[0], number)?;
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }

    /// Removes the protection of every packet of `size` bytes in `batch`.
    ///
    /// # Errors
    /// Returns an error if any packet was not protected by the sender.
    pub(super) fn open_all(&self, batch: &mut [u8], size: usize) -> Outcome {
        let keys = &self.keys.remote;
        for packet in batch.chunks_mut(size) {
            let (header, payload) =
                packet.split_at_mut_checked(HEADER_LEN).ok_or("a datagram is too short")?;
            let (first, number) = header.split_at_mut(NUMBER_OFFSET);
            let sample =
                payload.get(..keys.header.sample_len()).ok_or("a datagram is too short")?;
            keys.header.decrypt_in_place(sample, &mut first[0], number)?;
            let mut bytes = [0; NUMBER_LEN];
            bytes.copy_from_slice(number);
            let number = u32::from_be_bytes(bytes);
            keys.packet.decrypt_in_place(number.into(), header, payload)?;
        }
        Ok(())
    }
}
