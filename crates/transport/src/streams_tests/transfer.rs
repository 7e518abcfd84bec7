//! Bulk transfer over a network that loses and reorders packets and delays acknowledgments.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_units::Random;
use proptest::prelude::*;

use super::*;

/// One direction of a network, with the sender's outstanding packets.
#[derive(Default)]
struct Way {
    under_way: Vec<Packet>,
    unacknowledged: Vec<Vec<Token>>,
    declared_lost: Vec<Vec<Token>>,
}

impl Way {
    /// Sends, loses and reorders packets, and reports each packet's outcome to the sender:
    /// correctly, late, or first as lost and then as acknowledged.
    fn step(&mut self, random: &mut Random, from: &mut Streams, to: &mut Streams, now: Timestamp) {
        let room = 100 + random.below(1200) as usize;
        self.under_way.extend(packet(from, room));
        while self.under_way.len() > random.below(6) as usize {
            let chosen = random.below(self.under_way.len() as u64) as usize;
            let packet = self.under_way.swap_remove(chosen);
            if random.chance(0.15) {
                packet.tokens.iter().for_each(|token| from.on_lost(token));
                continue;
            }
            deliver(to, now, &packet).unwrap();
            if random.chance(0.05) {
                deliver(to, now, &packet).unwrap();
            }
            if random.chance(0.1) {
                packet.tokens.iter().for_each(|token| from.on_lost(token));
                self.declared_lost.push(packet.tokens);
            } else {
                self.unacknowledged.push(packet.tokens);
            }
        }
        for ledger in [&mut self.unacknowledged, &mut self.declared_lost] {
            if !ledger.is_empty() && random.chance(0.8) {
                let chosen = random.below(ledger.len() as u64) as usize;
                ledger.swap_remove(chosen).iter().for_each(|token| from.on_acked(token));
            }
        }
    }
}

/// The bytes that the applications have written and read on one stream.
#[derive(Default)]
struct Progress {
    written: usize,
    read: usize,
    finished: bool,
}

