use core::time::Duration;
use std::sync::Arc;

use clearway_wire::Version;
use rustls::RootCertStore;
use serde::{Deserialize, Serialize};

use super::credentials::{Identity, SessionCache};
use crate::Data;

/// The role of the probe's endpoint in a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The probe connects to a server.
    Client,
    /// The probe accepts a connection.
    Server,
}

/// The certificates that a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Any certificate, since nothing that the probe sends is secret.
    Anyone,
    /// Certificates that chain to one of these roots.
    Roots(Arc<RootCertStore>),
}

/// One change to the transport parameters that the endpoint sends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "edit", deny_unknown_fields)]
pub enum ParameterEdit {
    /// Removes a parameter.
    Remove {
        /// The parameter's name or number.
        parameter: String,
    },
    /// Sets a parameter to a variable-length integer.
    SetInteger {
        /// The parameter's name or number.
        parameter: String,
        /// The integer.
        value: crate::Quantity,
    },
    /// Sets a parameter to these bytes.
    Set {
        /// The parameter's name or number.
        parameter: String,
        /// The value's bytes.
        value: Data,
    },
    /// Adds a parameter, even if it exists.
    Add {
        /// The parameter's name or number.
        parameter: String,
        /// The value's bytes.
        value: Data,
    },
    /// Replaces the entire encoded list, for malformed encodings.
    Raw {
        /// The bytes of the extension.
        bytes: Data,
    },
}

/// Changes to the TLS messages that the endpoint sends. They invalidate the transcript, so the
/// handshake cannot complete; the peer has to detect the violation before that.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsEdits {
    /// Removes the extensions with these numbers from the ClientHello, or from the server's EncryptedExtensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_extensions: Vec<u16>,
    /// Gives the ClientHello this legacy_session_id (RFC 9001 §8.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legacy_session_id: Option<Data>,
    /// Appends these messages to the first flight of the endpoint, at the same level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<Data>,
}

impl TlsEdits {
    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The settings of an [`Endpoint`](super::Endpoint).
#[derive(Clone, Debug)]
pub struct Config {
    /// The QUIC version of the first packet.
    pub version: Version,
    /// The application protocols to offer or accept, the preferred one first; may be empty.
    pub alpn: Vec<Data>,
    /// The server's name: the SNI of a client.
    pub server_name: String,
    /// The certificates that a client accepts.
    pub trust: Trust,
    /// The certificate of a server.
    pub identity: Option<Identity>,
    /// The session tickets of a client. Connections with the same cache resume sessions.
    pub sessions: SessionCache,
    /// Whether a client offers early data if it has a session ticket that allows it.
    pub early_data: bool,
    /// The token in the first Initial packet.
    pub token: Data,
    /// The connection ID that the endpoint chooses for itself; random if `None`.
    pub source: Option<Data>,
    /// The Destination Connection ID of a client's first packet; random if `None`.
    pub destination: Option<Data>,
    /// Changes to the transport parameters, in order.
    pub parameters: Vec<ParameterEdit>,
    /// Changes to the TLS messages.
    pub tls: TlsEdits,
    /// Whether received packets are acknowledged.
    pub acknowledges: bool,
    /// Whether lost packets are retransmitted.
    pub retransmits: bool,
    /// Size of the datagrams that carry Initial packets.
    pub initial_size: usize,
    /// Maximum size of the datagrams that the endpoint builds on its own.
    pub datagram_size: usize,
    /// The initial probe timeout, before there is a round-trip time sample.
    pub initial_timeout: Duration,
    /// Whether a server keeps the client's first datagram until [`release`](super::Endpoint::release) is called.
    pub holds_first: bool,
    /// Whether a server sends HANDSHAKE_DONE when the handshake is complete.
    pub handshake_done: bool,
    /// The random seed from which connection IDs and keys are derived.
    pub seed: [u8; 32],
}

impl Config {
    /// Creates settings with random connection IDs derived from `seed`. Any certificate is
    /// accepted.
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            version: Version::V1,
            alpn: vec!["h3".into()],
            server_name: "localhost".to_owned(),
            trust: Trust::Anyone,
            identity: None,
            sessions: SessionCache::default(),
            early_data: false,
            token: Data::default(),
            source: None,
            destination: None,
            parameters: Vec::new(),
            tls: TlsEdits::default(),
            acknowledges: true,
            retransmits: true,
            initial_size: 1200,
            datagram_size: 1200,
            initial_timeout: Duration::from_millis(300),
            holds_first: false,
            handshake_done: true,
            seed,
        }
    }
}
