//! Keys that anyone on the path can compute: those of Initial packets (RFC 9001 §5.2) and of the Retry Integrity
//! Tag (§5.8, RFC 9369 §3.3.3).

use clearway_wire::Version;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Keys;

use super::config::Role;

const RETRY_V1: ([u8; 16], [u8; 12]) = (
    [
        0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8,
        0x4e,
    ],
    [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
);

const RETRY_V2: ([u8; 16], [u8; 12]) = (
    [
        0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc,
        0x92,
    ],
    [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
);

/// Returns rustls's identifier of a version. Unknown versions use the keys of version 1.
pub(super) const fn of_tls(version: Version) -> rustls::quic::Version {
    match version {
        Version::V2 => rustls::quic::Version::V2,
        _ => rustls::quic::Version::V1,
    }
}

/// Returns the Initial keys for the Destination Connection ID of the client's first packet.
pub(super) fn keys(version: Version, role: Role, destination: &[u8]) -> Option<Keys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?;
    let side = match role {
        Role::Client => rustls::Side::Client,
        Role::Server => rustls::Side::Server,
    };
    Some(Keys::initial(of_tls(version), suite, suite.quic?, destination, side))
}

/// Returns the Retry Integrity Tag of `packet`, a Retry packet without its tag.
pub(super) fn retry_tag(version: Version, original: &[u8], packet: &[u8]) -> Option<[u8; 16]> {
    let (key, nonce) = if version == Version::V2 { RETRY_V2 } else { RETRY_V1 };
    let mut pseudo_packet = vec![original.len() as u8];
    pseudo_packet.extend_from_slice(original);
    pseudo_packet.extend_from_slice(packet);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut []).ok()?;
    tag.as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Data;

    /// Tests the samples of RFC 9001 §A.4 and RFC 9369 §A.4.
    #[test]
    fn sample_retries() {
        let hex = |text: &str| text.parse::<Data>().unwrap().bytes().to_vec();
        let id = hex("hex:8394c8f03e515708");
        for (version, sample) in [
            (
                Version::V1,
                "hex:ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba",
            ),
            (
                Version::V2,
                "hex:cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6",
            ),
        ] {
            let packet = hex(sample);
            let (packet, tag) = packet.split_last_chunk::<16>().unwrap();
            assert_eq!(retry_tag(version, &id, packet), Some(*tag));
        }
    }
}
