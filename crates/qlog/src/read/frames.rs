//! Reads the frames of a packet directly into the vocabulary.

use core::fmt;
use core::ops::RangeInclusive;
use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::any_text::AnyText;
use super::event::{Close, Frame};
use super::number::{Milliseconds, Number};

/// The maximum number of frames of a packet, and of ranges of an ACK frame, that are kept. More do
/// not fit into a datagram.
const MAX_ELEMENTS: usize = 64 << 10;

/// The frames of a packet.
pub(super) struct Frames(pub(super) Vec<Frame>);

impl<'de> Deserialize<'de> for Frames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FramesVisitor)
    }
}

struct FramesVisitor;

impl<'de> Visitor<'de> for FramesVisitor {
    type Value = Frames;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of frames")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Frames, A::Error> {
        let mut frames = Vec::new();
        while let Some(frame) = sequence.next_element::<FrameData<'de>>()? {
            if frames.len() < MAX_ELEMENTS {
                frames.push(frame.frame());
            }
        }
        Ok(Frames(frames))
    }
}

#[derive(Deserialize, Default)]
struct Raw {
    length: Option<Number>,
    payload_length: Option<Number>,
}

#[derive(Deserialize)]
struct FrameData<'a> {
    #[serde(borrow)]
    frame_type: Cow<'a, str>,
    stream_id: Option<Number>,
    offset: Option<Number>,
    length: Option<Number>,
    raw: Option<Raw>,
    fin: Option<bool>,
    acked_ranges: Option<Ranges>,
    ack_delay: Option<Milliseconds>,
    ect0: Option<Number>,
    ect1: Option<Number>,
    ce: Option<Number>,
    maximum: Option<Number>,
    #[serde(alias = "current")]
    limit: Option<Number>,
    /// The error in CONNECTION_CLOSE: its name, its number, or both, in members whose names differ
    /// between drafts.
    error: Option<AnyText>,
    error_code: Option<AnyText>,
    raw_error_code: Option<AnyText>,
    #[serde(borrow)]
    error_space: Option<Cow<'a, str>>,
    reason: Option<AnyText>,
    /// The number of frames that this frame represents.
    count: Option<Number>,
}

impl FrameData<'_> {
    fn length(&self) -> Option<u64> {
        let raw = self.raw.as_ref();
        let length = self.length.or(raw.and_then(|raw| raw.payload_length.or(raw.length)));
        length.map(|length| length.0)
    }

    fn frame(mut self) -> Frame {
        if self.frame_type.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.frame_type = self.frame_type.to_ascii_lowercase().into();
        }
        let stream = self.stream_id.unwrap_or_default().0;
        let offset = self.offset.unwrap_or_default().0;
        let maximum = self.maximum.unwrap_or_default().0;
        let limit = self.limit.unwrap_or_default().0;
        match self.frame_type.as_ref() {
            "stream" => Frame::Stream {
                stream,
                offset,
                length: self.length(),
                is_last: self.fin.unwrap_or_default(),
            },
            "ack" => self.ack(),
            "padding" => Frame::Padding,
            "ping" => Frame::Ping,
            "crypto" => Frame::Crypto { offset, length: self.length() },
            "max_data" => Frame::MaxData { maximum },
            "max_stream_data" => Frame::MaxStreamData { stream, maximum },
            "max_streams" => Frame::MaxStreams { maximum },
            "data_blocked" => Frame::DataBlocked { limit },
            "stream_data_blocked" => Frame::StreamDataBlocked { stream, limit },
            "streams_blocked" => Frame::StreamsBlocked { limit },
            "reset_stream" | "reset_stream_at" => Frame::ResetStream { stream },
            "stop_sending" => Frame::StopSending { stream },
            "path_challenge" => Frame::PathChallenge,
            "path_response" => Frame::PathResponse,
            "handshake_done" => Frame::HandshakeDone,
            "datagram" => Frame::Datagram { length: self.length() },
            "connection_close" => Frame::ConnectionClose(Box::new(self.close())),
            // The viewer shows these words.
            "clearway:repeated" => self.counted("more of these"),
            "clearway:omitted" => self.counted("others"),
            other => Frame::Other(other.into()),
        }
    }

    fn counted(&self, what: &str) -> Frame {
        let count = self.count.unwrap_or_default().0;
        Frame::Other(format!("{count} {what}").into())
    }

    fn close(self) -> Close {
        let number = |text: &Option<AnyText>| text.as_ref().and_then(|text| text.0.parse().ok());
        let space = self.error_space.as_deref();
        let code = number(&self.error_code).or_else(|| number(&self.raw_error_code));
        Close {
            is_local: None,
            is_of_application: space.map(|space| space.starts_with("application")),
            code: code.or_else(|| number(&self.error)),
            error: self.error.or(self.error_code).map(|error| error.0),
            reason: self.reason.map(|reason| reason.0),
            trigger: None,
        }
    }

    fn ack(self) -> Frame {
        let ect = match (self.ect0, self.ect1) {
            (None, None) => None,
            (zero, one) => {
                Some(zero.unwrap_or_default().0.saturating_add(one.unwrap_or_default().0))
            }
        };
        Frame::Ack {
            ranges: self.acked_ranges.map(|ranges| ranges.0).unwrap_or_default(),
            delay: self.ack_delay.map(Milliseconds::duration),
            ce: self.ce.map(|count| count.0),
            ect,
        }
    }
}

/// Ranges of packet numbers, each given as its first and last number or as a single number.
struct Ranges(Vec<RangeInclusive<u64>>);

impl<'de> Deserialize<'de> for Ranges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RangesVisitor)
    }
}

struct RangesVisitor;

impl<'de> Visitor<'de> for RangesVisitor {
    type Value = Ranges;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of ranges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Ranges, A::Error> {
        let mut ranges = Vec::new();
        while let Some(Range(range)) = sequence.next_element()? {
            if ranges.len() < MAX_ELEMENTS {
                ranges.push(range);
            }
        }
        Ok(Ranges(ranges))
    }
}

struct Range(RangeInclusive<u64>);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RangeVisitor)
    }
}

struct RangeVisitor;

impl<'de> Visitor<'de> for RangeVisitor {
    type Value = Range;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of one or two packet numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Range, A::Error> {
        let first = sequence.next_element::<Number>()?.unwrap_or_default().0;
        let last = sequence.next_element::<Number>()?.map_or(first, |last| last.0);
        while sequence.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Range(first.min(last)..=first.max(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Frames};

    #[test]
    fn frames_that_stand_for_others_say_for_how_many() {
        let json = r#"[{"frame_type":"ping"},{"frame_type":"clearway:repeated","count":1149},
            {"frame_type":"clearway:omitted","count":190}]"#;
        let Frames(frames) = serde_json::from_str(json).unwrap();
        let other = |text: &str| Frame::Other(text.into());
        assert_eq!(frames, [Frame::Ping, other("1149 more of these"), other("190 others")]);
    }
}
