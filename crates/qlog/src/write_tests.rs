use core::time::Duration;

use clearway_congestion::{Phase, RttSnapshot, Snapshot, Suppressor, Suppressors};
use clearway_transport::*;
use clearway_units::{Rate, ReleaseTime, Timestamp};
use clearway_wire::frame::{Crypto, MaxData, Padding, Stream};
use clearway_wire::{
    Frame, PacketNumber, PacketType, PreferredAddress, ResetToken, StreamId, TransportErrorCode,
    TransportParameters, VarInt, Version,
};
use serde_json::{Value, json};

use super::testing::{Memory, at, connection_id, payload, records, started};
use super::*;

const SEND_LIMITS: [SendLimit; 8] = [
    SendLimit::Application,
    SendLimit::Window,
    SendLimit::Pacer(ReleaseTime::at(Timestamp::ORIGIN)),
    SendLimit::Amplification,
    SendLimit::FlowControl,
    SendLimit::Keys,
    SendLimit::Path,
    SendLimit::Batch,
];

const THRESHOLDS: LossThresholds =
    LossThresholds { packets: 3, time: Duration::from_micros(13_500) };

fn number(value: u64) -> VarInt {
    VarInt::new(value).unwrap()
}

fn packet(payload: &[u8]) -> PacketObservation<'_> {
    PacketObservation {
        packet_type: PacketType::OneRtt,
        number: PacketNumber::new(12).unwrap(),
        key_phase: true,
        size: payload.len() + 30,
        payload,
        is_probe: false,
        is_path_probe: false,
        is_mtu_probe: false,
        ecn: EcnCodepoint::NotEct,
    }
}

fn metrics() -> Metrics {
    let milliseconds = Duration::from_millis;
    Metrics {
        rtt: Some(RttSnapshot {
            latest: milliseconds(12),
            smoothed: Duration::from_micros(11_500),
            minimum: milliseconds(10),
            variation: milliseconds(3),
            is_new: true,
        }),
        pto_count: 0,
        probe_timeouts: 0,
        bytes_in_flight: 6000,
        congestion: Snapshot {
            window: 12_000,
            slow_start_threshold: None,
            minimum_window: 2400,
            phase: Phase::SlowStart,
            suppressors: Suppressors::default(),
            congestion_events: 0,
            undone_events: 0,
        },
        pacing_rate: Some(Rate::from_bytes_per_second(1_000_000)),
        delivery_rate: None,
        loss_thresholds: THRESHOLDS,
    }
}

fn client_parameters() -> TransportParameters {
    TransportParameters {
        max_idle_timeout: number(30_000),
        initial_max_data: number(1 << 20),
        ack_delay_exponent: number(0),
        initial_source_connection_id: Some(connection_id(&[0x11; 8])),
        ..TransportParameters::default()
    }
}

