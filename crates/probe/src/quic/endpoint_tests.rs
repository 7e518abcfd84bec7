use clearway_units::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::quic::{Identity, Packet, Sealing, Side};

struct Pair {
    client: Endpoint,
    server: Endpoint,
    now: Timestamp,
}

impl Pair {
    fn new(change: impl FnOnce(&mut Config, &mut Config)) -> Self {
        let (mut client, mut server) = (Config::new([1; 32]), Config::new([2; 32]));
        server.identity = Some(Identity::self_signed(&["localhost"]).unwrap());
        change(&mut client, &mut server);
        let now = Timestamp::ORIGIN;
        Self {
            client: Endpoint::client(client, now).unwrap(),
            server: Endpoint::server(server, now).unwrap(),
            now,
        }
    }

    /// Exchanges datagrams until neither endpoint has more to send, dropping those for which
    /// `drops` returns true.
    fn run(&mut self, mut drops: impl FnMut() -> bool) {
        for _ in 0..200 {
            let mut is_silent = true;
            while let Some(datagram) = self.client.poll_transmit(self.now) {
                is_silent = false;
                if !drops() {
                    self.server.receive(self.now, 0, &datagram.bytes);
                }
            }
            while let Some(datagram) = self.server.poll_transmit(self.now) {
                is_silent = false;
                if !drops() {
                    self.client.receive(self.now, 0, &datagram.bytes);
                }
            }
            if is_silent {
                let deadlines = [self.client.deadline(), self.server.deadline()];
                let Some(deadline) = deadlines.into_iter().flatten().min() else { return };
                self.now = deadline.max(self.now);
                self.client.on_timeout(self.now);
                self.server.on_timeout(self.now);
            }
        }
        panic!("the endpoints never fell silent");
    }
}

#[test]
fn two_probes_connect_and_exchange_data() {
    let mut pair = Pair::new(|_, _| {});
    pair.client.write_stream(0, &[7; 10_000], true);
    pair.run(|| false);
    assert_eq!(
        (pair.client.progress(), pair.server.progress()),
        (Progress::Confirmed, Progress::Confirmed)
    );
    let stream = pair.server.stream(0).unwrap();
    assert!(stream.is_finished() && stream.data() == [7; 10_000]);
    assert_eq!(pair.client.alpn(), Some(b"h3".as_slice()));
    assert!(pair.client.is_acknowledged() && pair.server.is_acknowledged());
}

#[test]
fn losses_are_repaired() {
    for period in 2..7 {
        let mut pair = Pair::new(|_, _| {});
        pair.client.write_stream(0, &[7; 10_000], true);
        let mut count = 0;
        pair.run(|| {
            count += 1;
            count % period == 0
        });
        assert!(pair.server.stream(0).unwrap().is_finished(), "every {period}th lost");
    }
}

#[test]
fn a_retry_is_answered() {
    let mut pair = Pair::new(|_, server| server.holds_first = true);
    let first = pair.client.poll_transmit(pair.now).unwrap();
    pair.server.receive(pair.now, 0, &first.bytes);
    pair.server.send_retry(b"a token", false);
    pair.server.release();
    pair.run(|| false);
    assert_eq!(pair.client.progress(), Progress::Confirmed);
    let parameters = pair.client.peer_parameters().unwrap();
    assert!(parameters.get(Parameters::RETRY_SOURCE).is_some());
}

#[test]
fn keys_are_updated() {
    let mut pair = Pair::new(|_, _| {});
    pair.run(|| false);
    pair.client.update_keys();
    pair.client.queue_frames(Level::OneRtt, vec![Frame::Ping {}]);
    pair.run(|| false);
    assert!(pair.client.is_acknowledged());
    let last = pair.client.record().received().last().unwrap();
    assert_eq!(last.key_phase, Some(true));
}

#[test]
fn altered_packets_are_sent_as_requested() {
    let mut pair = Pair::new(|_, _| {});
    pair.run(|| false);
    let packets = [
        Packet { reserved_bits: 3, ..Packet::new(vec![Frame::Ping {}]) },
        Packet { number_length: Some(2), pad_to: Some(500), ..Packet::new(vec![]) },
        Packet { sealing: Sealing::BadTag, ..Packet::new(vec![Frame::Ping {}]) },
        Packet { clear_fixed_bit: true, spin: true, ..Packet::new(vec![Frame::Ping {}]) },
    ];
    let before = pair.server.record().packets.len();
    for packet in &packets {
        pair.client.send_packet(pair.now, packet).unwrap();
    }
    pair.run(|| false);
    let received: Vec<_> = pair.server.record().packets.iter().skip(before).collect();
    let received: Vec<_> =
        received.into_iter().filter(|packet| packet.side == Side::Received).collect();
    assert_eq!(received[0].note.as_deref(), Some("the reserved bits are not zero"));
    assert_eq!((received[1].size, received[1].frames.len()), (500, 1));
    assert_eq!(received[2].note.as_deref(), Some("no key decrypts the packet"));
    assert_eq!(received[3].frames, [Frame::Ping {}]);
}

#[test]
fn version_2_works() {
    let mut pair = Pair::new(|client, _| client.version = Version::V2);
    pair.run(|| false);
    assert_eq!(pair.server.version(), Version::V2);
    assert_eq!(pair.client.progress(), Progress::Confirmed);
}

#[test]
fn a_stateless_reset_is_recognized() {
    let mut pair = Pair::new(|_, _| {});
    pair.run(|| false);
    pair.server.send_stateless_reset(None);
    pair.run(|| false);
    assert_eq!(pair.client.close().unwrap().origin, CloseOrigin::StatelessReset);
}

#[test]
fn a_close_is_reported() {
    let mut pair = Pair::new(|_, _| {});
    pair.run(|| false);
    let close = Frame::ConnectionClose {
        layer: CloseLayer::Application,
        code: 0x105.into(),
        frame_type: 0.into(),
        reason: "why".into(),
    };
    pair.server.queue_frames(Level::OneRtt, vec![close]);
    pair.run(|| false);
    assert_eq!(pair.client.close().unwrap().to_string(), "H3_FRAME_UNEXPECTED: why");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_datagram(bytes in prop::collection::vec(any::<u8>(), 0..300), first in any::<u8>()) {
        let mut pair = Pair::new(|_, _| {});
        let mut datagram = vec![first, 0, 0, 0, 1, 8];
        datagram.extend_from_slice(&bytes);
        pair.server.receive(pair.now, 0, &bytes);
        pair.client.receive(pair.now, 0, &datagram);
        pair.client.receive(pair.now, 0, &bytes);
    }
}
