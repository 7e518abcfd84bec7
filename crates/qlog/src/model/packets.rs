//! The table of packets and their frames.

use core::fmt::Write;
use core::time::Duration;

use super::MAX_POINTS;
use super::columns::Columns;
use super::header::{ColumnPlace, PacketsHeader, milliseconds};
use crate::read::{Frame, Packet, PacketType};

/// The row of a mark that does not refer to a packet in the table.
pub(super) const NONE: f64 = u32::MAX as f64;

/// The maximum size of the text in bytes, not counting the text of the last packet.
const MAX_TEXT: usize = 256 << 20;

/// The packet types, in order of their numbers.
const TYPES: [PacketType; 7] = [
    PacketType::Initial,
    PacketType::Handshake,
    PacketType::ZeroRtt,
    PacketType::OneRtt,
    PacketType::Retry,
    PacketType::VersionNegotiation,
    PacketType::Unknown,
];

/// The kind of event that a row of the table represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub(super) enum Kind {
    Sent = 0,
    Received = 1,
    Lost = 2,
    Dropped = 3,
}

/// All variants of [`Kind`], in order of their numbers.
#[cfg(test)]
pub(super) const KINDS: [Kind; 4] = [Kind::Sent, Kind::Received, Kind::Lost, Kind::Dropped];

#[derive(Clone, Copy, PartialEq, Debug)]
struct Row {
    time: f64,
    number: f64,
    size: u32,
    /// The offset at which the packet's text begins.
    text: u32,
    kind: u8,
    space: u8,
}

/// The rows of the table in chronological order.
#[derive(Default, Debug)]
pub(super) struct Packets {
    rows: Vec<Row>,
    text: String,
    is_cut: bool,
}

impl Packets {
    pub(super) fn push(&mut self, at: Duration, kind: Kind, packet: &Packet) {
        let text = u32::try_from(self.text.len()).ok().filter(|_| self.has_room());
        let Some(text) = text else {
            self.is_cut = true;
            return;
        };
        let space = TYPES.iter().position(|known| *known == packet.packet_type).unwrap_or_default();
        self.rows.push(Row {
            time: milliseconds(at),
            number: packet.number.map_or(f64::NAN, |number| number as f64),
            size: packet.length.and_then(|length| u32::try_from(length).ok()).unwrap_or_default(),
            text,
            kind: kind as u8,
            space: space as u8,
        });
        for (index, frame) in packet.frames.iter().flatten().enumerate() {
            if index > 0 {
                self.text.push_str(", ");
            }
            // Writing to a string does not fail.
            let _ = describe(&mut self.text, frame);
        }
    }

    /// Returns the number of the next row, so that a mark can refer to it.
    pub(super) fn next_row(&self) -> f64 {
        if self.has_room() { self.rows.len() as f64 } else { NONE }
    }

    fn has_room(&self) -> bool {
        self.rows.len() < MAX_POINTS && self.text.len() < MAX_TEXT
    }

    /// Returns whether there were too many packets to keep all of them.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn write(&self, columns: &mut Columns) -> (PacketsHeader, ColumnPlace) {
        let rows = || self.rows.iter();
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let packets = PacketsHeader {
            time: columns.f64(rows().map(|row| row.time)),
            kind: columns.u8(rows().map(|row| row.kind)),
            space: columns.u8(rows().map(|row| row.space)),
            spaces: TYPES.map(|of| of.name().to_owned()).to_vec(),
            number: columns.f64(rows().map(|row| row.number)),
            size: columns.u32(rows().map(|row| row.size)),
            frames: columns.u32(rows().map(|row| row.text).chain([end])),
        };
        (packets, columns.text(&self.text))
    }
}

/// Writes a frame's RFC 9000 name and its important fields.
fn describe(text: &mut String, frame: &Frame) -> core::fmt::Result {
    match frame {
        Frame::Padding => text.write_str("PADDING"),
        Frame::Ping => text.write_str("PING"),
        Frame::Ack { ranges, .. } => {
            text.push_str("ACK");
            for range in ranges.iter().take(4) {
                match (range.start(), range.end()) {
                    (start, end) if start == end => write!(text, " {start}")?,
                    (start, end) => write!(text, " {start}-{end}")?,
                }
            }
            if ranges.len() > 4 { text.write_str(" …") } else { Ok(()) }
        }
        Frame::Crypto { offset, length } => extent(text, "CRYPTO", *offset, *length),
        Frame::Stream { stream, offset, length, is_last } => {
            write!(text, "STREAM {stream} ")?;
            extent(text, "at", *offset, *length)?;
            if *is_last { text.write_str(" FIN") } else { Ok(()) }
        }
        Frame::MaxData { maximum } => write!(text, "MAX_DATA {maximum}"),
        Frame::MaxStreamData { stream, maximum } => {
            write!(text, "MAX_STREAM_DATA {stream} {maximum}")
        }
        Frame::MaxStreams { maximum } => write!(text, "MAX_STREAMS {maximum}"),
        Frame::DataBlocked { limit } => write!(text, "DATA_BLOCKED {limit}"),
        Frame::StreamDataBlocked { stream, limit } => {
            write!(text, "STREAM_DATA_BLOCKED {stream} {limit}")
        }
        Frame::StreamsBlocked { limit } => write!(text, "STREAMS_BLOCKED {limit}"),
        Frame::ResetStream { stream } => write!(text, "RESET_STREAM {stream}"),
        Frame::StopSending { stream } => write!(text, "STOP_SENDING {stream}"),
        Frame::PathChallenge => text.write_str("PATH_CHALLENGE"),
        Frame::PathResponse => text.write_str("PATH_RESPONSE"),
        Frame::HandshakeDone => text.write_str("HANDSHAKE_DONE"),
        Frame::Datagram { .. } => text.write_str("DATAGRAM"),
        Frame::ConnectionClose(close) => {
            text.write_str("CONNECTION_CLOSE")?;
            match &close.error {
                Some(error) => write!(text, " {error}"),
                None => Ok(()),
            }
        }
        Frame::Other(name) => text.write_str(&name.to_uppercase()),
    }
}

fn extent(text: &mut String, word: &str, offset: u64, length: Option<u64>) -> core::fmt::Result {
    match length {
        Some(length) => write!(text, "{word} {offset}+{length}"),
        None => write!(text, "{word} {offset}"),
    }
}
