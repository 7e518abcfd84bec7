//! Tracks data and frames that must arrive, and are retransmitted when they are lost (RFC 9000
//! §13.3), as seen on the wire.
//!
//! For each stream byte and each control frame, the records keep the packet that last carried it.
//! If that packet is declared lost, the byte or frame is pending until another packet carries it,
//! or until it is no longer needed.

use std::collections::{BTreeMap, VecDeque};

use clearway_transport::SpaceId;
use clearway_wire::{Direction, Frame, StreamId};

use super::carriers::LastCarriers;

/// The number of later entries after which a lost packet is forgotten; until then it may still be
/// acknowledged.
const REMEMBERED: usize = 1 << 14;
/// The maximum number of ack-eliciting packets that may be sent before a pending control frame,
/// whatever else there is to send.
const TIMEOUT: u64 = 64;

/// A sequence of bytes that are sent in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Sequence {
    Crypto(SpaceId),
    Stream(StreamId),
}

/// The subject of a control frame. A newer frame of the same type, for the same stream if there is
/// one, supersedes earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Subject {
    ResetStream(StreamId),
    ResetStreamAt(StreamId),
    AckFrequency,
    StopSending(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams(Direction),
    DataBlocked,
    StreamDataBlocked(StreamId),
    StreamsBlocked(Direction),
    NewConnectionId(u64),
    RetireConnectionId(u64),
    NewToken,
    HandshakeDone,
}

/// The relevant content of one frame in a packet.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// The end of a stream counts as one byte after the last one.
    Bytes {
        of: Sequence,
        start: u64,
        end: u64,
    },
    Control {
        subject: Subject,
        value: u64,
    },
}

/// The newest control frame with a given [`Subject`].
#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u64,
    value: u64,
    /// The number of ack-eliciting packets that had been sent when the frame was lost; `None` if
    /// the frame is not pending.
    owed_since: Option<u64>,
}

/// The frames of an endpoint that must arrive, and whether they have arrived.
#[derive(Debug, Default)]
pub(in crate::checker) struct Delivery {
    /// The frames of each space, with the numbers of their packets; `None` once a frame is
    /// acknowledged.
    sent: [VecDeque<(u64, Option<Item>)>; 3],
    bytes: BTreeMap<Sequence, LastCarriers>,
    control: BTreeMap<Subject, Newest>,
    /// The number of pending entries in `control`, and of pending pieces in `bytes`.
    owed_control: usize,
    owed_bytes: usize,
    ack_eliciting: u64,
}

impl Delivery {
    /// Records a frame that is being sent in packet `number` of `space`.
    pub(in crate::checker) fn on_frame_sent(
        &mut self,
        space: SpaceId,
        number: u64,
        frame: &Frame<'_>,
    ) {
        match frame {
            Frame::ResetStream(reset) => {
                self.end_stream(reset.stream_id);
                self.drop_subject(Subject::ResetStreamAt(reset.stream_id));
            }
            Frame::ResetStreamAt(reset) => {
                self.cut_stream(reset.stream_id, reset.reliable_size.get());
            }
            Frame::StopSending(stop) => self.refuse(stop.stream_id),
            _ => {}
        }
        let Some(item) = item_of(space, frame) else { return };
        self.sent[space as usize].push_back((number, Some(item)));
        match item {
            Item::Bytes { of, start, end } => {
                self.change(of, |carriers| carriers.carry(start, end, number));
            }
            Item::Control { subject, value } => {
                let newest = Newest { number, value, owed_since: None };
                let before = self.control.insert(subject, newest);
                self.owed_control -=
                    usize::from(before.is_some_and(|before| before.owed_since.is_some()));
            }
        }
    }

    /// Records an ack-eliciting packet that congestion control allowed.
    pub(in crate::checker) fn on_ack_eliciting_sent(&mut self) {
        self.ack_eliciting += 1;
    }

    /// Processes the acknowledgment of packet `number` of `space`.
    pub(in crate::checker) fn on_acknowledged(&mut self, space: SpaceId, number: u64) {
        let mut position = self.first(space, number);
        while let Some((at, item)) = self.sent[space as usize].get_mut(position) {
            if *at != number {
                break;
            }
            if let Some(item) = item.take() {
                self.arrive(item);
            }
            position += 1;
        }
        let sent = &mut self.sent[space as usize];
        while sent.front().is_some_and(|(_, item)| item.is_none()) || sent.len() > REMEMBERED {
            sent.pop_front();
        }
    }

