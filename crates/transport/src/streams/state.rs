//! The state machines of RFC 9000 §3. There are no transitions other than those in the RFC's figures.

use clearway_units::packed::{Pack, Packer, Unpacker};
use clearway_wire::VarInt;

/// The way in which the end of a stream is signaled to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamEnd {
    /// The FIN bit of a STREAM frame.
    Fin,
    /// A RESET_STREAM_AT frame: the stream is reset, but the data before `reliable_size` is
    /// delivered (draft-ietf-quic-reliable-stream-reset).
    ResetAt {
        /// The application's error code.
        code: VarInt,
        /// The number of bytes at the beginning that are delivered.
        reliable_size: u64,
    },
}

/// The delivery state of the frame that ends a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Delivery {
    /// The frame has to be sent, because it was lost or has changed.
    Owed,
    /// The frame is in flight.
    InFlight,
    /// The frame was acknowledged, but some of the data was not.
    Acknowledged,
}

/// The sending part of a stream (RFC 9000 §3.1, figure 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendState {
    /// Nothing has been sent yet. The application may write until it sets an end.
    Ready(Option<StreamEnd>),
    /// Data is being sent. The application may write until it sets an end.
    Send(Option<StreamEnd>),
    /// All data and the end were sent. Lost data is retransmitted.
    DataSent(StreamEnd, Delivery),
    /// Everything was acknowledged.
    DataReceived(StreamEnd),
    /// RESET_STREAM was sent or is about to be, and the data is abandoned.
    ResetSent {
        /// The error code of the frame.
        code: VarInt,
        /// The error code of the peer's STOP_SENDING, if that was the cause.
        stopped: Option<VarInt>,
        /// Whether the frame has to be sent, either for the first time or again.
        is_owed: bool,
    },
    /// RESET_STREAM was acknowledged.
    ResetReceived {
        /// The error code of the peer's STOP_SENDING, if that was the cause.
        stopped: Option<VarInt>,
    },
}

/// An event of the sending part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendInput {
    /// A STREAM or STREAM_DATA_BLOCKED frame was sent.
    SendsFrame,
    /// The frame that ends the stream was sent, after all data.
    SendsEnd(StreamEnd),
    /// All data and the end were acknowledged.
    AllAcknowledged,
    /// The application resets the stream with a code, or a STOP_SENDING was received.
    Resets(VarInt),
    /// The RESET_STREAM was acknowledged.
    ResetAcknowledged,
}

impl SendState {
    /// Returns the state after `input`; `None` if `input` changes nothing.
    pub(super) const fn after(self, input: SendInput) -> Option<Self> {
        match (self, input) {
            (Self::Ready(end), SendInput::SendsFrame) => Some(Self::Send(end)),
            (Self::Send(_), SendInput::SendsEnd(end)) => {
                Some(Self::DataSent(end, Delivery::InFlight))
            }
            (Self::DataSent(end, _), SendInput::AllAcknowledged) => Some(Self::DataReceived(end)),
            (Self::Ready(_) | Self::Send(_) | Self::DataSent(..), SendInput::Resets(code)) => {
                Some(Self::ResetSent { code, stopped: None, is_owed: true })
            }
            (Self::ResetSent { stopped, .. }, SendInput::ResetAcknowledged) => {
                Some(Self::ResetReceived { stopped })
            }
            _ => None,
        }
    }

    /// Returns whether this is a terminal state.
    pub(super) const fn is_terminal(&self) -> bool {
        matches!(self, Self::DataReceived(_) | Self::ResetReceived { .. })
    }

    /// Returns whether the stream still sends data and retransmits lost data.
    pub(super) const fn carries_data(&self) -> bool {
        matches!(self, Self::Ready(_) | Self::Send(_) | Self::DataSent(..))
    }

    /// Returns how the stream ends, unless this is undecided or the entire stream is reset.
    pub(super) const fn end(&self) -> Option<StreamEnd> {
        match self {
            Self::Ready(end) | Self::Send(end) => *end,
            Self::DataSent(end, _) | Self::DataReceived(end) => Some(*end),
            Self::ResetSent { .. } | Self::ResetReceived { .. } => None,
        }
    }

    /// Returns the end that has to be sent, once all data has been sent.
    pub(super) const fn owed_end(&self) -> Option<StreamEnd> {
        match self {
            Self::Ready(end) | Self::Send(end) => *end,
            Self::DataSent(end, Delivery::Owed) => Some(*end),
            _ => None,
        }
    }
}

/// The states that [can be packed](SendState::is_plain), indexed by their packed number.
const PLAIN: [SendState; 8] = {
    use SendState::{DataReceived, DataSent, Ready, Send};
    [
        Ready(None),
        Ready(Some(StreamEnd::Fin)),
        Send(None),
        Send(Some(StreamEnd::Fin)),
        DataSent(StreamEnd::Fin, Delivery::Owed),
        DataSent(StreamEnd::Fin, Delivery::InFlight),
        DataSent(StreamEnd::Fin, Delivery::Acknowledged),
        DataReceived(StreamEnd::Fin),
    ]
};

impl SendState {
    /// Returns whether the stream was neither reset nor stopped.
    pub(super) fn is_plain(self) -> bool {
        PLAIN.contains(&self)
    }
}

/// Packs a state that [is plain](SendState::is_plain); no other can be packed.
impl Pack for SendState {
    fn pack(&self, into: &mut Packer) {
        let number = PLAIN.iter().position(|state| state == self);
        debug_assert!(number.is_some(), "{self:?} is packed");
        (number.unwrap_or_default() as u8).pack(into);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let number = u8::unpack(from);
        PLAIN.get(usize::from(number)).copied().unwrap_or(Self::Ready(None))
    }
}

