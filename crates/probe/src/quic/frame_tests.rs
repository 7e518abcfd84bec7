use proptest::prelude::*;

use super::*;

fn encode(frame: &Frame) -> Vec<u8> {
    let mut output = Vec::new();
    frame.encode(&mut output, &|_| 0);
    output
}

fn decode(bytes: &[u8]) -> Frame {
    let mut reader = clearway_wire::Reader::new(bytes);
    let frame = Frame::received(&clearway_wire::Frame::decode(&mut reader).unwrap());
    assert!(reader.is_empty());
    frame
}

#[test]
fn every_frame_can_be_read_back() {
    let number = Quantity::new;
    let frames = [
        Frame::Padding { length: 3 },
        Frame::Ping {},
        Frame::Ack {
            largest: number(100),
            delay: number(5),
            first_range: number(10),
            ranges: vec![AckRange { gap: number(2), length: number(3) }],
            ecn: Some([number(1), number(2), number(3)]),
        },
        Frame::ResetStream { stream: number(4), code: number(5), final_size: number(6) },
        Frame::StopSending { stream: number(4), code: number(5) },
        Frame::Crypto { offset: number(1000), data: "tls".into() },
        Frame::NewToken { token: "token".into() },
        Frame::stream(8, 0, "", true),
        Frame::stream(8, 70, "abc", false),
        Frame::MaxData { maximum: Quantity::MAX },
        Frame::MaxStreamData { stream: number(4), maximum: number(1) },
        Frame::MaxStreams { way: Way::Uni, maximum: number(7) },
        Frame::MaxStreams { way: Way::Bidi, maximum: number(7) },
        Frame::DataBlocked { limit: number(7) },
        Frame::StreamDataBlocked { stream: number(4), limit: number(7) },
        Frame::StreamsBlocked { way: Way::Uni, limit: number(7) },
        Frame::NewConnectionId {
            sequence: number(2),
            retire_prior_to: number(1),
            id: b"12345678".into(),
            token: b"0123456789abcdef".into(),
        },
        Frame::RetireConnectionId { sequence: number(1) },
        Frame::PathChallenge { data: b"challenge".as_slice()[..8].into() },
        Frame::PathResponse { data: b"response".into() },
        Frame::ConnectionClose {
            layer: CloseLayer::Transport,
            code: number(10),
            frame_type: number(6),
            reason: "why".into(),
        },
        Frame::HandshakeDone {},
        Frame::Datagram { data: "datagram".into() },
        Frame::ImmediateAck {},
        Frame::ResetStreamAt {
            stream: number(4),
            code: number(5),
            final_size: number(6),
            reliable_size: number(3),
        },
    ];
    for frame in frames {
        assert_eq!(decode(&encode(&frame)), frame);
        let text = serde_json::to_string(&frame).unwrap();
        assert_eq!(serde_json::from_str::<Frame>(&text).unwrap(), frame, "{text}");
    }
}

#[test]
fn values_that_the_rfc_forbids_are_sent() {
    // More than 2^60 streams, and an empty connection ID with a short token.
    let frame = Frame::MaxStreams { way: Way::Bidi, maximum: Quantity::new((1 << 60) + 1) };
    assert!(
        clearway_wire::Frame::decode(&mut clearway_wire::Reader::new(&encode(&frame))).is_err()
    );
    let frame = Frame::NewConnectionId {
        sequence: Quantity::new(1),
        retire_prior_to: Quantity::new(2),
        id: Data::default(),
        token: Data::default(),
    };
    assert_eq!(encode(&frame), [0x18, 1, 2, 0]);
}

proptest! {
    #[test]
    fn any_received_frame_can_be_recorded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = clearway_wire::Reader::new(&bytes);
        while let Ok(frame) = clearway_wire::Frame::decode(&mut reader) {
            let recorded = Frame::received(&frame);
            let mut output = Vec::new();
            recorded.encode(&mut output, &|_| 0);
        }
    }
}
