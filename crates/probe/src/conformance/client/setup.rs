//! Retry, Version Negotiation, stateless resets, and packets.

use super::super::allowed::{or_alive, transport};
use super::super::{Check, Need::Quic};
use super::accepted;
use crate::Data;
use crate::quic::{Frame, Level, Packet, ParameterEdit, Progress, Sealing};
use crate::script::{Condition, Script, Step};

pub(super) const CHECKS: &[Check] = &[
    Check::new("retry", "RFC 9000 §17.2.5", Quic, "a Retry packet", || {
        Script::during(Progress::Start)
            .step(retry("token", false))
            .step(Step::Accept {})
            .expect(connected())
    }),
    Check::new(
        "retry-bad-tag",
        "RFC 9001 §5.8",
        Quic,
        "a Retry packet with a wrong integrity tag, to be discarded",
        || {
            Script::during(Progress::Start)
                .step(retry("token", true))
                .step(Step::Accept {})
                .expect(connected())
        },
    ),
    Check::new(
        "retry-without-token",
        "RFC 9000 §17.2.5.2",
        Quic,
        "a Retry packet without a token, to be discarded",
        || {
            // The wrong tag keeps the probe from waiting for the token.
            Script::during(Progress::Start)
                .step(retry("", true))
                .step(Step::Accept {})
                .expect(connected())
        },
    ),
    Check::new(
        "retry-source-id-missing",
        "RFC 9000 §7.3",
        Quic,
        "no retry_source_connection_id after a Retry packet",
        || {
            let edit = ParameterEdit::Remove { parameter: "retry_source_connection_id".to_owned() };
            after_retry(edit)
        },
    ),
    Check::new(
        "retry-source-id-wrong",
        "RFC 9000 §7.3",
        Quic,
        "a retry_source_connection_id that is not the Retry packet's",
        || {
            let parameter = "retry_source_connection_id".to_owned();
            after_retry(ParameterEdit::Set { parameter, value: "12345678".into() })
        },
    ),
    Check::new(
        "version-negotiation-with-own-version",
        "RFC 9000 §6.2",
        Quic,
        "Version Negotiation that lists the client's version, to be discarded",
        || {
            Script::during(Progress::Start)
                .step(Step::VersionNegotiation { versions: vec![0x1a2a_3a4a, 1, 0x6b33_43cf] })
                .step(Step::Accept {})
                .expect(connected())
        },
    ),
    Check::new(
        "version-negotiation",
        "RFC 9000 §6.2",
        Quic,
        "Version Negotiation without a version that the client knows, after which it gives up",
        || {
            Script::during(Progress::Start)
                .step(Step::VersionNegotiation { versions: vec![0x1a2a_3a4a] })
                .step(Step::Flush {})
                .step(Step::Wait { until: None, milliseconds: 100 })
                .step(briefly(vec![Condition::Silence {}]))
        },
    ),
    Check::new(
        "version-negotiation-late",
        "RFC 9000 §6.2",
        Quic,
        "Version Negotiation after the handshake, to be discarded",
        || {
            Script::quic()
                .step(Step::VersionNegotiation { versions: vec![0x1a2a_3a4a] })
                .expect(accepted())
        },
    ),
    Check::new(
        "stateless-reset",
        "RFC 9000 §10.3.1",
        Quic,
        "a stateless reset, after which the client sends nothing",
        || {
            Script::quic()
                .expect(vec![Condition::Alive {}])
                .step(Step::StatelessReset { token: None })
                .step(Step::Flush {})
                .step(Step::Wait { until: None, milliseconds: 50 })
                .packet(Packet { once: true, ..Packet::new(vec![Frame::Ping {}]) })
                .step(briefly(vec![Condition::Silence {}]))
        },
    ),
    Check::new(
        "stateless-reset-wrong-token",
        "RFC 9000 §10.3.1",
        Quic,
        "a stateless reset with an unknown token, to be discarded",
        || {
            Script::quic()
                .step(Step::StatelessReset { token: Some(Data::new([7; 16])) })
                .expect(accepted())
        },
    ),
    Check::new(
        "bad-tag",
        "RFC 9001 §5.5",
        Quic,
        "a packet with a wrong authentication tag, to be discarded",
        || {
            let packet = Packet {
                sealing: Sealing::BadTag,
                ..Packet::new(vec![Frame::NewToken { token: Data::default() }])
            };
            Script::quic().packet(packet).expect(accepted())
        },
    ),
    Check::new(
        "wrong-key-phase",
        "RFC 9001 §6.3",
        Quic,
        "a packet with the other key phase and the current keys, to be discarded",
        || {
            let packet =
                Packet { key_phase: Some(true), once: true, ..Packet::new(vec![Frame::Ping {}]) };
            Script::quic().packet(packet).expect(accepted())
        },
    ),
    Check::new(
        "garbage",
        "RFC 9000 §5.2",
        Quic,
        "datagrams of arbitrary bytes, to be discarded",
        || {
            [b"\x40garbage".as_slice(), b"\xc0\0\0\0\x01", &[0xff; 1200]]
                .iter()
                .fold(Script::quic(), |script, bytes| {
                    script.step(Step::RawDatagram { bytes: Data::from(*bytes) })
                })
                .expect(accepted())
        },
    ),
    Check::new("key-update", "RFC 9001 §6", Quic, "a key update", || {
        Script::quic()
            .expect(vec![Condition::Alive {}])
            .step(Step::UpdateKeys {})
            .expect(accepted())
    }),
    Check::new(
        "reserved-bits-handshake",
        "RFC 9000 §17.2",
        Quic,
        "a Handshake packet with reserved bits set",
        || {
            let packet =
                Packet { reserved_bits: 3, ..Packet::at(Level::Handshake, vec![Frame::Ping {}]) };
            handshake().packet(packet).expect(transport(&[]))
        },
    ),
    Check::new(
        "reserved-bits-one-rtt",
        "RFC 9000 §17.3.1",
        Quic,
        "a 1-RTT packet with reserved bits set",
        || {
            Script::quic()
                .packet(Packet { reserved_bits: 3, ..Packet::new(vec![Frame::Ping {}]) })
                .expect(transport(&[]))
        },
    ),
    Check::new(
        "empty-packet-handshake",
        "RFC 9000 §12.4",
        Quic,
        "a Handshake packet without frames",
        || {
            handshake()
                .packet(Packet { once: true, ..Packet::at(Level::Handshake, vec![]) })
                .expect(transport(&[]))
        },
    ),
    Check::new(
        "empty-packet-one-rtt",
        "RFC 9000 §12.4",
        Quic,
        "a 1-RTT packet without frames",
        || {
            Script::quic()
                .packet(Packet { once: true, ..Packet::new(vec![]) })
                .expect(transport(&[]))
        },
    ),
    Check::new(
        "no-handshake-done",
        "RFC 9001 §4.1.2",
        Quic,
        "no HANDSHAKE_DONE frame, but acknowledgments",
        || Script::quic().connect(|it| it.handshake_done = false).expect(accepted()),
    ),
    Check::new(
        "small-initial",
        "RFC 9000 §14.1",
        Quic,
        "an Initial packet with ack-eliciting frames in a small datagram, which may be discarded",
        || {
            let ping = Packet {
                pad_to: Some(0),
                once: true,
                ..Packet::at(Level::Initial, vec![Frame::Ping {}])
            };
            let mut allowed = connected();
            allowed.extend(or_alive(transport(&[])));
            Script::during(Progress::HandshakeKeys).packet(ping).expect(allowed)
        },
    ),
];

/// Returns a script whose steps begin after the server's first flight.
pub(super) fn handshake() -> Script {
    Script::during(Progress::HandshakeKeys).step(Step::Flush {})
}

fn retry(token: &str, corrupt_tag: bool) -> Step {
    Step::Retry { token: token.into(), corrupt_tag }
}

fn connected() -> Vec<Condition> {
    vec![Condition::Handshake { progress: Progress::Complete }]
}

fn after_retry(edit: ParameterEdit) -> Script {
    Script::during(Progress::Start)
        .connect(|it| it.parameters.push(edit))
        .step(retry("token", false))
        .step(Step::Accept {})
        .expect(transport(&["TRANSPORT_PARAMETER_ERROR"]))
}

fn briefly(any: Vec<Condition>) -> Step {
    Step::Expect { any, none: Vec::new(), milliseconds: Some(400) }
}
