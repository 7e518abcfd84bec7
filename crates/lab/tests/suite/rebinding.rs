//! Tests of NATs that rebind during the handshake, under the checker.

use std::path::Path;

use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// Runs a download with a round-trip time of 10 ms, behind a NAT that rebinds as specified by
/// `rebind`.
fn outcomes(rebind: &str, limit: &str) -> Vec<Outcome> {
    let text = format!(
        r#"
summary = "A NAT that rebinds."
limit = "{limit}"

[network]
delay = "5ms"
rate = "20mbit"
queue = {{ packets = 50 }}

[rebind]
{rebind}

[endpoint.client]
keep_alive = "50ms"

[[flow]]
name = "download"
traffic = {{ download = "50kB" }}
"#
    );
    let scenario = Scenario::parse("rebinding", &text, Path::new("")).unwrap();
    let setup = &scenario.variants[0].setup;
    let extras = || Extras { check: true, ..Extras::default() };
    let controllers = ["reno", "cubic", "bbr"];
    let outcomes = controllers
        .map(|controller| run(setup, &controller.parse().unwrap(), 0, extras()).unwrap());
    for outcome in &outcomes {
        assert!(outcome.violation.is_none(), "{rebind}: {:?}", outcome.violation);
    }
    outcomes.into()
}

/// One of the tested rebindings happens while the last handshake messages are in flight: when they
/// are retransmitted, the server has already discarded their keys.
#[test]
fn a_rebinding_in_the_handshake_does_not_stop_a_download() {
    for moment in [1, 5, 7, 10, 12, 15, 17, 20, 22, 25, 30] {
        for address in [false, true] {
            let rebind = format!("first = \"{moment}ms\"\naddress = {address}");
            for outcome in outcomes(&rebind, "10s") {
                assert_eq!(outcome.stop, Stop::Finished, "{rebind}");
            }
        }
    }
}

/// No response can reach the client, and the client's datagrams create several connections at the
/// server, of which only the first is checked.
#[test]
fn a_nat_that_rebinds_all_the_time_violates_no_property() {
    outcomes("first = \"0s\"\nevery = \"1ms\"", "5s");
}
