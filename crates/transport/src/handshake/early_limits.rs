//! The limits that a server must not lower if it accepts early data (RFC 9000 §7.4.1, RFC 9221 §3).

use clearway_wire::{Initiator, Reader, TransportParameters};

const COUNT: usize = 8;

/// The limits in a server's transport parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EarlyLimits([u64; COUNT]);

impl EarlyLimits {
    /// The length of the encoded limits in bytes.
    pub(super) const LEN: usize = COUNT * 8;

    pub(crate) fn of(parameters: &TransportParameters) -> Self {
        Self(
            [
                parameters.active_connection_id_limit,
                parameters.initial_max_data,
                parameters.initial_max_stream_data_bidi_local,
                parameters.initial_max_stream_data_bidi_remote,
                parameters.initial_max_stream_data_uni,
                parameters.initial_max_streams_bidi,
                parameters.initial_max_streams_uni,
                parameters.max_datagram_frame_size,
            ]
            .map(|limit| limit.get()),
        )
    }

    /// Extracts the limits from a server's encoded parameters; `None` if the parameters are
    /// malformed.
    pub(super) fn decode_parameters(encoded: &[u8]) -> Option<Self> {
        TransportParameters::decode(encoded, Initiator::Server).ok().map(|it| Self::of(&it))
    }

    /// Returns whether none of these limits is lower than the corresponding limit in `before`.
    pub(crate) fn permit(&self, before: &Self) -> bool {
        self.0.iter().zip(before.0).all(|(new, old)| *new >= old)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|limit| out.extend_from_slice(&limit.to_be_bytes()));
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let mut limits = [0; COUNT];
        for limit in &mut limits {
            *limit = u64::from_be_bytes(reader.array("limit").ok()?);
        }
        reader.is_empty().then_some(Self(limits))
    }
}
