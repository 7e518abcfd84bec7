//! The state machines of RFC 9000 §3. There are no transitions other than those in the RFC's figures.

/// The sending part of a stream (RFC 9000 §3.1, figure 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendState {
    /// Open, with nothing sent yet.
    Ready,
    /// Data is being sent.
    Send,
    /// All data and the FIN were sent. Lost data is sent again.
    DataSent,
    /// Everything was acknowledged.
    DataReceived,
    /// RESET_STREAM was sent.
    ResetSent,
    /// RESET_STREAM was acknowledged.
    ResetReceived,
}

/// An event of the sending part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendInput {
    /// A STREAM or STREAM_DATA_BLOCKED frame was sent.
    SendsFrame,
    /// A STREAM frame with the FIN was sent.
    SendsEnd,
    /// All data and the FIN were acknowledged.
    AllAcknowledged,
    /// The application resets the stream, or a STOP_SENDING was received.
    Resets,
    /// The RESET_STREAM was acknowledged.
    ResetAcknowledged,
}

impl SendState {
    /// The state after `input`; `None` if `input` changes nothing.
    pub(super) const fn after(self, input: SendInput) -> Option<Self> {
        match (self, input) {
            (Self::Ready, SendInput::SendsFrame) => Some(Self::Send),
            (Self::Send, SendInput::SendsEnd) => Some(Self::DataSent),
            (Self::DataSent, SendInput::AllAcknowledged) => Some(Self::DataReceived),
            (Self::Ready | Self::Send | Self::DataSent, SendInput::Resets) => Some(Self::ResetSent),
            (Self::ResetSent, SendInput::ResetAcknowledged) => Some(Self::ResetReceived),
            _ => None,
        }
    }

    /// Whether this is a terminal state.
    pub(super) const fn is_terminal(self) -> bool {
        matches!(self, Self::DataReceived | Self::ResetReceived)
    }

    /// Whether data is sent, or sent again when lost.
    pub(super) const fn carries_data(self) -> bool {
        matches!(self, Self::Ready | Self::Send | Self::DataSent)
    }
}

/// The receiving part of a stream (RFC 9000 §3.2, figure 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// The application has been told of the reset.
    ResetRead,
}

/// An event of the receiving part.
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
    /// The application was told of the reset.
    ResetRead,
}

impl ReceiveState {
    /// The state after `input`; `None` if `input` changes nothing.
    pub(super) const fn after(self, input: ReceiveInput) -> Option<Self> {
        match (self, input) {
            (Self::Receive, ReceiveInput::End) => Some(Self::SizeKnown),
            (Self::SizeKnown, ReceiveInput::AllReceived) => Some(Self::DataReceived),
            (Self::DataReceived, ReceiveInput::AllRead) => Some(Self::DataRead),
            // A reset after all data has been received changes nothing: the RFC leaves the choice, and the application
            // keeps the data.
            (Self::Receive | Self::SizeKnown, ReceiveInput::Reset) => Some(Self::ResetReceived),
            (Self::ResetReceived, ReceiveInput::ResetRead) => Some(Self::ResetRead),
            _ => None,
        }
    }

    /// Whether this is a terminal state.
    pub(super) const fn is_terminal(self) -> bool {
        matches!(self, Self::DataRead | Self::ResetRead)
    }

    /// Whether data that arrives is still used.
    pub(super) const fn takes_data(self) -> bool {
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
        let states = [Ready, Send, DataSent, DataReceived, ResetSent, ResetReceived];
        let inputs = [SendsFrame, SendsEnd, AllAcknowledged, Resets, ResetAcknowledged];
        let arrows = [
            (Ready, SendsFrame, Send),
            (Send, SendsEnd, DataSent),
            (DataSent, AllAcknowledged, DataReceived),
            (Ready, Resets, ResetSent),
            (Send, Resets, ResetSent),
            (DataSent, Resets, ResetSent),
            (ResetSent, ResetAcknowledged, ResetReceived),
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
        assert!(SendState::DataReceived.is_terminal() && SendState::ResetReceived.is_terminal());
        assert!(ReceiveState::DataRead.is_terminal() && ReceiveState::ResetRead.is_terminal());
        assert!(!SendState::ResetSent.is_terminal() && !ReceiveState::ResetReceived.is_terminal());
        assert_eq!(SendState::DataReceived.after(SendInput::Resets), None);
        assert_eq!(ReceiveState::DataRead.after(ReceiveInput::Reset), None);
    }
}
