//! Tests of clients that migrate intentionally, and of servers with a preferred address, under the
//! checker.

use std::path::Path;
use std::time::Duration;

use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// Runs a small transfer with a round-trip time of 10 ms and the given additional settings.
fn outcomes(more: &str) -> Vec<Outcome> {
    let text = format!(
        r#"
summary = "A client that moves."
limit = "20s"

[network]
delay = "5ms"
rate = "20mbit"
queue = {{ packets = 50 }}
{more}

[[flow]]
name = "both ways"
traffic = {{ together = [{{ download = "60kB" }}, {{ upload = "30kB" }}] }}
"#
    );
    let scenario = Scenario::parse("migration", &text, Path::new("")).unwrap();
    let setup = &scenario.variants[0].setup;
    let extras = || Extras { check: true, ..Extras::default() };
    let controllers = ["reno", "cubic", "bbr"];
    let outcomes = controllers
        .map(|controller| run(setup, &controller.parse().unwrap(), 0, extras()).unwrap());
    for outcome in &outcomes {
        assert!(outcome.violation.is_none(), "{more}: {:?}", outcome.violation);
        assert_eq!(outcome.stop, Stop::Finished, "{more}");
    }
    outcomes.into()
}

/// Returns the duration of the slowest run.
fn slowest(outcomes: &[Outcome]) -> Duration {
    outcomes.iter().filter_map(|outcome| outcome.flows[0].took).max().unwrap()
}

/// The earliest migrations are requested during the handshake, and begin when the handshake is
/// confirmed. The old path works until the new one is validated, so a migration costs no probe
/// timeout, only slow start if the IP address changes.
#[test]
fn a_move_at_any_millisecond_of_a_small_transfer_costs_little() {
    let undisturbed = slowest(&outcomes(""));
    for moment in 0..90 {
        for target in ["port", "address"] {
            let moves = format!(
                "[endpoint.client]\nmigrations = [{{ at = \"{moment}ms\", to = \"{target}\" }}]"
            );
            let took = slowest(&outcomes(&moves));
            let bound = undisturbed + Duration::from_millis(80);
            assert!(took <= bound, "{moment} {target}: {took:?}, undisturbed {undisturbed:?}");
        }
    }
}

/// Two migrations at the same time, one of them back to the first address, and a NAT that rebinds
/// while the client migrates.
#[test]
fn moves_in_a_row_and_a_nat_at_any_millisecond_end_in_no_stall() {
    for moment in 0..60 {
        let (second, third) = (moment + 1, moment + 25);
        for (target, rebind) in [("address", false), ("back", false), ("address", true)] {
            let nat = format!("[rebind]\nfirst = \"{second}ms\"\naddress = true");
            let moves = format!(
                "{}\n[endpoint.client]\nkeep_alive = \"50ms\"\nmigrations = [{{ at = \"{moment}ms\", \
                 to = \"address\" }}, {{ at = \"{second}ms\", to = \"{target}\" }}, \
                 {{ at = \"{third}ms\", to = \"port\" }}]",
                if rebind { nat.as_str() } else { "" }
            );
            let took = slowest(&outcomes(&moves));
            assert!(took <= Duration::from_secs(3), "{moment} {target}: {took:?}");
        }
    }
}

#[test]
fn a_preferred_address_costs_little() {
    let undisturbed = slowest(&outcomes(""));
    let took = slowest(&outcomes("[endpoint.server]\npreferred_address = true"));
    assert!(took <= undisturbed + Duration::from_millis(80), "{took:?} {undisturbed:?}");
}
