//! The result of a run, as JSON and as text.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::Data;
use crate::http3::{self, ReceivedFrame};
use crate::quic::{Close, Endpoint, Progress, Record, Role, Side, known_name};

/// The outcome of one step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StepOutcome {
    /// The index of the step in the script.
    pub step: usize,
    /// The step's action.
    pub action: &'static str,
    /// Whether the step was executed, or its expectation was met.
    #[serde(rename = "ok")]
    pub is_ok: bool,
    /// What happened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What was received and sent on a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StreamReport {
    /// The stream's ID.
    pub id: u64,
    /// The stream's purpose in HTTP/3.
    pub purpose: &'static str,
    /// The number of bytes received in order.
    pub received: u64,
    /// The number of bytes sent.
    pub sent: u64,
    /// Whether the peer has finished the stream.
    pub finished: bool,
    /// The error code of the peer's RESET_STREAM frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<u64>,
    /// The error code of the peer's STOP_SENDING frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<u64>,
    /// The HTTP/3 frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<ReceivedFrame>,
}

/// A transport parameter of the peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ParameterReport {
    /// The identifier.
    pub id: u64,
    /// The name, if the parameter is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
    /// The value's bytes.
    pub value: Data,
}

/// Counters of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Statistics {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes of packets sent.
    pub bytes_sent: u64,
    /// Bytes of packets received.
    pub bytes_received: u64,
    /// Datagrams dropped by impairments.
    pub datagrams_dropped: u64,
    /// Frames sent, by type.
    pub frames_sent: BTreeMap<&'static str, u64>,
    /// Frames received, by type.
    pub frames_received: BTreeMap<&'static str, u64>,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The probe's role.
    pub role: Role,
    /// The QUIC version.
    pub version: u32,
    /// The negotiated application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<Data>,
    /// How far the handshake has progressed.
    pub progress: Progress,
    /// The duration in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "crate::quic::milliseconds")]
    pub duration: Duration,
    /// The smallest round-trip time in milliseconds.
    #[serde(
        rename = "round_trip_ms",
        serialize_with = "optional_milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub round_trip_time: Option<Duration>,
    /// Whether a client's early data was accepted.
    pub early_data_accepted: bool,
    /// The reason why the connection was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close: Option<Close>,
    /// The name of the error code with which the connection was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub close_name: Option<String>,
    /// The outcomes of the steps.
    pub steps: Vec<StepOutcome>,
    /// The streams.
    pub streams: Vec<StreamReport>,
    /// The contents of received DATAGRAM frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub datagrams: Vec<Data>,
    /// The peer's transport parameters.
    pub peer_parameters: Vec<ParameterReport>,
    /// Counters.
    pub statistics: Statistics,
    /// All packets.
    #[serde(flatten)]
    pub record: Record,
}

fn optional_milliseconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    crate::quic::milliseconds(&time.unwrap_or_default(), serializer)
}

impl Report {
    pub(crate) fn new(
        endpoint: &Endpoint,
        duration: Duration,
        dropped: u64,
        steps: Vec<StepOutcome>,
    ) -> Self {
        let streams = endpoint.streams().map(|(id, state)| {
            let http3::ReceivedStream { purpose, frames } = http3::read(id, state);
            StreamReport {
                id,
                purpose,
                received: state.received(),
                sent: state.sent(),
                finished: state.is_finished(),
                reset: state.reset(),
                stopped: state.stopped(),
                frames,
            }
        });
        let parameters =
            endpoint.peer_parameters().into_iter().flat_map(|parameters| parameters.iter());
        let parameters = parameters.map(|(id, value)| ParameterReport {
            id,
            name: known_name(id),
            value: value.into(),
        });
        Self {
            role: endpoint.role(),
            version: endpoint.version().0,
            alpn: endpoint.alpn().map(Data::from),
            progress: endpoint.progress(),
            duration,
            round_trip_time: endpoint.round_trip_time(),
            early_data_accepted: endpoint.is_early_data_accepted(),
            close: endpoint.close().cloned(),
            close_name: endpoint.close().map(Close::name),
            steps,
            streams: streams.collect(),
            datagrams: endpoint.datagrams().to_vec(),
            peer_parameters: parameters.collect(),
            statistics: statistics(endpoint.record(), dropped),
            record: endpoint.record().clone(),
        }
    }

    /// Returns whether all steps were executed and all expectations met.
    pub fn is_passed(&self) -> bool {
        self.steps.iter().all(|step| step.is_ok)
    }

    /// Returns the report as JSON in one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the status of the final response on `stream`.
    pub fn status(&self, stream: u64) -> Option<u16> {
        let stream = self.streams.iter().find(|report| report.id == stream)?;
        stream.frames.iter().filter_map(ReceivedFrame::status).find(|status| *status >= 200)
    }
}

fn statistics(record: &Record, dropped: u64) -> Statistics {
    let mut all = Statistics { datagrams_dropped: dropped, ..Statistics::default() };
    for packet in &record.packets {
        let (packets, bytes, frames) = match packet.side {
            Side::Sent => (&mut all.packets_sent, &mut all.bytes_sent, &mut all.frames_sent),
            Side::Received => {
                (&mut all.packets_received, &mut all.bytes_received, &mut all.frames_received)
            }
        };
        *packets = packets.saturating_add(1);
        *bytes = bytes.saturating_add(packet.size as u64);
        for frame in &packet.frames {
            let count = frames.entry(frame.name()).or_default();
            *count = count.saturating_add(1);
        }
    }
    all
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let mark = if step.is_ok { "ok    " } else { "FAILED" };
            write!(f, "{mark} {}. {}", step.step.saturating_add(1), step.action)?;
            match step.detail.is_empty() {
                true => writeln!(f)?,
                false => writeln!(f, ": {}", step.detail)?,
            }
        }
        for stream in &self.streams {
            let StreamReport { id, purpose, sent, received, .. } = stream;
            write!(f, "stream {id} ({purpose}): {sent} bytes sent, {received} received")?;
            for frame in &stream.frames {
                let name = frame.name.map_or_else(|| format!("{:#x}", frame.kind), str::to_owned);
                write!(f, ", {name}")?;
                if let Some(status) = frame.status() {
                    write!(f, " ({status})")?;
                }
            }
            if stream.finished {
                f.write_str(", finished")?;
            }
            if let Some(code) = stream.reset.or(stream.stopped) {
                write!(f, ", reset with {}", crate::error_codes::application(code))?;
            }
            writeln!(f)?;
        }
        let Statistics { packets_sent, packets_received, .. } = self.statistics;
        write!(f, "{packets_sent} packets sent, {packets_received} received")?;
        match &self.close {
            Some(close) => write!(f, "; closed: {close}"),
            None => f.write_str("; open until the end of the script"),
        }
    }
}
