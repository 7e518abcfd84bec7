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
            assert_eq!(state.after(input), expected.map(|arrow| arrow.2), "{state:?} {input:?}");
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
            assert_eq!(state.after(input), expected.map(|arrow| arrow.2), "{state:?} {input:?}");
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
