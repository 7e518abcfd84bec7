//! Scripts: how to connect, and what to send, wait for and expect.

mod condition;
mod step;

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Data;
use crate::quic::{Frame, Level, Packet, ParameterEdit, Progress, TlsEdits};
pub use condition::Condition;
pub use step::{Field, Step};

/// The reason why a script cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is not a script.
    Invalid {
        /// The position and the reason.
        why: String,
    },
    /// The script cannot be written as TOML.
    Unwritable {
        /// The reason.
        why: String,
    },
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { why } => write!(f, "invalid script: {why}"),
            Self::Unwritable { why } => write!(f, "the script cannot be written as TOML: {why}"),
        }
    }
}

impl std::error::Error for ScriptError {}

/// The source of the token in the first Initial packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Token {
    /// The token in a NEW_TOKEN frame from an earlier connection.
    Previous,
    /// These bytes.
    Bytes(Data),
}

/// The settings of a script's connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Connect {
    /// The application protocols to offer or accept; may be empty.
    pub alpn: Vec<Data>,
    /// The QUIC version, such as 1 or 0x6b3343cf.
    pub version: crate::Quantity,
    /// The progress that the handshake must have made before the steps begin.
    pub until: Progress,
    /// Opens a control stream with SETTINGS and the two QPACK streams before the first step
    /// (streams 2, 6 and 10 of a client; 3, 7 and 11 of a server).
    pub http3: bool,
    /// Resumes a session from an earlier connection, which is established for this purpose.
    pub resume: bool,
    /// Resumes a session with early data. The steps begin when 0-RTT packets can be sent.
    pub early_data: bool,
    /// The token in the first Initial packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Changes to the transport parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterEdit>,
    /// Changes to TLS messages.
    #[serde(skip_serializing_if = "TlsEdits::is_empty")]
    pub tls: TlsEdits,
    /// Acknowledges received packets.
    pub acknowledge: bool,
    /// Retransmits lost packets.
    pub retransmit: bool,
    /// The size of datagrams that carry Initial packets.
    pub initial_size: usize,
    /// The connection ID of the probe; random if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Data>,
    /// The Destination Connection ID of a client's first packet; random if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<Data>,
    /// Sends HANDSHAKE_DONE, as a server.
    pub handshake_done: bool,
}

impl Default for Connect {
    fn default() -> Self {
        Self {
            alpn: vec!["h3".into()],
            version: 1.into(),
            until: Progress::Confirmed,
            http3: true,
            resume: false,
            early_data: false,
            token: None,
            parameters: Vec::new(),
            tls: TlsEdits::default(),
            acknowledge: true,
            retransmit: true,
            initial_size: 1200,
            source: None,
            destination: None,
            handshake_done: true,
        }
    }
}

/// A connection and what happens on it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// How to connect.
    #[serde(default)]
    pub connect: Connect,
    /// The steps, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
}

impl Script {
    /// Creates a script without steps, with HTTP/3's control and QPACK streams.
    pub fn http3() -> Self {
        Self::default()
    }

    /// Creates a script without steps and without HTTP/3 streams: nothing is sent after the
    /// handshake.
    pub fn quic() -> Self {
        let connect = Connect { http3: false, ..Connect::default() };
        Self { connect, steps: Vec::new() }
    }

    /// Creates a script whose steps begin when the handshake has reached `progress`.
    pub fn during(progress: Progress) -> Self {
        let connect = Connect { http3: false, until: progress, ..Connect::default() };
        Self { connect, steps: Vec::new() }
    }

    /// Reads a script from TOML.
    ///
    /// # Errors
    /// If the text is not TOML, or not a script.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        toml::from_str(text).map_err(|error| ScriptError::Invalid { why: error.to_string() })
    }

    /// Writes the script as TOML.
    ///
    /// # Errors
    /// If it has no such form.
    pub fn to_toml(&self) -> Result<String, ScriptError> {
        toml::to_string(self).map_err(|error| ScriptError::Unwritable { why: error.to_string() })
    }

    /// Changes the settings of the connection.
    pub fn connect(mut self, change: impl FnOnce(&mut Connect)) -> Self {
        change(&mut self.connect);
        self
    }

    /// Changes a transport parameter to an integer.
    pub fn parameter(self, name: &str, value: u64) -> Self {
        let edit = ParameterEdit::SetInteger { parameter: name.to_owned(), value: value.into() };
        self.connect(|connect| connect.parameters.push(edit))
    }

    /// Changes a transport parameter to bytes.
    pub fn parameter_bytes(self, name: &str, value: impl Into<Data>) -> Self {
        let edit = ParameterEdit::Set { parameter: name.to_owned(), value: value.into() };
        self.connect(|connect| connect.parameters.push(edit))
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Sends a 1-RTT packet with these frames.
    pub fn frames(self, frames: Vec<Frame>) -> Self {
        self.packet(Packet::new(frames))
    }

    /// Sends a packet of `level` with these frames.
    pub fn frames_at(self, level: Level, frames: Vec<Frame>) -> Self {
        self.packet(Packet::at(level, frames))
    }

    /// Sends a packet.
    pub fn packet(self, packet: Packet) -> Self {
        self.step(Step::Packets { packets: vec![packet] })
    }

    /// Sends bytes on a stream.
    pub fn stream(self, stream: u64, data: impl Into<Data>, fin: bool) -> Self {
        self.step(Step::StreamBytes { stream, data: data.into(), fin })
    }

    /// Sends an HTTP/3 frame.
    pub fn frame(self, stream: u64, kind: u64, payload: impl Into<Data>, fin: bool) -> Self {
        self.step(Step::Http3Frame { stream, kind, payload: payload.into(), fin })
    }

    /// Sends a HEADERS frame with literal field lines. The value `{authority}` is replaced by the
    /// authority of the URL.
    pub fn headers(self, stream: u64, fields: &[(&str, &str)], fin: bool) -> Self {
        let fields = fields.iter().map(|(name, value)| Field::new(name, value)).collect();
        self.step(Step::Headers { stream, fields, literal: true, fin })
    }

    /// Sends a GET request for `path`.
    pub fn get(self, stream: u64, path: &str) -> Self {
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "{authority}"),
            (":path", path),
        ];
        self.headers(stream, &fields, true)
    }

    /// Waits until a condition holds, for at most 2 s.
    pub fn wait(self, condition: Condition) -> Self {
        self.step(Step::Wait { until: Some(condition), milliseconds: 2000 })
    }

    /// Expects that one of these conditions holds within the default time for expectations.
    pub fn expect(self, any: Vec<Condition>) -> Self {
        self.step(Step::Expect { any, none: Vec::new(), milliseconds: None })
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
