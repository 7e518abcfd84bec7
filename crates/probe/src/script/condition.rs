use core::fmt;

use serde::{Deserialize, Serialize};

use crate::quic::{CloseLayer, Progress, Way};

/// A condition that a step can wait for or expect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Condition {
    /// The handshake has reached this stage.
    Handshake {
        /// The stage of the handshake.
        progress: Progress,
    },
    /// The peer has closed the connection.
    Close {
        /// The layer of the error code; any if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        layer: Option<CloseLayer>,
        /// The error codes, by name or number; any if empty.
        #[serde(default)]
        codes: Vec<String>,
    },
    /// The peer has sent RESET_STREAM or STOP_SENDING for a stream.
    Reset {
        /// The stream's ID.
        stream: u64,
        /// The error codes, by name or number; any if empty.
        #[serde(default)]
        codes: Vec<String>,
    },
    /// A response's final HEADERS frame has arrived.
    Response {
        /// The stream's ID.
        stream: u64,
        /// The allowed status codes; any if empty. 4 stands for 400 to 499.
        #[serde(default)]
        status: Vec<u16>,
    },
    /// A HEADERS frame has arrived.
    Headers {
        /// The stream's ID.
        stream: u64,
    },
    /// At least this many bytes have arrived on a stream.
    Data {
        /// The stream's ID.
        stream: u64,
        /// The number of bytes.
        #[serde(default)]
        at_least: u64,
    },
    /// The peer has finished a stream.
    Finished {
        /// The stream's ID.
        stream: u64,
    },
    /// The peer allows at least this many streams in total.
    CanOpenStreams {
        /// The direction of the streams.
        way: Way,
        /// The number.
        count: u64,
    },
    /// A frame of this type has arrived, such as `new_token`.
    Frame {
        /// The type's name in scripts.
        name: String,
    },
    /// A packet of this kind has arrived: `retry`, `version-negotiation`, `stateless-reset`, and so on.
    Packet {
        /// The kind.
        kind: String,
    },
    /// An HTTP/3 frame of this type has arrived.
    Http3Frame {
        /// The stream's ID.
        stream: u64,
        /// The frame type.
        #[serde(rename = "type")]
        kind: u64,
    },
    /// The peer has acknowledged everything.
    Acknowledged {},
    /// The peer acknowledges a PING frame, which the probe sends to check this condition.
    Alive {},
    /// The connection is still open when the time limit expires.
    Open {},
    /// Nothing has arrived by the time that the time limit expires.
    Silence {},
}

impl Condition {
    /// Returns the condition that the transport closed the connection with one of these codes.
    pub fn transport_close(codes: &[&str]) -> Self {
        Self::closed(CloseLayer::Transport, codes)
    }

    /// Returns the condition that the application closed the connection with one of these codes.
    pub fn application_close(codes: &[&str]) -> Self {
        Self::closed(CloseLayer::Application, codes)
    }

    fn closed(layer: CloseLayer, codes: &[&str]) -> Self {
        Self::Close {
            layer: Some(layer),
            codes: codes.iter().map(|code| (*code).to_owned()).collect(),
        }
    }

    /// Returns the condition that the peer reset or stopped `stream` with one of these codes.
    pub fn reset(stream: u64, codes: &[&str]) -> Self {
        Self::Reset { stream, codes: codes.iter().map(|code| (*code).to_owned()).collect() }
    }

    /// Returns the condition that a response with one of these status codes arrived.
    pub fn response(stream: u64, status: &[u16]) -> Self {
        Self::Response { stream, status: status.to_vec() }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |codes: &[String]| match codes {
            [] => "any code".to_owned(),
            codes => codes.join(" or "),
        };
        match self {
            Self::Handshake { progress } => write!(f, "handshake {progress:?}"),
            Self::Close { layer, codes } => {
                let layer = match layer {
                    Some(CloseLayer::Transport) => " by the transport",
                    Some(CloseLayer::Application) => " by the application",
                    None => "",
                };
                write!(f, "connection closed{layer} with {}", listed(codes))
            }
            Self::Reset { stream, codes } => {
                write!(f, "stream {stream} reset with {}", listed(codes))
            }
            Self::Response { stream, status } if status.is_empty() => {
                write!(f, "response on stream {stream}")
            }
            Self::Response { stream, status } => {
                let status: Vec<_> = status
                    .iter()
                    .map(|it| if *it < 10 { format!("{it}xx") } else { it.to_string() })
                    .collect();
                write!(f, "response {} on stream {stream}", status.join(" or "))
            }
            Self::Headers { stream } => write!(f, "HEADERS on stream {stream}"),
            Self::Data { stream, at_least } => write!(f, "{at_least} bytes on stream {stream}"),
            Self::Finished { stream } => write!(f, "stream {stream} finished"),
            Self::CanOpenStreams { way, count } => write!(f, "{count} {way:?} streams allowed"),
            Self::Frame { name } => write!(f, "{name} frame"),
            Self::Packet { kind } => write!(f, "{kind} packet"),
            Self::Http3Frame { stream, kind } => {
                write!(f, "HTTP/3 frame of type {kind:#x} on stream {stream}")
            }
            Self::Acknowledged {} => f.write_str("everything acknowledged"),
            Self::Alive {} => f.write_str("the connection continues"),
            Self::Open {} => f.write_str("the connection stays open"),
            Self::Silence {} => f.write_str("no packet"),
        }
    }
}
