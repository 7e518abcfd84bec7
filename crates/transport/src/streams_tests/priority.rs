//! Tests of the order in which streams are sent, and of how packets are filled.

use super::*;

fn wide() -> StreamsConfig {
    StreamsConfig {
        initial_stream_receive_window: 1 << 20,
        initial_connection_receive_window: 4 << 20,
        send_buffer: 4 << 20,
        ..config()
    }
}

/// Returns the streams in each packet, in order.
fn order(packets: &[Packet]) -> Vec<Vec<u64>> {
    let streams = |packet: &Packet| {
        let each = packet.tokens.iter().filter_map(|token| match token {
            Token::Stream { stream_id, .. } => Some(stream_id.index()),
            _ => None,
        });
        each.collect()
    };
    packets.iter().map(streams).collect()
}

fn three(pair: &mut Pair, length: usize) -> [StreamId; 3] {
    [0; 3].map(|_| {
        let id = pair.client.open(UNIDIRECTIONAL).unwrap();
        pair.client.write(id, data(length)).unwrap();
        id
    })
}

#[test]
fn equals_share_fairly_and_not_within_packets() {
    let mut pair = Pair::new(wide());
    three(&mut pair, 100_000);
    let mut sent = [0u64; 3];
    for count in 1..=120 {
        let packet = packet(&mut pair.client, 1200).unwrap();
        for token in &packet.tokens {
            let Token::Stream { stream_id, length, .. } = token else { panic!("{token:?}") };
            sent[stream_id.index() as usize] += length;
        }
        assert_eq!(packet.bytes.len(), 1200, "every packet is full");
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 2 * 4800, "{sent:?} after {count}");
        assert_eq!(packet.tokens.len(), 1);
    }
}

#[test]
fn a_packet_takes_another_stream_when_one_runs_out() {
    let mut pair = Pair::new(wide());
    three(&mut pair, 500);
    let packets = packets(&mut pair.client);
    assert_eq!(order(&packets), [vec![0, 1, 2], vec![2]]);
}

#[test]
fn a_higher_priority_goes_first_and_can_change() {
    let mut pair = Pair::new(wide());
    let ids = three(&mut pair, 3000);
    pair.client.set_priority(ids[2], 5, true).unwrap();
    let first = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(order(&[first]), [[2]]);
    pair.client.set_priority(ids[1], 9, false).unwrap();
    let rest = order(&packets(&mut pair.client)).concat();
    let mut without_repeats = rest.clone();
    without_repeats.dedup();
    assert_eq!(without_repeats, [1, 2, 0]);
    assert_eq!(
        pair.client.set_priority(id(Side::Client, BIDIRECTIONAL, 0), 1, true),
        Err(UnknownStream)
    );
}

#[test]
fn what_was_lost_goes_before_what_is_new_whatever_its_priority() {
    let mut pair = Pair::new(wide());
    let ids = three(&mut pair, 3000);
    pair.client.set_priority(ids[0], -1, true).unwrap();
    let urgent = packets(&mut pair.client);
    let of_first = urgent
        .iter()
        .flat_map(|packet| &packet.tokens)
        .find(|token| matches!(token, Token::Stream { stream_id, .. } if *stream_id == ids[0]));
    pair.client.write(ids[1], data(3000)).unwrap();
    pair.client.on_lost(of_first.unwrap());
    let next = packet(&mut pair.client, 1200).unwrap();
    assert_eq!(order(&[next]).concat()[0], 0);
}

#[test]
fn streams_that_are_not_incremental_come_whole_in_order() {
    let mut pair = Pair::new(wide());
    let ids = three(&mut pair, 20_000);
    for id in ids {
        pair.client.set_priority(id, 0, false).unwrap();
    }
    let mut order = order(&packets(&mut pair.client)).concat();
    order.dedup();
    assert_eq!(order, [0, 1, 2]);
}