/// Writes a log of these observations, with one per millisecond.
fn log(observations: &[Observation<'_>]) -> Memory {
    let memory = Memory::default();
    let mut observer = QlogObserver::new(memory.clone(), TraceOptions::default());
    observer.observe(at(0), &started(Side::Client));
    for (index, observation) in observations.iter().enumerate() {
        observer.observe(at(index as u64 + 1), observation);
    }
    memory
}

fn handshake(parameters: &TransportParameters, run: &mut dyn FnMut(Observation<'_>)) {
    run(Observation::StateUpdated(ConnectionState::HandshakeStarted));
    let hello = payload(&[
        Frame::Crypto(Crypto { offset: VarInt::ZERO, data: b"client hello" }),
        Frame::Padding(Padding { length: 1100 }),
    ]);
    run(Observation::PacketSent(PacketObservation {
        packet_type: PacketType::Initial,
        key_phase: false,
        is_probe: true,
        ..packet(&hello)
    }));
    run(Observation::PacketBuffered { size: 200 });
    run(Observation::PacketDropped { size: 300, reason: DropReason::DecryptionFailure });
    run(Observation::ParametersSet { owner: Side::Client, parameters: &client_parameters() });
    run(Observation::ParametersSet { owner: Side::Server, parameters });
    run(Observation::ApplicationProtocol(b"h3"));
    run(Observation::StateUpdated(ConnectionState::HandshakeComplete));
    run(Observation::KeyDiscarded(SpaceId::Initial));
}

fn transfer(run: &mut dyn FnMut(Observation<'_>)) {
    let data = payload(&[Frame::Stream(Stream {
        stream_id: StreamId::from_varint(VarInt::ZERO),
        offset: number(1 << 54),
        fin: true,
        data: b"request",
    })]);
    run(Observation::PacketSent(packet(&data)));
    run(Observation::Metrics(&metrics()));
    let credit = payload(&[Frame::MaxData(MaxData { maximum: number(1 << 21) })]);
    run(Observation::PacketReceived(packet(&credit)));
    run(Observation::SendLimitUpdated {
        old: Some(SendLimit::Application),
        new: SendLimit::Window,
    });
    run(Observation::TimerUpdated {
        timer: TimerKind::ProbeTimeout,
        change: TimerChange::Set(at(50)),
    });
    run(Observation::PacketLost(LostPacket {
        space: SpaceId::Application,
        number: PacketNumber::new(12).unwrap(),
        bytes: 1200,
        trigger: LossTrigger::ReorderingThreshold,
        thresholds: THRESHOLDS,
    }));
    run(Observation::CongestionStateUpdated { old: Phase::SlowStart, new: Phase::Recovery });
    let mut recovering = metrics();
    recovering.congestion.window = 8400;
    recovering.congestion.slow_start_threshold = Some(8400);
    recovering.congestion.congestion_events = 1;
    recovering.congestion.suppressors.set(Suppressor::Recovery, true, 3);
    run(Observation::Metrics(&recovering));
    run(Observation::KeyUpdated { is_local: true });
}

fn ending(run: &mut dyn FnMut(Observation<'_>)) {
    let remote = "[2001:db8::1]:4433".parse().unwrap();
    run(Observation::PathUpdated {
        socket: SocketIndex(0),
        remote,
        is_validated: false,
        is_new_path: true,
    });
    run(Observation::PathUpdated {
        socket: SocketIndex(0),
        remote,
        is_validated: true,
        is_new_path: false,
    });
    run(Observation::StateUpdated(ConnectionState::Draining));
    run(Observation::Closed(&ConnectionError::ApplicationClosed {
        error_code: number(256),
        reason: b"say \"bye\"".to_vec().into(),
    }));
}

/// Compares the log of a short connection with a file. After an intended change to the format,
/// replace the file with the log that the failure shows.
#[test]
fn a_whole_log() {
    let memory = Memory::default();
    let options =
        TraceOptions { title: Some("a \"short\" life".to_owned()), ..TraceOptions::default() };
    let mut observer = QlogObserver::new(memory.clone(), options);
    let mut now = Timestamp::from_nanos(1_500_000);
    observer.observe(now, &started(Side::Client));
    let (client, server, chosen) = (&[Version::V1][..], &[][..], Some(Version::V1));
    observer.observe(now, &Observation::VersionInformation { client, server, chosen });
    let server_parameters = TransportParameters {
        original_destination_connection_id: Some(connection_id(&[0xab; 8])),
        stateless_reset_token: Some(ResetToken::new([0x5e; 16])),
        disable_active_migration: true,
        preferred_address: Some(Box::new(PreferredAddress {
            ipv4: Some("192.0.2.7:4433".parse().unwrap()),
            ipv6: None,
            connection_id: connection_id(&[0x33]),
            stateless_reset_token: ResetToken::new([0x44; 16]),
        })),
        ..TransportParameters::default()
    };
    let mut run = |observation: Observation<'_>| {
        now += Duration::from_micros(1_250);
        observer.observe(now, &observation);
    };
    handshake(&server_parameters, &mut run);
    transfer(&mut run);
    ending(&mut run);
    drop(observer);
    let expected = include_str!("write/golden.sqlog").replace("{CLEARWAY_SCHEMA}", CLEARWAY_SCHEMA);
    let actual = String::from_utf8(memory.bytes()).unwrap();
    assert_eq!(records(actual.as_bytes()).len(), actual.lines().count());
    for (index, (actual, expected)) in actual.lines().zip(expected.lines()).enumerate() {
        assert_eq!(actual, expected, "record {index}");
    }
    assert_eq!(actual, expected);
}

#[test]
fn the_header_is_recognised_in_256_bytes() {
    let memory = log(&[]);
    let head = String::from_utf8(memory.bytes()[..256].to_vec()).unwrap();
    assert!(head.contains(r#""file_schema":"urn:ietf:params:qlog:file:sequential""#));
    assert!(head.contains(r#""serialization_format":"application/qlog+json-seq""#));
}

#[test]
fn a_log_that_was_cut_off_is_readable_up_to_the_last_whole_record() {
    let bytes = log(&[Observation::PacketBuffered { size: 1 }]).bytes();
    let whole = records(&bytes);
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        let end = cut.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
        let read = if end == 0 { Vec::new() } else { records(&cut[..end]) };
        let breaks = cut.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(read, whole[..breaks]);
    }
}

#[test]
fn only_changed_metrics_are_written() {
    let first = metrics();
    let mut second = metrics();
    second.bytes_in_flight = 7200;
    second.rtt.as_mut().unwrap().is_new = false;
    let observations = [&first, &first, &second, &second, &first].map(Observation::Metrics);
    let memory = log(&observations);
    let events = memory.events("quic:recovery_metrics_updated");
    assert_eq!(events.len(), 3);
    assert_eq!(
        events[0],
        json!({"min_rtt": 10, "smoothed_rtt": 11.5, "latest_rtt": 12, "rtt_variance": 3,
               "pto_count": 0, "congestion_window": 12_000, "bytes_in_flight": 6000,
               "pacing_rate": 8_000_000})
    );
    assert_eq!(events[1], json!({"bytes_in_flight": 7200}));
    assert_eq!(events[2], json!({"bytes_in_flight": 6000}));
    assert_eq!(memory.events("clearway:suppressors_updated").len(), 0);
    assert_eq!(memory.events("clearway:congestion_events_updated").len(), 0);
}

#[test]
fn a_threshold_that_is_removed_is_written_as_infinite() {
    let mut reduced = metrics();
    reduced.congestion.slow_start_threshold = Some(5000);
    let usual = metrics();
    let memory = log(&[&usual, &reduced, &usual, &usual].map(Observation::Metrics));
    let events = memory.events("quic:recovery_metrics_updated");
    assert_eq!(
        events[1..],
        [json!({"ssthresh": 5000}), json!({"ssthresh": "18446744073709551615"})]
    );
}

#[test]
fn suppressors_are_written_when_they_change() {
    let mut held = metrics();
    held.congestion.suppressors.set(Suppressor::Recovery, true, 7);
    held.congestion.suppressors.set(Suppressor::MaximumWindow, true, 9);
    let usual = metrics();
    let memory = log(&[&usual, &held, &held, &usual].map(Observation::Metrics));
    assert_eq!(
        memory.events("clearway:suppressors_updated"),
        [
            json!({"suppressors": [
                {"suppressor": "recovery", "since_round": 7},
                {"suppressor": "maximum_window", "since_round": 9},
            ]}),
            json!({"suppressors": []}),
        ]
    );
}

#[test]
fn the_minimum_window_is_written() {
    let usual = metrics();
    let parameters =
        log(&[&usual, &usual].map(Observation::Metrics)).events("quic:recovery_parameters_set");
    assert_eq!(parameters.len(), 2);
    assert_eq!(parameters[0].get("minimum_congestion_window"), None);
    assert_eq!(parameters[1]["minimum_congestion_window"], 2400);
}

#[test]
fn recovery_parameters_are_those_of_the_configuration() {
    let config = TransportConfig::builder().initial_datagram_size(1300).build().unwrap();
    let parameters = RecoveryParameters::of(&config);
    assert_eq!(parameters.minimum_congestion_window, Some(2600));
    assert_eq!(parameters.initial_congestion_window, Some(13_000));
    assert_eq!(parameters.congestion_controller.as_deref(), Some("cubic"));
}

#[test]
fn probes_of_the_mtu_and_its_changes_are_written() {
    let ping = payload(&[Frame::Ping, Frame::Padding(Padding { length: 1400 })]);
    let probe = PacketObservation { is_mtu_probe: true, ..packet(&ping) };
    let lost = LostPacket {
        space: SpaceId::Application,
        number: probe.number,
        bytes: 1472,
        trigger: LossTrigger::Refused,
        thresholds: THRESHOLDS,
    };
    let usual = metrics();
    let memory = log(&[
        Observation::Metrics(&usual),
        Observation::PacketSent(probe),
        Observation::PacketLost(lost),
        Observation::MtuUpdated { old: 1200, new: 1472, is_done: false },
        Observation::Metrics(&usual),
    ]);
    let is_probe = |name| memory.events(name)[0]["is_mtu_probe_packet"].clone();
    assert_eq!(is_probe("quic:packet_sent"), json!(true));
    assert_eq!(is_probe("quic:packet_lost"), json!(true));
    assert_eq!(memory.events("quic:packet_lost")[0].get("trigger"), None);
    let updated = json!({"old": 1200, "new": 1472, "done": false});
    assert_eq!(memory.events("quic:mtu_updated"), [updated]);
    let parameters = memory.events("quic:recovery_parameters_set");
    assert_eq!(parameters.last().unwrap()["max_datagram_size"], json!(1472));
}

/// 0-RTT packets have lower numbers than 1-RTT packets.
#[test]
fn lost_0_rtt_packets_have_their_type() {
    let ping = payload(&[Frame::Ping]);
    let numbered = |number| PacketNumber::new(number).unwrap();
    let sent = |number, packet_type| {
        let observed = packet(&ping);
        Observation::PacketSent(PacketObservation {
            packet_type,
            number: numbered(number),
            ..observed
        })
    };
    let lost = |space, number| {
        Observation::PacketLost(LostPacket {
            space,
            number: numbered(number),
            bytes: 40,
            trigger: LossTrigger::TimeThreshold,
            thresholds: THRESHOLDS,
        })
    };
    let memory = log(&[
        sent(0, PacketType::Initial),
        sent(0, PacketType::ZeroRtt),
        sent(1, PacketType::ZeroRtt),
        sent(2, PacketType::OneRtt),
        lost(SpaceId::Initial, 0),
        lost(SpaceId::Application, 0),
        lost(SpaceId::Application, 1),
        lost(SpaceId::Application, 2),
    ]);
    let lost = memory.events("quic:packet_lost");
    let types: Vec<_> = lost.iter().map(|event| &event["header"]["packet_type"]).collect();
    assert_eq!(types, ["initial", "0RTT", "0RTT", "1RTT"]);
}

#[test]
fn remembered_parameters_are_written() {
    let parameters = TransportParameters {
        initial_max_data: number(4000),
        initial_max_streams_bidi: number(7),
        disable_active_migration: true,
        ..TransportParameters::default()
    };
    let memory = log(&[Observation::ParametersRestored(&parameters)]);
    let expected = json!({
        "disable_active_migration": true, "max_idle_timeout": 0, "max_udp_payload_size": 65527,
        "active_connection_id_limit": 2, "initial_max_data": 4000,
        "initial_max_stream_data_bidi_local": 0, "initial_max_stream_data_bidi_remote": 0,
        "initial_max_stream_data_uni": 0, "initial_max_streams_bidi": 7, "initial_max_streams_uni": 0,
        "max_datagram_frame_size": 0,
    });
    assert_eq!(memory.events("quic:parameters_restored"), [expected]);
}

#[test]
fn marks_and_the_state_of_ecn_are_written() {
    let marked = |ecn| PacketObservation { ecn, ..packet(&[1]) };
    let failed = EcnState::Failed(EcnFailure::CountsTooLow);
    let memory = log(&[
        Observation::EcnStateUpdated { old: None, new: EcnState::Testing },
        Observation::PacketSent(marked(EcnCodepoint::Ect0)),
        Observation::PacketSent(packet(&[1])),
        Observation::PacketReceived(marked(EcnCodepoint::Ce)),
        Observation::PacketReceived(marked(EcnCodepoint::Ect1)),
        Observation::EcnStateUpdated { old: Some(EcnState::Testing), new: failed },
    ]);
    let marks = |name| {
        let events = memory.events(name);
        events.iter().map(|event| event["ecn"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(marks("quic:packet_sent"), [Some("ECT(0)".to_owned()), None]);
    let received = ["CE", "ECT(1)"].map(|mark| Some(mark.to_owned()));
    assert_eq!(marks("quic:packet_received"), received);
    let states = [json!({"new": "testing"}), json!({"old": "testing", "new": "failed"})];
    assert_eq!(memory.events("quic:ecn_state_updated"), states);
}

#[test]
fn every_send_limit_has_a_name() {
    let observations =
        SEND_LIMITS.map(|new| Observation::SendLimitUpdated { old: Some(SendLimit::Batch), new });
    let events = log(&observations).events("quic:connection_data_blocked_updated");
    let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str()).collect();
    assert_eq!(
        reasons,
        [
            Some("application"),
            Some("congestion_control"),
            Some("pacing"),
            Some("amplification_protection"),
            Some("connection_flow_control"),
            Some("keys"),
            Some("path_validation"),
            None,
        ]
    );
    let states = |event: &Value| (event["old"].clone(), event["new"].clone());
    assert_eq!(states(&events[0]), (json!("unblocked"), json!("blocked")));
    assert_eq!(states(&events[7]), (json!("unblocked"), json!("unblocked")));
}

#[test]
fn timers() {
    let update = |timer, change| Observation::TimerUpdated { timer, change };
    let events = log(&[
        update(TimerKind::Loss, TimerChange::Set(at(1) + Duration::from_micros(2500))),
        update(TimerKind::Pacing, TimerChange::Paced(ReleaseTime::at(at(6)))),
        update(TimerKind::Idle, TimerChange::Expired),
        update(TimerKind::Ack, TimerChange::Cancelled),
        // A deadline in the past is written as zero.
        update(TimerKind::ProbeTimeout, TimerChange::Set(at(0))),
    ])
    .events("quic:timer_updated");
    assert_eq!(
        events,
        [
            json!({"timer_type": "ack", "event_type": "set", "delta": 2.5}),
            json!({"timer_type": "pacing", "event_type": "set", "delta": 4}),
            json!({"timer_type": "idle_timeout", "event_type": "expired"}),
            json!({"timer_type": "delayed_ack", "event_type": "cancelled"}),
            json!({"timer_type": "pto", "event_type": "set", "delta": 0}),
        ]
    );
}

#[test]
fn every_way_to_end() {
    let remote_error = |code| ConnectionError::ConnectionClosed {
        error_code: TransportErrorCode(number(code)),
        frame_type: 6,
        reason: vec![b'n', 0xff].into(),
    };
    let local_error =
        TransportError::rule(TransportErrorCode::crypto(109), "no parameters", "RFC 9001 §8.2");
    for (error, expected) in [
        (
            ConnectionError::LocallyClosed,
            json!({"initiator": "local", "trigger": "application", "reason": "closed by this endpoint"}),
        ),
        (
            remote_error(3),
            json!({"initiator": "remote", "trigger": "error",
                   "connection_error": "flow_control_error", "reason": "n\u{fffd}"}),
        ),
        (
            remote_error(0x1234),
            json!({"initiator": "remote", "trigger": "error", "connection_error": "unknown",
                   "error_code": 0x1234, "reason": "n\u{fffd}"}),
        ),
        (
            ConnectionError::TransportError(local_error),
            json!({"initiator": "local", "trigger": "error",
                   "connection_error": "crypto_error_0x16d", "reason": "no parameters"}),
        ),
    ] {
        let events = log(&[Observation::Closed(&error)]).events("quic:connection_closed");
        assert_eq!(events, [expected]);
    }
    for (error, trigger) in [
        (ConnectionError::Reset, "stateless_reset"),
        (ConnectionError::TimedOut, "idle_timeout"),
        (ConnectionError::HandshakeTimedOut(HandshakePackets::default()), "aborted"),
        (ConnectionError::Refused, "aborted"),
        (ConnectionError::VersionMismatch, "version_mismatch"),
    ] {
        let events = log(&[Observation::Closed(&error)]).events("quic:connection_closed");
        assert_eq!(events[0]["trigger"], trigger);
    }
}

#[test]
fn versions_are_logged_with_those_of_either_end() {
    let both = [Version::V2, Version::V1];
    let chosen = Some(Version::V2);
    let memory = log(&[
        Observation::VersionInformation { client: &both, server: &[], chosen },
        Observation::VersionInformation { client: &[], server: &both, chosen },
        Observation::VersionInformation { client: &both, server: &[Version(7)], chosen: None },
    ]);
    let both = json!(["6b3343cf", "00000001"]);
    assert_eq!(
        memory.events("quic:version_information"),
        [
            json!({"client_versions": both, "chosen_version": "6b3343cf"}),
            json!({"server_versions": both, "chosen_version": "6b3343cf"}),
            json!({"server_versions": ["00000007"], "client_versions": both}),
        ]
    );
}

#[test]
fn an_ack_delay_is_scaled_by_its_senders_exponent() {
    // ACK of packet 0, delay 1000 units.
    let ack = [0x02, 0, 0x43, 0xe8, 0, 0];
    let parameters = client_parameters();
    let memory = log(&[
        Observation::PacketReceived(packet(&ack)),
        Observation::ParametersSet { owner: Side::Client, parameters: &parameters },
        Observation::PacketSent(packet(&ack)),
        Observation::PacketReceived(packet(&ack)),
    ]);
    let delay = |event: &Value| event["frames"][0]["ack_delay"].clone();
    assert_eq!(delay(&memory.events("quic:packet_sent")[0]), 1);
    let received = memory.events("quic:packet_received");
    assert_eq!(received.iter().map(delay).collect::<Vec<_>>(), [8, 8]);
}

#[test]
fn a_path_that_is_given_up() {
    let update = |remote: &str, is_validated| Observation::PathUpdated {
        socket: SocketIndex(0),
        remote: remote.parse().unwrap(),
        is_validated,
        is_new_path: false,
    };
    let memory = log(&[
        update("192.0.2.1:443", true),
        update("192.0.2.2:443", false),
        update("192.0.2.1:443", true),
    ]);
    let states: Vec<_> = memory
        .events("quic:migration_state_updated")
        .into_iter()
        .map(|event| (event["tuple_id"].clone(), event["new"].clone()))
        .collect();
    assert_eq!(
        states,
        [
            (json!("1"), json!("migration_started")),
            (json!("1"), json!("migration_abandoned")),
            (json!("2"), json!("migration_complete")),
        ]
    );
    assert_eq!(memory.events("quic:tuple_assigned").len(), 2);
}

#[test]
fn an_application_protocol_need_not_be_text() {
    let memory = log(&[Observation::ApplicationProtocol(&[0xff, 0x01])]);
    assert_eq!(
        memory.events("quic:alpn_information"),
        [json!({"chosen_alpn": {"byte_value": "ff01"}})]
    );
}
