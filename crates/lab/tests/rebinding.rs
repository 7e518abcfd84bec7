//! NATs that forget during the handshake, under the checker.

use std::path::Path;

use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// A download over 10 ms whose NAT forgets as `rebind` says.
fn outcomes(rebind: &str, limit: &str) -> Vec<Outcome> {
    let text = format!(
        r#"
summary = "A NAT that forgets."
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

/// Also when it happens while the last messages of the handshake are under way, of which the server has no
/// more keys when they come again.
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

/// Nothing can come back to the client; and the client's datagrams make several connections at the server, of
/// which only the first is watched.
#[test]
fn a_nat_that_forgets_all_the_time_violates_nothing() {
    outcomes("first = \"0s\"\nevery = \"1ms\"", "5s");
}
