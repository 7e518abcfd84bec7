//! The information that a connection retransmits until it arrives, regardless of losses (RFC 9000
//! §13.3).

use std::collections::BTreeMap;

use clearway_wire::{Direction, Frame};

/// Information that no later event makes unnecessary. Stream contents are omitted, because the end
/// of a stream makes them unnecessary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reliable {
    MaxData,
    MaxBidirectionalStreams,
    MaxUnidirectionalStreams,
    NewConnectionId(u64),
    RetireConnectionId(u64),
    AckFrequency,
    HandshakeDone,
}

/// The newest value for each kind of information; 0 for kinds without a value.
pub type Newest = BTreeMap<Reliable, u64>;

/// Adds the information that `frame` contains.
pub(super) fn note(newest: &mut Newest, frame: &Frame<'_>) {
    let (information, value) = match frame {
        Frame::MaxData(frame) => (Reliable::MaxData, frame.maximum.get()),
        Frame::MaxStreams(frame) if frame.direction == Direction::Bidirectional => {
            (Reliable::MaxBidirectionalStreams, frame.maximum.get())
        }
        Frame::MaxStreams(frame) => (Reliable::MaxUnidirectionalStreams, frame.maximum.get()),
        Frame::NewConnectionId(frame) => (Reliable::NewConnectionId(frame.sequence.get()), 0),
        Frame::RetireConnectionId(frame) => (Reliable::RetireConnectionId(frame.sequence.get()), 0),
        Frame::AckFrequency(frame) => (Reliable::AckFrequency, frame.sequence.get()),
        Frame::HandshakeDone => (Reliable::HandshakeDone, 0),
        _ => return,
    };
    let newest = newest.entry(information).or_default();
    *newest = value.max(*newest);
}
