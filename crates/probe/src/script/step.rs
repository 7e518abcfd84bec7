use serde::{Deserialize, Serialize};

use super::Condition;
use crate::quic::{CloseLayer, Packet};
use crate::{Data, ImpairmentRule, Quantity};

/// A field line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The name, in any combination of upper and lower case.
    pub name: Data,
    /// The value; `{authority}` is replaced by the authority of the URL.
    pub value: Data,
}

impl Field {
    /// Creates a field line.
    pub fn new(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// One step of a script.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Sends packets in one datagram.
    Packets {
        /// The packets.
        packets: Vec<Packet>,
    },
    /// Sends arbitrary bytes as a datagram.
    RawDatagram {
        /// The bytes.
        bytes: Data,
    },
    /// Sends bytes reliably on a stream, after the bytes that were sent earlier. Opens the stream
    /// if nothing was sent on it.
    StreamBytes {
        /// The stream's ID.
        stream: u64,
        /// The bytes.
        #[serde(default)]
        data: Data,
        /// Ends the stream.
        #[serde(default)]
        fin: bool,
    },
    /// Sends an HTTP/3 frame of any type on a stream.
    Http3Frame {
        /// The stream's ID.
        stream: u64,
        /// The frame type.
        #[serde(rename = "type")]
        kind: u64,
        /// The payload.
        #[serde(default)]
        payload: Data,
        /// Ends the stream.
        #[serde(default)]
        fin: bool,
    },
    /// Sends a HEADERS frame.
    Headers {
        /// The stream's ID.
        stream: u64,
        /// The field lines, in order.
        fields: Vec<Field>,
        /// Encodes names and values literally, without the static table and Huffman coding.
        #[serde(default)]
        literal: bool,
        /// Ends the stream.
        #[serde(default)]
        fin: bool,
    },
    /// Sends a SETTINGS frame.
    Settings {
        /// The stream's ID.
        stream: u64,
        /// Identifiers and values, in order; may contain duplicates.
        settings: Vec<(u64, u64)>,
    },
    /// Opens a unidirectional stream with a stream type.
    OpenUni {
        /// The stream's ID.
        stream: u64,
        /// The stream type.
        #[serde(rename = "type")]
        kind: u64,
        /// Bytes after the type.
        #[serde(default)]
        data: Data,
        /// Ends the stream.
        #[serde(default)]
        fin: bool,
    },
    /// Sends a DATAGRAM frame (RFC 9221), or an HTTP datagram if `stream` is set (RFC 9297).
    Datagram {
        /// The request stream of an HTTP datagram.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<u64>,
        /// The payload.
        data: Data,
    },
    /// Sends RESET_STREAM with the number of bytes sent as the final size.
    ResetStream {
        /// The stream's ID.
        stream: u64,
        /// The error code.
        code: Quantity,
    },
    /// Sends STOP_SENDING.
    StopSending {
        /// The stream's ID.
        stream: u64,
        /// The error code.
        code: Quantity,
    },
    /// Sends CONNECTION_CLOSE.
    Close {
        /// The layer of the error code.
        layer: CloseLayer,
        /// The error code.
        code: Quantity,
        /// The reason phrase.
        #[serde(default)]
        reason: Data,
    },
    /// Sends everything that is queued, before the next step begins.
    Flush {},
    /// Waits.
    Wait {
        /// Waits until this condition holds; for the entire time if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Condition>,
        /// The duration, or the maximum duration if there is a condition.
        #[serde(default = "two_seconds")]
        milliseconds: u64,
    },
    /// Expects that one of several conditions holds.
    Expect {
        /// One of these conditions must hold.
        #[serde(default)]
        any: Vec<Condition>,
        /// None of these conditions may hold before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        none: Vec<Condition>,
        /// The maximum time to wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        milliseconds: Option<u64>,
    },
    /// Continues the connection from another UDP port.
    Migrate {
        /// Keeps using the same connection ID of the peer, as after a NAT rebinding. Otherwise,
        /// another ID is used, as RFC 9000 §9.5 requires.
        #[serde(default)]
        keep_id: bool,
    },
    /// Replaces the rules that drop, delay, duplicate and corrupt datagrams.
    Impair {
        /// The rules; the first rule that applies to a datagram is used.
        rules: Vec<ImpairmentRule>,
    },
    /// Updates the keys of 1-RTT packets.
    UpdateKeys {},
    /// Sends a Retry packet, as a server that has not executed an `accept` step yet.
    Retry {
        /// The token.
        token: Data,
        /// Corrupts the Retry Integrity Tag.
        #[serde(default)]
        corrupt_tag: bool,
    },
    /// Sends a Version Negotiation packet, as a server.
    VersionNegotiation {
        /// The versions.
        versions: Vec<u32>,
    },
    /// Sends a stateless reset.
    StatelessReset {
        /// The token; the one in the probe's transport parameters if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Data>,
    },
    /// Makes a server process the client's first packet, which it holds back if `until` is `start`.
    Accept {},
}

const fn two_seconds() -> u64 {
    2000
}

impl Step {
    /// Returns the name in scripts.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Packets { .. } => "packets",
            Self::RawDatagram { .. } => "raw-datagram",
            Self::StreamBytes { .. } => "stream-bytes",
            Self::Http3Frame { .. } => "http3-frame",
            Self::Headers { .. } => "headers",
            Self::Settings { .. } => "settings",
            Self::OpenUni { .. } => "open-uni",
            Self::Datagram { .. } => "datagram",
            Self::ResetStream { .. } => "reset-stream",
            Self::StopSending { .. } => "stop-sending",
            Self::Close { .. } => "close",
            Self::Flush {} => "flush",
            Self::Wait { .. } => "wait",
            Self::Expect { .. } => "expect",
            Self::Migrate { .. } => "migrate",
            Self::Impair { .. } => "impair",
            Self::UpdateKeys {} => "update-keys",
            Self::Retry { .. } => "retry",
            Self::VersionNegotiation { .. } => "version-negotiation",
            Self::StatelessReset { .. } => "stateless-reset",
            Self::Accept {} => "accept",
        }
    }
}