/// The receiving part of a stream (RFC 9000 §3.2, figure 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pack)]
pub(super) enum ReceiveState {
    /// Data is being received.
    Receive,
    /// The final size is known; some data is missing.
    SizeKnown,
    /// All data was received.
    DataReceived,
    /// All data was read.
    DataRead,
    /// The peer reset the stream.
    ResetReceived,
    /// The reset was reported to the application.
    ResetRead,
}

/// An event of the receiving part of a stream (RFC 9000 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiveInput {
    /// A STREAM frame with the FIN was received.
    End,
    /// All data up to the final size has been received.
    AllReceived,
    /// The application has read all data.
    AllRead,
    /// A RESET_STREAM frame was received.
    Reset,
    /// The reset was reported to the application.
    ResetRead,
}

impl ReceiveState {
    /// Returns the state after `input`; `None` if `input` changes nothing.
    pub(super) const fn after(self, input: ReceiveInput) -> Option<Self> {
        match (self, input) {
            (Self::Receive, ReceiveInput::End) => Some(Self::SizeKnown),
            (Self::SizeKnown, ReceiveInput::AllReceived) => Some(Self::DataReceived),
            (Self::DataReceived, ReceiveInput::AllRead) => Some(Self::DataRead),
            // A reset after all data has been received changes nothing: the RFC leaves the choice,
            // and the application keeps the data.
            (Self::Receive | Self::SizeKnown, ReceiveInput::Reset) => Some(Self::ResetReceived),
            (Self::ResetReceived, ReceiveInput::ResetRead) => Some(Self::ResetRead),
            _ => None,
        }
    }

    /// Returns whether this is a terminal state.
    pub(super) const fn is_terminal(&self) -> bool {
        matches!(self, Self::DataRead | Self::ResetRead)
    }

    /// Returns whether newly received data is still used.
    pub(super) const fn takes_data(&self) -> bool {
        matches!(self, Self::Receive | Self::SizeKnown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sending_part_has_exactly_the_arrows_of_figure_2() {
        use SendInput::*;
        use SendState::*;
        let (end, code) = (StreamEnd::Fin, VarInt::from_u32(7));
        let (ends, resets) = (SendsEnd(end), Resets(code));
        let data_sent = DataSent(end, Delivery::InFlight);
        let reset_sent = ResetSent { code, stopped: None, is_owed: true };
        let reset_received = ResetReceived { stopped: None };
        let states =
            [Ready(None), Send(None), data_sent, DataReceived(end), reset_sent, reset_received];
        let inputs = [SendsFrame, ends, AllAcknowledged, resets, ResetAcknowledged];
        let arrows = [
            (Ready(None), SendsFrame, Send(None)),
            (Send(None), ends, data_sent),
            (data_sent, AllAcknowledged, DataReceived(end)),
            (Ready(None), resets, reset_sent),
            (Send(None), resets, reset_sent),
            (data_sent, resets, reset_sent),
            (reset_sent, ResetAcknowledged, reset_received),
        ];
        for state in states {
            for input in inputs {
                let expected = arrows.iter().find(|arrow| (arrow.0, arrow.1) == (state, input));
                assert_eq!(
                    state.after(input),
                    expected.map(|arrow| arrow.2),
                    "{state:?} {input:?}"
                );
            }
        }
    }

    #[test]
    fn receiving_part_has_exactly_the_arrows_of_figure_3() {
        use ReceiveInput::{AllRead, AllReceived, End, Reset};
        use ReceiveState::*;
        let states = [Receive, SizeKnown, DataReceived, DataRead, ResetReceived, ResetRead];
        let inputs = [End, AllReceived, AllRead, Reset, ReceiveInput::ResetRead];
        let arrows = [
            (Receive, End, SizeKnown),
            (SizeKnown, AllReceived, DataReceived),
            (DataReceived, AllRead, DataRead),
            (Receive, Reset, ResetReceived),
            (SizeKnown, Reset, ResetReceived),
            (ResetReceived, ReceiveInput::ResetRead, ResetRead),
        ];
        for state in states {
            for input in inputs {
                let expected = arrows.iter().find(|arrow| (arrow.0, arrow.1) == (state, input));
                assert_eq!(
                    state.after(input),
                    expected.map(|arrow| arrow.2),
                    "{state:?} {input:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_leaves_a_terminal_state() {
        let code = VarInt::from_u32(7);
        let received = SendState::DataReceived(StreamEnd::Fin);
        let reset_sent = SendState::ResetSent { code, stopped: None, is_owed: false };
        assert!(received.is_terminal());
        assert!(SendState::ResetReceived { stopped: None }.is_terminal());
        assert!(ReceiveState::DataRead.is_terminal() && ReceiveState::ResetRead.is_terminal());
        assert!(!reset_sent.is_terminal() && !ReceiveState::ResetReceived.is_terminal());
        assert_eq!(received.after(SendInput::Resets(code)), None);
        assert_eq!(ReceiveState::DataRead.after(ReceiveInput::Reset), None);
    }

    #[test]
    fn plain_states_are_packed() {
        for state in PLAIN {
            let mut packer = Packer::new();
            state.pack(&mut packer);
            assert_eq!(SendState::unpack(&mut Unpacker::new(&packer.finish())), state);
        }
        assert!(!SendState::ResetReceived { stopped: None }.is_plain());
    }
}
