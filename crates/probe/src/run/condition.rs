//! Evaluation of conditions.

use super::driver::Driver;
use crate::error_codes;
use crate::http3;
use crate::quic::{CloseOrigin, PacketKind, Progress, Side, Way};
use crate::script::Condition;

/// The state at the start of a step, with which conditions are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since {
    /// The packet number of a PING frame.
    pub(super) ping: Option<u64>,
    /// The number of datagrams that had arrived at that time.
    pub(super) arrived: u64,
    /// Whether the time limit has expired.
    pub(super) is_over: bool,
}

impl Driver {
    pub(super) fn holds(&self, condition: &Condition, since: Since) -> bool {
        let endpoint = &self.endpoint;
        match condition {
            Condition::Handshake { progress } => endpoint.progress() >= *progress,
            Condition::Close { layer, codes } => endpoint.close().is_some_and(|close| {
                close.origin == CloseOrigin::Peer
                    && layer.is_none_or(|layer| layer == close.layer)
                    && contains(codes, close.code)
            }),
            Condition::Reset { stream, codes } => endpoint.stream(*stream).is_some_and(|stream| {
                [stream.reset(), stream.stopped()]
                    .into_iter()
                    .flatten()
                    .any(|code| contains(codes, code))
            }),
            Condition::Response { stream, status } => self.status(*stream).is_some_and(|found| {
                status.is_empty() || status.iter().any(|it| *it == found || *it == found / 100)
            }),
            Condition::Headers { stream } => self.has_http3_frame(*stream, http3::HEADERS),
            Condition::Http3Frame { stream, kind } => self.has_http3_frame(*stream, *kind),
            Condition::Data { stream, at_least } => endpoint
                .stream(*stream)
                .is_some_and(|stream| stream.received() >= (*at_least).max(1)),
            Condition::Finished { stream } => {
                endpoint.stream(*stream).is_some_and(|stream| stream.is_finished())
            }
            Condition::CanOpenStreams { way, count } => {
                let (bidi, uni) = endpoint.stream_counts();
                let limit = match way {
                    Way::Bidi => bidi,
                    Way::Uni => uni,
                };
                limit >= *count
            }
            Condition::Frame { name } => endpoint
                .record()
                .received()
                // CRYPTO frames count only after the handshake.
                .filter(|packet| name != "crypto" || packet.kind == PacketKind::OneRtt)
                .any(|packet| packet.frames.iter().any(|frame| frame.name() == name)),
            Condition::Packet { kind } => self.has_packet(kind),
            Condition::Acknowledged {} => endpoint.is_acknowledged(),
            Condition::Alive {} => {
                let is_acknowledged =
                    since.ping.is_some_and(|ping| endpoint.has_acknowledged(ping));
                is_acknowledged && endpoint.close().is_none()
            }
            Condition::Open {} => {
                since.is_over
                    && endpoint.close().is_none()
                    && endpoint.progress() >= Progress::Complete
            }
            Condition::Silence {} => since.is_over && self.arrived == since.arrived,
        }
    }

    /// Returns the status of the final response on a stream.
    pub(super) fn status(&self, stream: u64) -> Option<u16> {
        let state = self.endpoint.stream(stream)?;
        let received = http3::read(stream, state);
        received
            .frames
            .iter()
            .filter_map(http3::ReceivedFrame::status)
            .find(|status| *status >= 200)
    }

    fn has_http3_frame(&self, stream: u64, kind: u64) -> bool {
        let state = self.endpoint.stream(stream);
        state.is_some_and(|state| {
            http3::read(stream, state).frames.iter().any(|frame| frame.kind == kind)
        })
    }

    fn has_packet(&self, kind: &str) -> bool {
        let packets = &self.endpoint.record().packets;
        packets.iter().filter(|packet| packet.side == Side::Received).any(|packet| {
            // The names in scripts are those in reports.
            serde_json::to_value(packet.kind).is_ok_and(|name| name == kind)
        })
    }
}

/// Returns whether `codes` contains `code`; an empty list contains all codes.
fn contains(codes: &[String], code: u64) -> bool {
    codes.is_empty() || codes.iter().any(|name| error_codes::number(name) == Some(code))
}
