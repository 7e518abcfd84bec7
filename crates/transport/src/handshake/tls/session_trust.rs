//! How the peers authenticated each other when a client's session began: how and when the server
//! was verified, and which certificate the client sent.
//!
//! A resumed handshake does not repeat this, so a session is used only by a configuration that
//! would have started it in the same way: a session from a configuration without verification is
//! never used by one that verifies, and a session that began with a client certificate is not used
//! with another certificate or without one.

use clearway_wire::Reader;
use rustls::sign::CertifiedKey;

use super::server_trust::ServerTrust;
use crate::crypto::packets::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The maximum time for which a session can be resumed, in seconds (RFC 8446 §4.6.1).
pub(super) const MAX_LIFETIME: u32 = 7 * 24 * 60 * 60;

/// A client configuration's verification of servers, and its own certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClientSide {
    verifies: bool,
    /// The digest of the client's own certificate.
    certificate: Option<[u8; SHA256_OUTPUT_LEN]>,
}

impl ClientSide {
    pub(super) fn new(trust: &ServerTrust, certificate: Option<&CertifiedKey>) -> Self {
        let own = certificate.and_then(|certified| certified.cert.first());
        let certificate = own.map(|own| {
            let mut fingerprint = [0; SHA256_OUTPUT_LEN];
            fingerprint.copy_from_slice(digest(&SHA256, own).as_ref());
            fingerprint
        });
        Self { verifies: matches!(trust, ServerTrust::Roots(_)), certificate }
    }
}

/// The trust recorded in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SessionTrust {
    pub(super) side: ClientSide,
    /// The time of the full handshake from which the session descends, in seconds since 1970.
    pub(super) began: u64,
}

impl SessionTrust {
    /// Returns whether a connection of `side` may resume the session at `now`, in seconds since
    /// 1970. The roots and the name are not compared: the server's certificates are verified again.
    pub(super) fn permits(&self, side: &ClientSide, now: u64) -> bool {
        let is_verified = self.side.verifies || !side.verifies;
        is_verified && self.side.certificate == side.certificate && now <= self.expires()
    }

    /// Returns the time until which the session can be resumed, in seconds since 1970.
    pub(super) fn expires(&self) -> u64 {
        self.began.saturating_add(u64::from(MAX_LIFETIME))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.began.to_be_bytes().to_vec();
        out.push(u8::from(self.side.verifies));
        out.extend(self.side.certificate.iter().flatten());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let began = u64::from_be_bytes(reader.array(NAME).ok()?);
        let verifies = match reader.u8(NAME).ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let certificate = match reader.take_rest() {
            [] => None,
            fingerprint => Some(fingerprint.try_into().ok()?),
        };
        Some(Self { side: ClientSide { verifies, certificate }, began })
    }
}

/// The field name used in errors, which are never shown.
const NAME: &str = "trust";

#[cfg(test)]
#[path = "session_trust_tests.rs"]
mod tests;
