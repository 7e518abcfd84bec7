//! Protection with keys that anyone on the path can compute, for Initial packets (RFC 9001 §5.2)
//! and Retry packets (§5.8), with the constants of the packet's version (RFC 9369 §3.3).

use clearway_wire::header::{Retry, retry_pseudo_packet};
use clearway_wire::{ConnectionId, Version};
use rustls::CipherSuite;
use rustls::quic::{self, Keys};

use super::suites;
use crate::crypto::sealing::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::{Side, TransportError};

/// The key and nonce of the Retry Integrity Tag, which are public.
struct RetrySecrets {
    key: [u8; 16],
    nonce: [u8; 12],
}

/// The Retry secrets of version 1 (RFC 9001 §5.8).
const RETRY_V1: RetrySecrets = RetrySecrets {
    key: [
        0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8,
        0x4e,
    ],
    nonce: [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
};

/// The Retry secrets of version 2 (RFC 9369 §3.3.3).
const RETRY_V2: RetrySecrets = RetrySecrets {
    key: [
        0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc,
        0x92,
    ],
    nonce: [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
};

const NO_AEAD: TransportError =
    TransportError::internal("the cryptographic library lacks AEAD_AES_128_GCM");

const UNKNOWN_VERSION: TransportError =
    TransportError::internal("there are no keys for this QUIC version");

/// Returns rustls's identifier of the version, on which its keys depend.
///
/// # Errors
/// Returns INTERNAL_ERROR if the version is not in [`Version::KNOWN`].
pub(super) fn of_tls(version: Version) -> Result<quic::Version, TransportError> {
    match version {
        Version::V1 => Ok(quic::Version::V1),
        Version::V2 => Ok(quic::Version::V2),
        _ => Err(UNKNOWN_VERSION),
    }
}

/// Returns the Initial keys of `side` in `version`, derived from the Destination Connection ID of
/// the client's first Initial packet (RFC 9001 §5.2).
///
/// # Errors
/// Returns INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version is
/// not in [`Version::KNOWN`].
pub fn keys(
    version: Version,
    side: Side,
    destination_connection_id: &ConnectionId,
) -> Result<Keys, TransportError> {
    let suite = suites::find(CipherSuite::TLS13_AES_128_GCM_SHA256).ok_or(NO_AEAD)?;
    let algorithm = suite.quic.ok_or(NO_AEAD)?;
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    let version = of_tls(version)?;
    Ok(Keys::initial(version, suite, algorithm, destination_connection_id.as_bytes(), side))
}

/// Returns the Retry Integrity Tag of a Retry packet of `version` (RFC 9001 §5.8). `packet` is the
/// packet without its tag; the connection ID is the destination of the Initial packet that the
/// Retry answers.
///
/// # Errors
/// Returns INTERNAL_ERROR if the cryptographic library lacks AEAD_AES_128_GCM, or the version is
/// not in [`Version::KNOWN`].
pub(crate) fn retry_integrity_tag(
    version: Version,
    original_destination_connection_id: &ConnectionId,
    packet: &[u8],
) -> Result<[u8; Retry::INTEGRITY_TAG_LEN], TransportError> {
    let secrets = match version {
        Version::V1 => &RETRY_V1,
        Version::V2 => &RETRY_V2,
        _ => return Err(UNKNOWN_VERSION),
    };
    let pseudo_packet = retry_pseudo_packet(original_destination_connection_id, packet);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &secrets.key).map_err(|_| NO_AEAD)?);
    let nonce = Nonce::assume_unique_for_key(secrets.nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut [])
        .map_err(|_| NO_AEAD)?;
    tag.as_ref().try_into().map_err(|_| NO_AEAD)
}

#[cfg(test)]
mod tests {
    use clearway_wire::header::Retry;
    use clearway_wire::{ConnectionId, Version};

    use super::retry_integrity_tag;
    use crate::handshake::tests::hex;

    /// The sample Retry packet of RFC 9001 §A.4.
    const RETRY: &str = "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba";
    /// The sample Retry packet of RFC 9369 §A.4.
    const RETRY_2: &str =
        "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6";

    #[test]
    fn the_sample_retries_have_these_tags() {
        let id = ConnectionId::new(&hex("8394c8f03e515708")).unwrap();
        for (version, other, sample) in
            [(Version::V1, Version::V2, RETRY), (Version::V2, Version::V1, RETRY_2)]
        {
            let packet = hex(sample);
            let (packet, tag) = packet.split_last_chunk::<{ Retry::INTEGRITY_TAG_LEN }>().unwrap();
            assert_eq!(retry_integrity_tag(version, &id, packet), Ok(*tag));
            assert_ne!(retry_integrity_tag(other, &id, packet), Ok(*tag));
        }
    }

    #[test]
    fn other_versions_have_no_secrets() {
        let id = ConnectionId::default();
        assert!(retry_integrity_tag(Version(2), &id, &[]).is_err());
        assert!(super::keys(Version(2), crate::Side::Client, &id).is_err());
    }
}
