//! Packets: headers, protection, versions and sizes.

use super::super::allowed::{alive, or_alive, transport};
use super::super::{Check, Need::Quic};
use crate::quic::{Frame, Level, Packet, Progress, Sealing};
use crate::script::{Condition, Script, Step};
use crate::{Base, Data, Quantity};

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        "reserved-bits-initial",
        "RFC 9000 §17.2",
        Quic,
        "an Initial packet with reserved bits set",
        || reserved_bits(Level::Initial),
    ),
    Check::new(
        "reserved-bits-handshake",
        "RFC 9000 §17.2",
        Quic,
        "a Handshake packet with reserved bits set",
        || reserved_bits(Level::Handshake),
    )
    .h3spec(),
    Check::new(
        "reserved-bits-one-rtt",
        "RFC 9000 §17.3.1",
        Quic,
        "a 1-RTT packet with reserved bits set",
        || reserved_bits(Level::OneRtt),
    )
    .h3spec(),
    Check::new(
        "empty-packet-initial",
        "RFC 9000 §12.4",
        Quic,
        "an Initial packet without frames",
        || empty_packet(Level::Initial),
    ),
    Check::new(
        "empty-packet-handshake",
        "RFC 9000 §12.4",
        Quic,
        "a Handshake packet without frames",
        || empty_packet(Level::Handshake),
    ),
    Check::new(
        "empty-packet-one-rtt",
        "RFC 9000 §12.4",
        Quic,
        "a 1-RTT packet without frames",
        || empty_packet(Level::OneRtt),
    )
    .h3spec(),
    Check::new(
        "unknown-frame-initial",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in an Initial packet",
        || unknown_frame(Level::Initial),
    ),
    Check::new(
        "unknown-frame-handshake",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in a Handshake packet",
        || unknown_frame(Level::Handshake),
    ),
    Check::new(
        "unknown-frame-one-rtt",
        "RFC 9000 §12.4",
        Quic,
        "a frame of an unknown type in a 1-RTT packet",
        || unknown_frame(Level::OneRtt),
    )
    .h3spec(),
    Check::new(
        "frame-type-encoding",
        "RFC 9000 §12.4",
        Quic,
        "a PING frame whose type is not in its shortest encoding",
        || {
            Script::quic()
                .frames(vec![Frame::raw(b"\x40\x01")])
                .expect(or_alive(transport(&["FRAME_ENCODING_ERROR"])))
        },
    ),
    Check::new(
        "truncated-frame",
        "RFC 9000 §12.4",
        Quic,
        "a MAX_DATA frame that ends in the middle of its number",
        || {
            Script::quic()
                .frames(vec![Frame::raw(b"\x10\x9d")])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "truncated-stream-frame",
        "RFC 9000 §19.8",
        Quic,
        "a STREAM frame whose Length exceeds the packet",
        || {
            Script::quic()
                .frames(vec![Frame::raw(b"\x0a\x00\x40\xffabc")])
                .expect(transport(&["FRAME_ENCODING_ERROR"]))
        },
    ),
    Check::new(
        "bad-tag",
        "RFC 9001 §5.5",
        Quic,
        "a packet with a wrong authentication tag, to be discarded",
        || discarded(Packet { sealing: Sealing::BadTag, ..violation() }),
    ),
    Check::new(
        "wrong-keys",
        "RFC 9001 §5.5",
        Quic,
        "a 1-RTT packet protected with Initial keys, to be discarded",
        || discarded(Packet { sealing: Sealing::Initial, ..violation() }),
    ),
    Check::new(
        "fixed-bit",
        "RFC 9000 §17.3.1",
        Quic,
        "a packet whose fixed bit is 0, to be discarded unless grease_quic_bit was sent",
        || {
            discarded(Packet {
                clear_fixed_bit: true,
                once: true,
                ..Packet::new(vec![Frame::Ping {}])
            })
        },
    ),
    Check::new(
        "wrong-key-phase",
        "RFC 9001 §6.3",
        Quic,
        "a packet with the other key phase and the current keys, to be discarded",
        || discarded(Packet { key_phase: Some(true), once: true, ..violation() }),
    ),
    Check::new(
        "packet-number-reuse",
        "RFC 9000 §12.3",
        Quic,
        "two packets with the same number, the second with a violation, to be discarded",
        || {
            let same = Quantity::beyond(Base::NextPacketNumber, 0);
            let same = "next_packet_number-1".parse().unwrap_or(same);
            Script::quic()
                .frames(vec![Frame::Ping {}])
                .wait(Condition::Acknowledged {})
                .packet(Packet { number: Some(same), once: true, ..violation() })
                .expect(alive())
        },
    ),
    Check::new(
        "packet-number-gap",
        "RFC 9000 §12.3",
        Quic,
        "a packet number that is 1,000 larger than the last one",
        || {
            let number = Quantity::beyond(Base::NextPacketNumber, 1000);
            Script::quic()
                .packet(Packet { number: Some(number), ..Packet::new(vec![Frame::Ping {}]) })
                .expect(alive())
        },
    ),
    Check::new(
        "packet-number-lengths",
        "RFC 9000 §17.1",
        Quic,
        "packet numbers in 1, 2, 3 and 4 bytes",
        || {
            (1..=4)
                .fold(Script::quic(), |script, length| {
                    script.packet(Packet {
                        number_length: Some(length),
                        ..Packet::new(vec![Frame::Ping {}])
                    })
                })
                .expect(alive())
        },
    ),
    Check::new("spin-bit", "RFC 9000 §17.4", Quic, "packets with the spin bit set", || {
        Script::quic()
            .packet(Packet { spin: true, ..Packet::new(vec![Frame::Ping {}]) })
            .expect(alive())
    }),
    Check::new("key-update", "RFC 9001 §6", Quic, "a key update", || {
        Script::quic().step(Step::UpdateKeys {}).expect(alive())
    }),
    Check::new(
        "two-key-updates",
        "RFC 9001 §6",
        Quic,
        "two key updates, the second after the first was acknowledged",
        || {
            Script::quic()
                .step(Step::UpdateKeys {})
                .expect(alive())
                .step(Step::UpdateKeys {})
                .expect(alive())
        },
    ),
    Check::new(
        "old-keys",
        "RFC 9001 §6.4",
        Quic,
        "after a key update, a packet with a higher number and the previous keys",
        || {
            let old = Packet {
                sealing: Sealing::PreviousPhase,
                once: true,
                ..Packet::new(vec![Frame::Ping {}])
            };
            Script::quic()
                .step(Step::UpdateKeys {})
                .expect(alive())
                .packet(old)
                // An endpoint that has discarded the previous keys cannot detect it.
                .expect(or_alive(transport(&["KEY_UPDATE_ERROR"])))
        },
    ),
    Check::new(
        "garbage",
        "RFC 9000 §5.2",
        Quic,
        "datagrams of arbitrary bytes during a connection, to be discarded",
        || {
            let garbage = [b"\x40garbage".as_slice(), b"\xc0\0\0\0\x01", b"", &[0xff; 1200]];
            garbage
                .iter()
                .fold(Script::quic(), |script, bytes| {
                    script.step(Step::RawDatagram { bytes: Data::from(*bytes) })
                })
                .expect(alive())
        },
    ),
    Check::new(
        "length-beyond-datagram",
        "RFC 9000 §12.2",
        Quic,
        "a Handshake packet whose Length exceeds the datagram, to be discarded",
        || {
            let packet = Packet {
                length: Some(16_000),
                once: true,
                ..Packet::at(Level::Handshake, vec![Frame::HandshakeDone {}])
            };
            Script::during(Progress::HandshakeKeys)
                .packet(packet)
                .expect(vec![Condition::Handshake { progress: Progress::Complete }])
        },
    ),
    Check::new(
        "unknown-version",
        "RFC 9000 §6.1",
        Quic,
        "an Initial packet of an unknown version",
        || unknown_version(1200, Condition::Packet { kind: "version-negotiation".to_owned() }),
    ),
    Check::new(
        "unknown-version-small",
        "RFC 9000 §5.2.2",
        Quic,
        "a packet of an unknown version in a datagram of 600 bytes, to be dropped",
        || unknown_version(600, Condition::Silence {}),
    ),
    Check::new(
        "small-initial",
        "RFC 9000 §14.1",
        Quic,
        "an Initial packet in a datagram of 1,199 bytes",
        || {
            let mut allowed = vec![Condition::Silence {}];
            allowed.extend(transport(&["PROTOCOL_VIOLATION"]));
            Script::during(Progress::Start)
                .connect(|it| it.initial_size = 1199)
                .step(briefly(allowed))
        },
    ),
    Check::new(
        "long-destination-id",
        "RFC 9000 §17.2",
        Quic,
        "an Initial packet with a connection ID of 21 bytes, to be dropped",
        || {
            Script::during(Progress::Start)
                .connect(|it| it.destination = Some(Data::new([7; 21])))
                .step(briefly(vec![
                    Condition::Silence {},
                    Condition::Packet { kind: "version-negotiation".to_owned() },
                ]))
        },
    ),
    Check::new(
        "coalesced-packets",
        "RFC 9000 §12.2",
        Quic,
        "an Initial, a Handshake and a 1-RTT packet in one datagram",
        || {
            let ping = |level| Packet { once: true, ..Packet::at(level, vec![Frame::Ping {}]) };
            Script::during(Progress::HandshakeKeys)
                .step(Step::Packets { packets: vec![ping(Level::Initial), ping(Level::Handshake)] })
                .expect(vec![Condition::Handshake { progress: Progress::Complete }])
        },
    ),
    Check::new(
        "padding-only",
        "RFC 9000 §19.1",
        Quic,
        "a packet with 1,000 PADDING frames",
        || Script::quic().frames(vec![Frame::Padding { length: 1000 }]).expect(alive()),
    ),
    Check::new(
        "data-after-close",
        "RFC 9000 §10.2.2",
        Quic,
        "CONNECTION_CLOSE, and then PING, which a draining server does not answer",
        || {
            Script::quic()
                .step(Step::Close {
                    layer: crate::quic::CloseLayer::Transport,
                    code: 0.into(),
                    reason: Data::default(),
                })
                .step(Step::Flush {})
                // The draining state lasts three times the PTO, which is more than 75 ms.
                .step(Step::Wait { until: None, milliseconds: 10 })
                .packet(Packet { once: true, ..Packet::new(vec![Frame::Ping {}]) })
                .step(briefly(vec![Condition::Silence {}]))
        },
    ),
];