    /// Processes the loss of packet `number` of `space`.
    pub(in crate::checker) fn on_lost(&mut self, space: SpaceId, number: u64) {
        let mut position = self.first(space, number);
        while let Some((at, item)) = self.sent[space as usize].get(position) {
            if *at != number {
                break;
            }
            match *item {
                Some(Item::Bytes { of, start, end }) => {
                    self.change(of, |carriers| carriers.lose(start, end, number));
                }
                Some(Item::Control { subject, .. }) => {
                    let newest = self.control.get_mut(&subject);
                    if let Some(newest) = newest.filter(|it| it.number == number)
                        && newest.owed_since.is_none()
                    {
                        newest.owed_since = Some(self.ack_eliciting);
                        self.owed_control += 1;
                    }
                }
                None => {}
            }
            position += 1;
        }
    }

    /// Records that no outstanding packet of `space` will arrive: all its frames must be
    /// retransmitted.
    pub(in crate::checker) fn on_abandoned(&mut self, space: SpaceId) {
        let numbers: Vec<u64> =
            self.sent[space as usize].iter().map(|(number, _)| *number).collect();
        for number in numbers {
            self.on_lost(space, number);
        }
    }

    /// Processes a received frame that may make pending data obsolete.
    pub(in crate::checker) fn on_frame_received(&mut self, frame: &Frame<'_>) {
        match frame {
            Frame::StopSending(stop) => self.end_stream(stop.stream_id),
            Frame::ResetStream(reset) => self.complete(reset.stream_id),
            Frame::ResetStreamAt(reset) => self.complete(reset.stream_id),
            Frame::Stream(stream) if stream.fin => self.complete(stream.stream_id),
            Frame::MaxData(_) => self.drop_subject(Subject::DataBlocked),
            Frame::MaxStreamData(max) => {
                self.drop_subject(Subject::StreamDataBlocked(max.stream_id));
            }
            Frame::MaxStreams(max) => self.drop_subject(Subject::StreamsBlocked(max.direction)),
            Frame::RetireConnectionId(retired) => {
                self.drop_subject(Subject::NewConnectionId(retired.sequence.get()));
            }
            _ => {}
        }
    }

    /// Discards the frames of `space`, whose keys were discarded.
    pub(in crate::checker) fn discard(&mut self, space: SpaceId) {
        self.sent[space as usize].clear();
        self.drop_bytes(Sequence::Crypto(space));
    }

    /// Describes what is pending, if anything is.
    pub(in crate::checker) fn owed(&self) -> Option<String> {
        if self.owed_control == 0 && self.owed_bytes == 0 {
            return None;
        }
        let control = self.control.iter().find(|(_, newest)| newest.owed_since.is_some());
        let control = control.map(|(subject, newest)| {
            format!("{subject:?} with {}, of packet {}", newest.value, newest.number)
        });
        control.or_else(|| {
            self.bytes.iter().find_map(|(sequence, carriers)| {
                let (start, end, number) = carriers.owed()?;
                Some(format!(
                    "{sequence:?}, {start} to {end} (including the end), of packet {number}"
                ))
            })
        })
    }

    /// Describes a control frame that is still pending although many packets were sent since it was
    /// lost.
    pub(in crate::checker) fn neglected(&self) -> Option<String> {
        if self.owed_control == 0 {
            return None;
        }
        self.control.iter().find_map(|(subject, newest)| {
            let packets = self.ack_eliciting - newest.owed_since?;
            let what = || {
                format!(
                    "{subject:?} with {}, in none of {packets} packets sent since",
                    newest.value
                )
            };
            (packets > TIMEOUT).then(what)
        })
    }

    fn change(&mut self, of: Sequence, change: impl FnOnce(&mut LastCarriers)) {
        let carriers = self.bytes.entry(of).or_default();
        self.owed_bytes -= carriers.pending_pieces();
        change(carriers);
        self.owed_bytes += carriers.pending_pieces();
        if carriers.is_empty() {
            self.bytes.remove(&of);
        }
    }

    fn first(&self, space: SpaceId, number: u64) -> usize {
        self.sent[space as usize].partition_point(|(at, _)| *at < number)
    }

    fn arrive(&mut self, item: Item) {
        match item {
            Item::Bytes { of, start, end } => {
                self.change(of, |carriers| carriers.settle(start, end));
            }
            Item::Control { subject, value } => {
                if self.control.get(&subject).is_some_and(|newest| newest.value == value) {
                    self.drop_subject(subject);
                }
            }
        }
    }

