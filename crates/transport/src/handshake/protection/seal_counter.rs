use clearway_wire::TransportErrorCode;
use rustls::quic::PacketKey;

use crate::TransportError;

/// Counts the packets protected with one key, up to the confidentiality limit of its AEAD (RFC 9001 §6.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SealCounter(u64);

impl SealCounter {
    /// Counts another packet.
    pub(super) fn count(&mut self, key: &dyn PacketKey) -> Result<(), TransportError> {
        if self.0 >= key.confidentiality_limit() {
            return Err(TransportError::rule(
                TransportErrorCode::AEAD_LIMIT_REACHED,
                "the key has reached the AEAD's confidentiality limit",
                "RFC 9001 §6.6",
            ));
        }
        self.0 = self.0.saturating_add(1);
        Ok(())
    }

    /// Returns whether the key should be replaced: at half its limit, or after `update_after`
    /// packets.
    pub(super) fn is_update_due(self, key: &dyn PacketKey, update_after: Option<u64>) -> bool {
        let half = key.confidentiality_limit() / 2;
        self.0 >= update_after.map_or(half, |packets| packets.min(half))
    }
}
