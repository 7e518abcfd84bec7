//! Protection with keys that anyone on the path can compute: of Initial packets (RFC 9001 §5.2) and Retry packets (§5.8).

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use clearway_wire::ConnectionId;
use clearway_wire::header::{Retry, retry_pseudo_packet};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

use crate::{Side, TransportError};

const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] =
    [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

const NO_AEAD: TransportError =
    TransportError::internal("the cryptographic library lacks AEAD_AES_128_GCM");

/// The Initial keys of `side`, derived from the Destination Connection ID of the client's first Initial packet
/// (RFC 9001 §5.2).
///
/// # Errors
/// INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM.
pub fn keys(side: Side, destination_connection_id: &ConnectionId) -> Result<Keys, TransportError> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().ok_or(NO_AEAD)?;
    let algorithm = suite.quic.ok_or(NO_AEAD)?;
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    Ok(Keys::initial(Version::V1, suite, algorithm, destination_connection_id.as_bytes(), side))
}

/// The Retry Integrity Tag of a Retry packet (RFC 9001 §5.8). `packet` is the packet without its tag; the connection ID
/// is the destination of the Initial packet that the Retry answers.
///
/// # Errors
/// INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM.
pub(crate) fn retry_integrity_tag(
    original_destination_connection_id: &ConnectionId,
    packet: &[u8],
) -> Result<[u8; Retry::INTEGRITY_TAG_LEN], TransportError> {
    let pseudo_packet = retry_pseudo_packet(original_destination_connection_id, packet);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &RETRY_KEY).map_err(|_| NO_AEAD)?);
    let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut [])
        .map_err(|_| NO_AEAD)?;
    tag.as_ref().try_into().map_err(|_| NO_AEAD)
}

#[cfg(test)]
mod tests {
    use clearway_wire::ConnectionId;
    use clearway_wire::header::Retry;

    use super::retry_integrity_tag;
    use crate::handshake::tests::hex;

    /// RFC 9001 §A.4.
    const RETRY: &str = "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba";

    #[test]
    fn the_sample_retry_has_this_tag() {
        let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
        let packet = hex(RETRY);
        let (packet, tag) = packet.split_last_chunk::<{ Retry::INTEGRITY_TAG_LEN }>().unwrap();
        assert_eq!(retry_integrity_tag(&id, packet), Ok(*tag));
    }
}
