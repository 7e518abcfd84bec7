use clearway_probe::quic::{Frame, Progress, Side, Trust};
use clearway_probe::run::{RunError, connect};
use clearway_probe::script::{Condition, Script};

use crate::support::{options, target};

#[test]
fn a_request_is_answered() {
    let script = Script::http3()
        .get(0, "/")
        .expect(vec![Condition::response(0, &[200])])
        .wait(Condition::Finished { stream: 0 })
        .get(4, "/missing")
        .expect(vec![Condition::response(4, &[404])])
        .expect(vec![Condition::Alive {}]);
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(report.is_passed(), "{report}");
    assert_eq!(report.progress, Progress::Confirmed);
    assert_eq!((report.status(0), report.status(4)), (Some(200), Some(404)));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["alpn"], "h3");
    assert!(json["packets"].as_array().unwrap().len() > 5);
}

#[test]
fn a_violation_is_detected() {
    let script = Script::quic()
        .frames(vec![Frame::HandshakeDone {}])
        .expect(vec![Condition::transport_close(&["PROTOCOL_VIOLATION"])]);
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(report.is_passed(), "{report}");
}

#[test]
fn what_is_accepted_fails_an_expectation() {
    let script =
        Script::quic().frames(vec![Frame::Ping {}]).step(clearway_probe::script::Step::Expect {
            any: vec![Condition::transport_close(&[])],
            none: Vec::new(),
            milliseconds: Some(100),
        });
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(!report.is_passed());
    assert_eq!(report.steps.last().unwrap().detail, "accepted silently");
}

#[test]
fn a_request_survives_impairments() {
    use clearway_probe::script::Step;
    use clearway_probe::{Direction, Impairment, ImpairmentRule};
    let rule = |direction, action, probability| ImpairmentRule {
        probability,
        ..ImpairmentRule::new(direction, action)
    };
    let rules = vec![
        rule(Direction::Sent, Impairment::Drop, 0.2),
        rule(Direction::Received, Impairment::Drop, 0.2),
        rule(Direction::Received, Impairment::Duplicate, 0.2),
        rule(Direction::Received, Impairment::Corrupt, 0.1),
        rule(Direction::Sent, Impairment::Delay { milliseconds: 5 }, 0.3),
    ];
    let script = Script::http3().step(Step::Impair { rules }).get(0, "/").step(Step::Expect {
        any: vec![Condition::response(0, &[200])],
        none: Vec::new(),
        milliseconds: Some(20_000),
    });
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(report.is_passed(), "{report}");
}

#[test]
fn a_token_is_used_and_a_session_is_resumed() {
    use clearway_probe::script::Token;
    let script = Script::quic()
        .connect(|it| {
            it.token = Some(Token::Previous);
            it.resume = true;
        })
        .expect(vec![Condition::Alive {}]);
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(report.is_passed(), "{report}");
    // Later packets use the connection ID that the server chose.
    let mut sent = report.record.packets.iter().filter(|packet| packet.side == Side::Sent);
    let first = sent.next().unwrap();
    assert!(!first.token.is_empty());
    assert!(sent.all(|packet| packet.destination != first.destination), "{report}");
}

#[test]
fn an_untrusted_certificate_is_reported() {
    let roots = clearway::rustls::RootCertStore::empty();
    let mut target = target();
    target.trust = Trust::Roots(roots.into());
    let error = connect(&target, &Script::quic(), &options()).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_closed_port_is_reported() {
    let mut target = target();
    target.address.set_port(1);
    let error = connect(&target, &Script::quic(), &options()).unwrap_err();
    assert!(matches!(error, RunError::CannotConnect { .. }), "{error}");
}

#[test]
fn early_data_is_accepted() {
    let script = Script::during(Progress::Start)
        .connect(|it| it.early_data = true)
        .stream(2, b"\0\x04\0", false)
        .get(0, "/")
        .expect(vec![Condition::response(0, &[200])]);
    let report = connect(&target(), &script, &options()).unwrap();
    assert!(report.is_passed() && report.early_data_accepted, "{report}");
}

#[test]
fn a_replayed_request_is_answered() {
    use clearway_probe::qlog;
    let script = Script::http3().get(0, "/").wait(Condition::Finished { stream: 0 });
    let first = connect(&target(), &script, &options()).unwrap();
    let script = qlog::replay(&qlog::write(&first)).unwrap();
    let second = connect(&target(), &script, &options()).unwrap();
    assert_eq!(second.status(0), Some(200), "{second}");
}
