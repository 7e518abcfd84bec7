use super::*;
use crate::Quantity;
use crate::script::{Condition, Step};

#[test]
fn a_script_with_everything_round_trips() {
    let script = Script::http3()
        .parameter("max_ack_delay", 1 << 14)
        .frames_at(Level::Handshake, vec![Frame::PathChallenge { data: Data::zeros(8) }])
        .stream(0, "bytes", true)
        .get(4, "/")
        .step(Step::Impair {
            rules: vec![crate::ImpairmentRule::new(
                crate::Direction::Sent,
                crate::Impairment::Drop,
            )],
        })
        .step(Step::Migrate { keep_id: false })
        .step(Step::Settings { stream: 2, settings: vec![(6, 100)] })
        .wait(Condition::Headers { stream: 4 })
        .expect(vec![Condition::transport_close(&["PROTOCOL_VIOLATION"]), Condition::Alive {}]);
    let text = script.to_toml().unwrap();
    assert_eq!(Script::from_toml(&text).unwrap(), script, "{text}");
}

#[test]
fn a_written_script() {
    let text = r#"
        [connect]
        alpn = ["h3"]
        http3 = false
        parameters = [{ edit = "set-integer", parameter = "ack_delay_exponent", value = 21 }]

        [[step]]
        action = "packets"
        packets = [{ frames = [{ type = "stream", stream = "beyond_uni", data = "hex:00" }] }]

        [[step]]
        action = "expect"
        any = [{ event = "close", codes = ["STREAM_LIMIT_ERROR"] }]
        milliseconds = 500
    "#;
    let script = Script::from_toml(text).unwrap();
    assert_eq!(script.steps.len(), 2);
    let Step::Packets { packets } = &script.steps[0] else { panic!("not packets") };
    let expected = Frame::stream(Quantity::beyond(crate::Base::BeyondUni, 0), 0, b"\0", false);
    assert_eq!(packets[0].frames, [expected]);
}

#[test]
fn mistakes_are_reported() {
    for text in [
        "[connect]\nspeed = 3",
        "[[step]]\naction = \"jump\"",
        "[[step]]\naction = \"flush\"\nx = 1",
    ] {
        let error = Script::from_toml(text).unwrap_err().to_string();
        assert!(error.starts_with("invalid script: "), "{error}");
    }
}
