use crate::frame::*;
use crate::{ConnectionId, PacketNumber, ResetToken, StreamId};

/// Returns frames, the packet types ("IH01") that table 3 and §12.5 allow for them, and their
/// marks: N for not ack-eliciting and P for probing, as in that table, and F for in flight, which
/// differs from the table.
fn table() -> Vec<(Frame<'static>, &'static str, &'static str)> {
    let zero = VarInt::ZERO;
    let stream_id = StreamId::from_varint(zero);
    let direction = Direction::Bidirectional;
    let new_id = NewConnectionId {
        sequence: zero,
        retire_prior_to: zero,
        id: ConnectionId::new(&[1]).unwrap(),
        reset_token: ResetToken::new([0; 16]),
    };
    let ack = Ack {
        largest: PacketNumber::ZERO,
        delay: zero,
        first_range: zero,
        range_count: zero,
        ranges: &[],
        ecn: None,
    };
    let close =
        |kind| Frame::ConnectionClose(ConnectionClose { error_code: zero, kind, reason: &[] });
    let stream = Stream { stream_id, offset: zero, fin: false, data: &[] };
    let reset = ResetStream { stream_id, error_code: zero, final_size: zero };
    let reset_at =
        ResetStreamAt { stream_id, error_code: zero, final_size: zero, reliable_size: zero };
    let frequency = AckFrequency {
        sequence: zero,
        ack_eliciting_threshold: zero,
        max_ack_delay: zero,
        reordering_threshold: zero,
    };
    let blocked = StreamDataBlocked { stream_id, limit: zero };
    vec![
        (Frame::Padding(Padding { length: 1 }), "IH01", "NPF"),
        (Frame::Ping, "IH01", "F"),
        (Frame::Ack(ack), "IH1", "N"),
        (Frame::ResetStream(reset), "01", "F"),
        (Frame::StopSending(StopSending { stream_id, error_code: zero }), "01", "F"),
        (Frame::Crypto(Crypto { offset: zero, data: &[] }), "IH1", "F"),
        (Frame::NewToken(NewToken { token: &[1] }), "1", "F"),
        (Frame::Stream(stream), "01", "F"),
        (Frame::MaxData(MaxData { maximum: zero }), "01", "F"),
        (Frame::MaxStreamData(MaxStreamData { stream_id, maximum: zero }), "01", "F"),
        (Frame::MaxStreams(MaxStreams { direction, maximum: zero }), "01", "F"),
        (Frame::DataBlocked(DataBlocked { limit: zero }), "01", "F"),
        (Frame::StreamDataBlocked(blocked), "01", "F"),
        (Frame::StreamsBlocked(StreamsBlocked { direction, limit: zero }), "01", "F"),
        (Frame::NewConnectionId(new_id), "01", "PF"),
        (Frame::RetireConnectionId(RetireConnectionId { sequence: zero }), "1", "F"),
        (Frame::PathChallenge(PathChallenge { data: [0; 8] }), "01", "PF"),
        (Frame::PathResponse(PathResponse { data: [0; 8] }), "1", "PF"),
        (close(CloseKind::Transport { frame_type: zero }), "IH01", "N"),
        (close(CloseKind::Application), "01", "N"),
        (Frame::HandshakeDone, "1", "F"),
        (Frame::Datagram(Datagram { data: &[] }), "01", "F"),
        (Frame::AckFrequency(frequency), "1", "F"),
        (Frame::ImmediateAck, "1", "F"),
        (Frame::ResetStreamAt(reset_at), "01", "F"),
    ]
}

#[test]
fn every_frame_in_every_packet() {
    use crate::PacketType::{Handshake, Initial, OneRtt, ZeroRtt};
    for (frame, packets, _) in table() {
        for (packet_type, letter) in
            [(Initial, 'I'), (Handshake, 'H'), (ZeroRtt, '0'), (OneRtt, '1')]
        {
            let allowed = packets.contains(letter);
            assert_eq!(frame.is_allowed_in(packet_type), allowed, "{frame:?} in {packet_type:?}");
        }
    }
}

#[test]
fn every_frame_has_its_marks() {
    for (frame, _, marks) in table() {
        assert_eq!(frame.is_ack_eliciting(), !marks.contains('N'), "{frame:?}");
        assert_eq!(frame.is_probing(), marks.contains('P'), "{frame:?}");
        assert_eq!(frame.counts_in_flight(), marks.contains('F'), "{frame:?}");
    }
}