    /// Records that only a RESET_STREAM frame will still be sent for the stream.
    fn end_stream(&mut self, id: StreamId) {
        self.drop_bytes(Sequence::Stream(id));
        self.drop_subject(Subject::StreamDataBlocked(id));
        // The data blocked by the connection-level limit may have belonged to this stream.
        self.drop_subject(Subject::DataBlocked);
    }

    /// Records that only the stream's first `reliable` bytes and its RESET_STREAM_AT frame must
    /// arrive.
    fn cut_stream(&mut self, id: StreamId, reliable: u64) {
        self.change(Sequence::Stream(id), |carriers| carriers.settle(reliable, u64::MAX));
    }

    /// Records that the endpoint wants no more data on the stream: its receive limit is obsolete
    /// (RFC 9000 §13.3).
    fn refuse(&mut self, id: StreamId) {
        self.drop_subject(Subject::MaxStreamData(id));
    }

    /// Records that the final size of the stream is known.
    fn complete(&mut self, id: StreamId) {
        self.refuse(id);
        self.drop_subject(Subject::StopSending(id));
    }

    fn drop_bytes(&mut self, of: Sequence) {
        if let Some(carriers) = self.bytes.remove(&of) {
            self.owed_bytes -= carriers.pending_pieces();
        }
    }

    fn drop_subject(&mut self, subject: Subject) {
        if self.control.remove(&subject).is_some_and(|newest| newest.owed_since.is_some()) {
            self.owed_control -= 1;
        }
    }
}

/// Returns the relevant content of a frame that must arrive. PING, IMMEDIATE_ACK, PADDING, ACK,
/// DATAGRAM, PATH_CHALLENGE, PATH_RESPONSE and CONNECTION_CLOSE are not retransmitted unchanged
/// (RFC 9000 §13.3).
fn item_of(space: SpaceId, frame: &Frame<'_>) -> Option<Item> {
    let (subject, value) = match frame {
        Frame::Crypto(crypto) => {
            let start = crypto.offset.get();
            let end = start + crypto.data.len() as u64;
            let of = Sequence::Crypto(space);
            return (end > start).then_some(Item::Bytes { of, start, end });
        }
        Frame::Stream(stream) => {
            let start = stream.offset.get();
            let end = start + stream.data.len() as u64 + u64::from(stream.fin);
            let of = Sequence::Stream(stream.stream_id);
            return (end > start).then_some(Item::Bytes { of, start, end });
        }
        Frame::ResetStream(it) => (Subject::ResetStream(it.stream_id), it.error_code.get()),
        Frame::ResetStreamAt(it) => (Subject::ResetStreamAt(it.stream_id), it.reliable_size.get()),
        // A newer frame with the settings current at that time supersedes it
        // (draft-ietf-quic-ack-frequency §4).
        Frame::AckFrequency(it) => (Subject::AckFrequency, it.sequence.get()),
        Frame::StopSending(it) => (Subject::StopSending(it.stream_id), it.error_code.get()),
        Frame::NewToken(_) => (Subject::NewToken, 0),
        Frame::MaxData(it) => (Subject::MaxData, it.maximum.get()),
        Frame::MaxStreamData(it) => (Subject::MaxStreamData(it.stream_id), it.maximum.get()),
        Frame::MaxStreams(it) => (Subject::MaxStreams(it.direction), it.maximum.get()),
        Frame::DataBlocked(it) => (Subject::DataBlocked, it.limit.get()),
        Frame::StreamDataBlocked(it) => (Subject::StreamDataBlocked(it.stream_id), it.limit.get()),
        Frame::StreamsBlocked(it) => (Subject::StreamsBlocked(it.direction), it.limit.get()),
        Frame::NewConnectionId(it) => (Subject::NewConnectionId(it.sequence.get()), 0),
        Frame::RetireConnectionId(it) => (Subject::RetireConnectionId(it.sequence.get()), 0),
        Frame::HandshakeDone => (Subject::HandshakeDone, 0),
        Frame::Padding(_)
        | Frame::Ping
        | Frame::ImmediateAck
        | Frame::Ack(_)
        | Frame::PathChallenge(_)
        | Frame::PathResponse(_)
        | Frame::ConnectionClose(_)
        | Frame::Datagram(_) => return None,
    };
    Some(Item::Control { subject, value })
}
