//! Tests of acknowledgment frequency, as requested by the peer (draft-ietf-quic-ack-frequency): how
//! many ACK frames are sent, and at what cost.

use core::time::Duration;
use std::path::Path;

use clearway_lab::scenario::Scenario;
use clearway_lab::setup::Setup;
use clearway_lab::world::Stop;
use clearway_wire::Frame;

use crate::support::{Measure, measured, scenario};

const LOSSY: &str = r#"
summary = "2 % of the packets are lost"
[network]
delay = "20ms"
rate = "50mbit"
loss = [{ random = "2%" }]
[endpoint]
ack_frequency = true
[[flow]]
name = "download"
traffic = { download = "5MB" }
"#;

const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr"];

const ACKS: Measure = |frame| u64::from(matches!(frame, Frame::Ack(_)));
/// picoquic closes the connection with FRAME_ENCODING_ERROR for a request like this, because it
/// rejects values that were invalid in the first versions of draft-ietf-quic-ack-frequency.
/// `min_ack_delay` is 1 ms here.
const REJECTED_BY_PICOQUIC: Measure = |frame| {
    let Frame::AckFrequency(frame) = frame else { return 0 };
    u64::from(frame.ack_eliciting_threshold.get() == 0 || frame.max_ack_delay.get() < 1000)
};
const IMMEDIATE_ACKS: Measure = |frame| u64::from(matches!(frame, Frame::ImmediateAck));
const REQUESTS: Measure = |frame| u64::from(matches!(frame, Frame::AckFrequency(_)));

/// Returns the same setup, with or without requests for fewer acknowledgments.
fn with(setup: &Setup, ack_frequency: bool) -> Setup {
    let mut setup = setup.clone();
    for flow in &mut setup.flows {
        flow.client.ack_frequency = ack_frequency;
        flow.server.ack_frequency = ack_frequency;
    }
    setup
}

struct Counts {
    took: Duration,
    /// ACK frames sent by the client.
    acks: u64,
    /// ACK_FREQUENCY frames sent by the server.
    requests: u64,
}

fn run(setup: &Setup, controller: &str) -> Counts {
    let (outcome, [client, server]) = measured(setup, controller, [ACKS, REQUESTS]);
    assert_eq!(outcome.stop, Stop::Finished, "{controller}: {:?}", outcome.violation);
    let took = outcome.took().unwrap();
    println!("{controller}: {took:?}, {} ACKs, {} requests", client[0].sum, server[1].sum);
    Counts { took, acks: client[0].sum, requests: server[1].sum }
}

/// At 100 Mbit/s, a download takes the same time with less than half as many ACK frames. On the
/// path with a slow return direction, the download is not slower either. Requests are rare.
#[test]
fn fewer_acknowledgements_cost_no_goodput() {
    let scenario = scenario("ack-frequency");
    for (variant, most) in [(&scenario.variants[0], 50), (&scenario.variants[1], 100)] {
        for controller in CONTROLLERS {
            println!("{}", variant.name);
            let [few, many] = [true, false].map(|on| run(&with(&variant.setup, on), controller));
            let place = format!("{}, {controller}", variant.name);
            assert!(few.acks * 100 <= many.acks * most, "{place}: {} of {}", few.acks, many.acks);
            assert!(few.took <= many.took * 21 / 20, "{place}: {:?}, {:?}", few.took, many.took);
            assert!((1..=20).contains(&few.requests) && many.requests == 0, "{place}");
        }
    }
}

/// Lost requests are repeated; the checker compares every delay with the latest request.
#[test]
fn requests_that_are_lost_are_made_again() {
    let variant = &scenario("ack-frequency").variants[2];
    for controller in CONTROLLERS {
        assert!(run(&variant.setup, controller).requests > 1, "{controller}");
    }
}

/// At 2 % loss the window of Reno and CUBIC becomes so small that every packet should be
/// acknowledged. The request for this uses values that every stack accepts.
#[test]
fn small_windows_request_nothing_that_picoquic_rejects() {
    let scenario = Scenario::parse("lossy", LOSSY, Path::new("")).unwrap();
    for controller in CONTROLLERS {
        let measures = [REQUESTS, REJECTED_BY_PICOQUIC, IMMEDIATE_ACKS];
        let setup = &scenario.variants[0].setup;
        let (outcome, [client, server]) = measured(setup, controller, measures);
        assert_eq!(outcome.stop, Stop::Finished, "{controller}: {:?}", outcome.violation);
        let [requests, rejected, immediate] = server.map(|measured| measured.sum);
        println!("{controller}: {requests} requests, {immediate} IMMEDIATE_ACK frames");
        assert_eq!(rejected + client[1].sum, 0, "{controller}: picoquic closes the connection");
        let is_small = controller != "bbr";
        assert!(!is_small || immediate > 100, "{controller}: {immediate} IMMEDIATE_ACK frames");
    }
}

/// The limits of scenarios about loss, reordering, queues and short flows also hold with fewer
/// acknowledgments.
#[test]
fn other_scenarios_keep_their_bounds() {
    for name in ["clean-path", "deep-queue", "random-loss", "reordering", "policer", "requests"] {
        let scenario = scenario(name);
        let variant = &scenario.variants[0];
        for controller in CONTROLLERS {
            let [few, many] = [true, false].map(|on| run(&with(&variant.setup, on), controller));
            let place = format!("{name}, {controller}");
            assert!(few.took <= many.took * 11 / 10, "{place}: {:?}, {:?}", few.took, many.took);
        }
    }
}
