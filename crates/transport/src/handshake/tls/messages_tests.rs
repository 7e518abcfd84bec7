use super::*;

fn message(ticket: &[u8]) -> Vec<u8> {
    message_for(9, ticket)
}

fn message_for(lifetime: u8, ticket: &[u8]) -> Vec<u8> {
    let ticket_len = u16::try_from(ticket.len()).unwrap().to_be_bytes();
    let mut body = [0, 0, 0, lifetime, 1, 2, 3, 4, 2, 7, 8].to_vec();
    body.extend_from_slice(&ticket_len);
    body.extend_from_slice(ticket);
    body.extend_from_slice(&[0, 0]);
    let [_, length @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[NEW_SESSION_TICKET], &length[..], &body].concat()
}

#[test]
fn a_message_is_taken_once_it_is_complete() {
    let whole = [message(b"one"), message(b"two")].concat();
    let mut received = whole[..message(b"one").len() - 1].to_vec();
    assert_eq!(take_message(&mut received), None);
    received = whole;
    let first = take_message(&mut received).unwrap();
    assert_eq!(NewTicket::parse(&first).unwrap().ticket, b"one");
    assert_eq!(received, message(b"two"));
}

#[test]
fn tickets_are_replaced_and_all_else_is_kept() {
    let mut out = [b"before".to_vec(), message(b"one"), message(b"two")].concat();
    rewrite_tickets(&mut out, 6, 9, |ticket| (ticket == b"one").then(|| vec![9; 300]));
    assert_eq!(out, [b"before".to_vec(), message(&[9; 300]), message(b"two")].concat());
}

#[test]
fn longer_lifetimes_are_shortened_and_shorter_ones_kept() {
    let mut out = [message_for(7, b"one"), message_for(9, b"two")].concat();
    rewrite_tickets(&mut out, 0, 8, |_| None);
    assert_eq!(out, [message_for(7, b"one"), message_for(8, b"two")].concat());
}