/// Returns a packet that closes the connection if it is processed.
fn violation() -> Packet {
    Packet { once: true, ..Packet::new(vec![Frame::HandshakeDone {}]) }
}

fn discarded(packet: Packet) -> Script {
    Script::quic().packet(packet).expect(alive())
}

/// Returns a step with a short time limit, for conditions that are checked only when the time is
/// over.
fn briefly(any: Vec<Condition>) -> Step {
    Step::Expect { any, none: Vec::new(), milliseconds: Some(400) }
}

/// Returns a script whose steps begin when packets of `level` can be sent.
pub(super) fn at(level: Level) -> Script {
    match level {
        Level::OneRtt => Script::quic(),
        _ => Script::during(Progress::HandshakeKeys),
    }
}

fn reserved_bits(level: Level) -> Script {
    let packet = Packet { reserved_bits: 3, ..Packet::at(level, vec![Frame::Ping {}]) };
    at(level).packet(packet).expect(transport(&[]))
}

fn empty_packet(level: Level) -> Script {
    // The padding of an Initial datagram would be a frame, so it is a packet without frames and a small datagram,
    // which a server may discard; a Handshake packet in the same datagram makes it large enough.
    let empty = Packet { pad_to: Some(0), once: true, ..Packet::at(level, Vec::new()) };
    let filler =
        Packet { pad_to: Some(1200), ..Packet::at(Level::Handshake, vec![Frame::Ping {}]) };
    let packets = if level == Level::Initial { vec![empty, filler] } else { vec![empty] };
    at(level).step(Step::Packets { packets }).expect(transport(&[]))
}

fn unknown_frame(level: Level) -> Script {
    at(level)
        .frames_at(level, vec![Frame::raw(b"\x41\x23")])
        .expect(transport(&["FRAME_ENCODING_ERROR"]))
}

fn unknown_version(size: usize, condition: Condition) -> Script {
    let change = |it: &mut crate::script::Connect| {
        it.version = 0x1a2a_3a4a.into();
        it.initial_size = size;
    };
    Script::during(Progress::Start).connect(change).step(briefly(vec![condition]))
}