fn transfer(seed: u64, streams: u64, length: usize) {
    let mut random = Random::from_number(seed);
    let mut pair = Pair::new(StreamsConfig { send_buffer: 9000, ..config() });
    pair.client.on_round_trip(Duration::from_millis(50));
    pair.server.on_round_trip(Duration::from_millis(50));
    let (mut up, mut down) = (Way::default(), Way::default());
    let mut progress: BTreeMap<StreamId, Progress> = BTreeMap::new();
    let content = data(length);
    for step in 0.. {
        assert!(step < 50_000, "stuck: {:?} {:?}", pair.client, pair.server);
        pair.now += Duration::from_millis(random.below(10));
        if (progress.len() as u64) < streams
            && let Some(id) = pair.client.open(UNIDIRECTIONAL)
        {
            progress.insert(id, Progress::default());
        }
        for (id, progress) in progress.iter_mut().filter(|(_, progress)| progress.written <= length)
        {
            let end = (progress.written + random.below(3000) as usize).min(length);
            let next = content.slice(progress.written..end);
            progress.written += pair.client.write(*id, next).unwrap();
            if progress.written == length {
                pair.client.finish(*id).unwrap();
                progress.written += 1;
            }
        }
        up.step(&mut random, &mut pair.client, &mut pair.server, pair.now);
        down.step(&mut random, &mut pair.server, &mut pair.client, pair.now);
        while pair.server.accept(UNIDIRECTIONAL).is_some() {}
        for (id, progress) in &mut progress {
            match pair.server.read(pair.now, *id, 1 + random.below(4000) as usize) {
                Ok(ReadOutcome::Data(data)) => {
                    let end = progress.read + data.len();
                    assert_eq!(data, content.slice(progress.read..end), "each byte once, in order");
                    progress.read = end;
                }
                Ok(ReadOutcome::Finished) => progress.finished = true,
                Ok(ReadOutcome::Blocked) | Err(_) => {}
            }
        }
        check_ledger(&pair.client);
        check_ledger(&pair.server);
        events(&mut pair.client);
        events(&mut pair.server);
        let all_read = progress.values().all(|progress| progress.finished);
        if all_read && progress.len() as u64 == streams && pair.client.table.len() == 0 {
            break;
        }
    }
    assert!(progress.values().all(|progress| progress.read == length));
    assert_eq!((pair.server.table.len(), pair.client.queues.kept.total()), (0, 0));
    assert_eq!(pair.client.statistics().bytes_sent, streams * length as u64);
    assert_eq!(pair.client.statistics().bytes_acknowledged, streams * length as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(seed: u64, streams in 1u64..9, length in 0usize..12_000) {
        transfer(seed, streams, length);
    }

    /// No sequence of frames makes the counters inconsistent or causes a panic.
    #[test]
    fn any_frames_keep_the_books(seed: u64) {
        let mut random = Random::from_number(seed);
        let mut pair = Pair::new(config());
        while pair.server.open(BIDIRECTIONAL).is_some() {}
        for _ in 0..200 {
            let bytes: Vec<u8> = random_frame(&mut random);
            let mut reader = Reader::new(&bytes);
            let frame = Frame::decode(&mut reader).unwrap();
            if on_frame(&mut pair.server, pair.now, &frame).is_err() {
                break;
            }
            let kind = if random.chance(0.5) { BIDIRECTIONAL } else { UNIDIRECTIONAL };
            let id = id(Side::Client, kind, random.below(8));
            let _ = match random.below(6) {
                0 => pair.server.read(pair.now, id, random.below(500) as usize).is_ok(),
                1 => pair.server.write(id, data(random.below(5000) as usize)).is_ok(),
                2 => pair.server.finish(id).is_ok(),
                3 if random.chance(0.3) => pair.server.reset(id, code(1)).is_ok(),
                4 if random.chance(0.3) => pair.server.stop_sending(pair.now, id, code(1)).is_ok(),
                _ => pair.server.accept(kind).is_some(),
            };
            for packet in packets(&mut pair.server) {
                for token in &packet.tokens {
                    if random.chance(0.5) { pair.server.on_lost(token) }
                    if random.chance(0.5) { pair.server.on_acked(token) }
                }
            }
            check_ledger(&pair.server);
            events(&mut pair.server);
        }
    }
}

/// Returns a frame that a peer could send, with a few stream IDs and small numbers.
fn random_frame(random: &mut Random) -> Vec<u8> {
    use clearway_wire::frame;
    let initiator = if random.chance(0.8) { Side::Client } else { Side::Server };
    let direction = if initiator == Side::Server || random.chance(0.5) {
        BIDIRECTIONAL
    } else {
        UNIDIRECTIONAL
    };
    let stream_id = id(initiator, direction, random.below(4));
    let content = data(random.below(300) as usize);
    let offset = code(random.below(1500) as u32);
    let maximum = code(random.below(30_000) as u32);
    let error_code = code(3);
    let can_send = direction == BIDIRECTIONAL;
    let frame = match random.below(12) {
        0 => {
            Frame::ResetStream(frame::ResetStream { stream_id, error_code, final_size: code(1800) })
        }
        1 if can_send => Frame::StopSending(frame::StopSending { stream_id, error_code }),
        2 if can_send => Frame::MaxStreamData(frame::MaxStreamData { stream_id, maximum }),
        3 => Frame::MaxData(frame::MaxData { maximum }),
        4 => Frame::StreamDataBlocked(frame::StreamDataBlocked { stream_id, limit: maximum }),
        5 => Frame::DataBlocked(frame::DataBlocked { limit: maximum }),
        6 => Frame::StreamsBlocked(frame::StreamsBlocked { direction, limit: offset }),
        7 => Frame::MaxStreams(frame::MaxStreams { direction, maximum: offset }),
        _ => Frame::Stream(frame::Stream { stream_id, offset, fin: false, data: &content }),
    };
    let mut bytes = vec![0; 2000];
    let mut writer = Writer::new(&mut bytes);
    frame.encode(&mut writer).unwrap();
    let written = writer.written();
    bytes.truncate(written);
    bytes
}

#[test]
fn a_stream_of_many_megabytes_keeps_its_windows_and_memory() {
    let wide = StreamsConfig {
        initial_stream_receive_window: 256 << 10,
        max_stream_receive_window: 1 << 20,
        initial_connection_receive_window: 512 << 10,
        max_connection_receive_window: 2 << 20,
        send_buffer: 1 << 20,
        ..config()
    };
    let mut pair = Pair::new(wide);
    let id = pair.opened(UNIDIRECTIONAL, b"x");
    let block = data(64 << 10);
    let (mut written, mut read) = (1, 0);
    while read < 16 << 20 {
        written += pair.client.write(id, block.clone()).unwrap();
        pair.settle();
        read += read_all(&mut pair.server, pair.now, id).len();
    }
    assert_eq!(read, written);
    assert_eq!(pair.client.statistics().bytes_retransmitted, 0);
}
