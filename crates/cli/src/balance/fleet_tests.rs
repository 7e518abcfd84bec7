use std::time::Duration;

use clearway_balancer::{Server, ServerState};

use super::super::backends::Backends;
use super::*;

const START: Timestamp = Timestamp::ORIGIN;

/// Returns a file with two servers and `more`: checks every two seconds, down after three failures,
/// up after two successes, full share after 9 s in ten steps.
fn backends(more: &str) -> Backends {
    let text = format!(
        "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\nweight = 2\n\
         [[server]]\nname = \"b\"\naddress = \"192.0.2.2:1\"\n{more}\n"
    );
    Backends::parse(&text).unwrap_or_else(|fault| panic!("{fault:?}"))
}

fn checked(more: &str) -> Backends {
    backends(&format!("{more}\n[health]\ninterval = \"2s\"\nslow-start = \"9s\""))
}

fn start(backends: Backends) -> Fleet {
    Fleet::start(backends, START).unwrap().0
}

fn after(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

/// Performs the due health checks, which fail for the servers in `failing`.
fn check(fleet: &mut Fleet, now: Timestamp, failing: &[&str]) -> Vec<String> {
    let due = fleet.checks_due(now, usize::MAX);
    let reports = due.iter().filter_map(|check| {
        let fails = failing.contains(&fleet.name_of(check).unwrap());
        let failure = CheckFailure { why: "no answer".to_owned(), is_unreachable: false };
        let outcome = if fails { Err(failure) } else { Ok(()) };
        fleet.on_outcome(now, check, outcome)
    });
    reports.collect()
}

/// Returns the names, states and weights of the latest pool's servers.
fn pool(fleet: &mut Fleet, now: Timestamp) -> Option<Vec<(String, ServerState, u32)>> {
    let (pool, _) = fleet.changed_pool(now).unwrap()?;
    let part = |server: &Server| (server.name.clone(), server.state, server.weight);
    Some(pool.servers().map(|(_, server)| part(server)).collect())
}

fn parts(expected: [(&str, ServerState, u32); 2]) -> Option<Vec<(String, ServerState, u32)>> {
    Some(expected.map(|(name, state, weight)| (name.to_owned(), state, weight)).to_vec())
}

use ServerState::{Active, Down, Draining};

#[test]
fn at_the_start_servers_take_clients_until_checks_say_otherwise() {
    let (mut fleet, first) = Fleet::start(checked(""), START).unwrap();
    let states: Vec<_> = first.servers().map(|(_, it)| (it.state, it.weight)).collect();
    assert_eq!(states, [(Active, 20), (Active, 10)]);
    assert_eq!(fleet.deadline(true), Some(START), "checks are due immediately");
    for failed in 0..2 {
        assert!(check(&mut fleet, after(2 * failed), &["b"]).is_empty());
        assert_eq!(pool(&mut fleet, after(2 * failed)), None);
    }
    let reports = check(&mut fleet, after(4), &["b"]);
    assert_eq!(reports, ["server \"b\" (192.0.2.2:1) is down: no answer"]);
    assert_eq!(pool(&mut fleet, after(4)), parts([("a", Active, 20), ("b", Down, 0)]));
    assert_eq!(fleet.deadline(true), Some(after(6)));
}

#[test]
fn a_server_that_is_up_again_gets_its_part_in_steps() {
    let mut fleet = start(checked(""));
    for time in [0, 2, 4] {
        check(&mut fleet, after(time), &["b"]);
    }
    pool(&mut fleet, after(4));
    assert!(check(&mut fleet, after(6), &[]).is_empty());
    assert_eq!(check(&mut fleet, after(8), &[]), ["server \"b\" (192.0.2.2:1) is up"]);
    for weight in 1..10 {
        let now = after(7 + u64::from(weight));
        assert_eq!(pool(&mut fleet, now), parts([("a", Active, 20), ("b", Active, weight)]));
        assert_eq!(pool(&mut fleet, now), None, "nothing has changed");
        let next = after(8 + u64::from(weight));
        assert_eq!(fleet.deadline(false), Some(next));
    }
    assert_eq!(pool(&mut fleet, after(17)), parts([("a", Active, 20), ("b", Active, 10)]));
    assert_eq!(fleet.deadline(false), None);
}

#[test]
fn draining_servers_are_checked_and_get_no_new_clients() {
    let mut fleet = start(checked(""));
    fleet.replace(after(1), checked("drain = true"));
    assert_eq!(pool(&mut fleet, after(1)), parts([("a", Active, 20), ("b", Draining, 0)]));
    for time in [2, 4, 6] {
        check(&mut fleet, after(time), &["b"]);
    }
    assert_eq!(pool(&mut fleet, after(6)), parts([("a", Active, 20), ("b", Down, 0)]));
    fleet.replace(after(7), checked("drain = true"));
    assert_eq!(pool(&mut fleet, after(7)), parts([("a", Active, 20), ("b", Down, 0)]));
}

/// If the checks themselves are wrong, clients still reach servers.
#[test]
fn if_all_servers_are_down_checks_do_not_count() {
    let mut fleet = start(checked(""));
    for time in [0, 2, 4] {
        check(&mut fleet, after(time), &["a", "b"]);
    }
    let (_, report) = fleet.changed_pool(after(4)).unwrap().unwrap();
    assert!(report.unwrap().starts_with("no server passes its health checks"), "{report:?}");
    assert_eq!(fleet.servers(after(4)).len(), 2);
    assert!(fleet.servers(after(4)).iter().all(Server::takes_new_clients));
    check(&mut fleet, after(6), &["b"]);
    check(&mut fleet, after(8), &["b"]);
    let (_, report) = fleet.changed_pool(after(8)).unwrap().unwrap();
    assert_eq!(
        report,
        Some("a server passes its health checks again: only passing servers get clients")
    );
    let parts: Vec<_> = fleet.servers(after(8)).iter().map(|it| (it.state, it.weight)).collect();
    assert_eq!(parts, [(Active, 2), (Down, 0)]);
}

/// A draining server that is up does not count as a server that could take new clients.
#[test]
fn servers_that_drain_do_not_stand_in_for_those_that_are_down() {
    let mut fleet = start(checked("drain = true"));
    for time in [0, 2, 4] {
        check(&mut fleet, after(time), &["a"]);
    }
    assert_eq!(pool(&mut fleet, after(4)), parts([("a", Active, 20), ("b", Draining, 10)]));
}

#[test]
fn servers_that_are_not_checked_are_as_the_file_says() {
    let mut fleet = start(backends("drain = true\n[health]\noff = true"));
    assert!(fleet.checks_due(after(100), 10).is_empty());
    assert_eq!(fleet.deadline(true), None);
    fleet.replace(after(1), backends("[health]\noff = true"));
    assert_eq!(pool(&mut fleet, after(1)), parts([("a", Active, 20), ("b", Active, 10)]));
}

#[test]
fn a_new_server_takes_clients_after_its_first_check() {
    let mut fleet = start(checked(""));
    check(&mut fleet, START, &[]);
    let third = "[[server]]\nname = \"c\"\naddress = \"192.0.2.3:1\"";
    fleet.replace(after(1), checked(third));
    let states = |fleet: &Fleet, now| -> Vec<_> {
        fleet.servers(now).iter().map(|server| (server.state, server.weight)).collect()
    };
    assert_eq!(states(&fleet, after(1)), [(Active, 20), (Active, 10), (Down, 0)]);
    assert_eq!(fleet.deadline(true), Some(after(1)), "only the new server is checked, immediately");
    assert_eq!(check(&mut fleet, after(1), &[]), ["server \"c\" (192.0.2.3:1) is up"]);
    assert_eq!(states(&fleet, after(1)), [(Active, 20), (Active, 10), (Active, 1)]);
    // A server with a new address is treated as a new server.
    fleet.replace(after(2), checked(&third.replace("192.0.2.3", "192.0.2.4")));
    assert_eq!(states(&fleet, after(2))[2], (Down, 0));
}

#[test]
fn an_outcome_of_a_server_that_has_gone_changes_nothing() {
    let mut fleet = start(checked(""));
    let due = fleet.checks_due(START, 10);
    fleet.replace(after(1), checked(""));
    assert_eq!(fleet.checks_due(after(1), 10), [], "both are being checked");
    let only = "[[server]]\nname = \"a\"\naddress = \"192.0.2.9:1\"\n[health]\ndown-after = 1";
    fleet.replace(after(1), Backends::parse(only).unwrap());
    let begun = fleet.checks_due(after(1), 10);
    assert_eq!(begun.len(), 1);
    for check in &due {
        assert_eq!(fleet.name_of(check), None);
        assert_eq!(fleet.on_outcome(after(1), check, Ok(())), None);
    }
    assert_eq!(fleet.name_of(&begun[0]), Some("a"));
}

#[test]
fn a_server_at_whose_address_nothing_receives_is_down_at_once() {
    let mut fleet = start(checked(""));
    let refused = |fleet: &mut Fleet| {
        let due = fleet.checks_due(START, usize::MAX);
        let of_b = due.iter().find(|check| fleet.name_of(check) == Some("b")).unwrap();
        let failure = CheckFailure { why: "unreachable".to_owned(), is_unreachable: true };
        fleet.on_outcome(START, of_b, Err(failure))
    };
    assert_eq!(refused(&mut fleet), None, "the report may be forged");
    let report = refused(&mut fleet).unwrap();
    assert!(report.contains("\"b\"") && report.ends_with("is down: unreachable"), "{report}");
    assert_eq!(pool(&mut fleet, START), parts([("a", Active, 20), ("b", Down, 0)]));
}

/// With the default settings, a server that is killed at any time, even while it answers a check,
/// is down within a second.
#[test]
fn a_killed_server_is_down_within_a_second() {
    let milliseconds = |number| START + Duration::from_millis(number);
    for killed in (0..1500).step_by(50) {
        let mut fleet = start(backends(""));
        let (mut answered, mut down) = (Vec::new(), None);
        for now in (0..killed + 1000).step_by(50) {
            loop {
                let due = fleet.checks_due(milliseconds(now), usize::MAX);
                if due.is_empty() {
                    break;
                }
                for check in due {
                    match fleet.name_of(&check) {
                        // A check that the server has begun to answer has no outcome until its
                        // timeout.
                        Some("b") if now == killed => {}
                        Some("b") if now > killed => {
                            let why = "unreachable".to_owned();
                            let failure = CheckFailure { why, is_unreachable: true };
                            let report = fleet.on_outcome(milliseconds(now), &check, Err(failure));
                            down = down.or(report.map(|_| now));
                        }
                        _ => answered.push(check),
                    }
                }
            }
            for check in answered.drain(..) {
                fleet.on_outcome(milliseconds(now), &check, Ok(()));
            }
        }
        assert!(down.is_some_and(|down| down - killed <= 500), "{killed} {down:?}");
        let parts_after = pool(&mut fleet, milliseconds(killed + 1000));
        assert_eq!(parts_after, parts([("a", Active, 20), ("b", Down, 0)]), "{killed}");
    }
}

#[test]
fn an_outcome_that_comes_after_that_of_a_later_check_changes_nothing() {
    let mut fleet = start(checked(""));
    let of_b = |fleet: &mut Fleet, now| {
        let due = fleet.checks_due(now, usize::MAX);
        due.into_iter().find(|check| fleet.name_of(check) == Some("b")).unwrap()
    };
    let (first, second) = (of_b(&mut fleet, START), of_b(&mut fleet, after(2)));
    assert_eq!(fleet.checks_due(after(4), usize::MAX), [], "two of each server are in progress");
    let failure = |is_unreachable| CheckFailure { why: "no answer".to_owned(), is_unreachable };
    assert!(fleet.on_outcome(after(4), &second, Err(failure(true))).is_none());
    let again = of_b(&mut fleet, after(4));
    assert!(fleet.on_outcome(after(4), &again, Err(failure(true))).is_some());
    assert_eq!(fleet.on_outcome(after(4), &first, Ok(())), None);
    let third = of_b(&mut fleet, after(6));
    assert!(fleet.on_outcome(after(6), &third, Ok(())).is_none());
    let fourth = of_b(&mut fleet, after(8));
    let report = fleet.on_outcome(after(8), &fourth, Ok(())).unwrap();
    assert_eq!(report, "server \"b\" (192.0.2.2:1) is up", "two successes in a row");
}

#[test]
fn other_settings_leave_servers_up_and_down() {
    let mut fleet = start(checked(""));
    for time in [0, 2, 4] {
        check(&mut fleet, after(time), &["b"]);
    }
    fleet.replace(after(5), backends("[health]\nup-after = 1\nslow-start = \"0s\""));
    assert_eq!(pool(&mut fleet, after(5)), parts([("a", Active, 20), ("b", Down, 0)]));
    check(&mut fleet, after(5), &[]);
    assert_eq!(pool(&mut fleet, after(5)), parts([("a", Active, 20), ("b", Active, 10)]));
}

/// Every server gets its turn, no matter how many servers wait for a check and how long each check
/// takes.
#[test]
fn those_that_have_waited_longest_are_checked_first() {
    let mut fleet = start(checked(""));
    let [first] = fleet.checks_due(START, 1)[..] else { panic!("one check may start") };
    assert!(fleet.checks_due(START, 0).is_empty());
    fleet.on_outcome(after(3), &first, Ok(()));
    let [second] = fleet.checks_due(after(3), 1)[..] else { panic!("one check may start") };
    assert_ne!(first, second);
}

/// Neither successful checks nor checks of other servers delay the growth of a server's share.
#[test]
fn a_share_grows_while_checks_go_on() {
    let mut fleet = start(checked(""));
    for time in [0, 2, 4] {
        check(&mut fleet, after(time), &["b"]);
    }
    pool(&mut fleet, after(4));
    let mut weights = Vec::new();
    for time in 6..=20 {
        check(&mut fleet, after(time), &[]);
        if let Some(servers) = pool(&mut fleet, after(time)) {
            weights.push((time, servers[1].2));
        }
    }
    // The server is up at 8 s, and has its full share 9 s later.
    let steps: Vec<_> = (0..10).map(|step| (8 + step, 1 + step as u32)).collect();
    assert_eq!(weights, steps);
}

/// The balancer reports once that no server is up, if there are checked servers that could take
/// clients.
#[test]
fn only_checks_show_that_no_server_is_up() {
    const NONE: &str = "no server passes its health checks: all of them get clients until one does";
    let of_a = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n";
    let b_and = |more: &str| format!("[[server]]\nname = \"b\"\naddress = \"192.0.2.2:1\"\n{more}");
    for (file, failing, expected) in [
        (of_a.to_owned(), &["a"][..], Some(NONE)),
        (of_a.to_owned(), &[], None),
        (of_a.to_owned() + &b_and(""), &["a"], None),
        (of_a.to_owned() + &b_and(""), &["a", "b"], Some(NONE)),
        (of_a.to_owned() + &b_and("drain = true"), &["a"], Some(NONE)),
        (of_a.to_owned() + &b_and("weight = 0"), &["a"], Some(NONE)),
        (of_a.to_owned() + &b_and("weight = 0"), &["b"], None),
        (b_and("drain = true"), &["b"], None),
        (of_a.to_owned() + "[health]\noff = true", &["a"], None),
    ] {
        let backends = Backends::parse(&file).unwrap_or_else(|fault| panic!("{fault:?}"));
        let mut fleet = start(backends.clone());
        let mut reports = Vec::new();
        for time in 0..6 {
            check(&mut fleet, after(time), failing);
            reports.extend(fleet.changed_pool(after(time)).unwrap().and_then(|(_, report)| report));
        }
        // Reading an unchanged file again causes no report.
        fleet.replace(after(6), backends);
        reports.extend(fleet.changed_pool(after(6)).unwrap().and_then(|(_, report)| report));
        assert_eq!(reports, Vec::from_iter(expected), "{file} {failing:?}");
    }
    // A file without candidates or without checks does not tell whether servers are up.
    for more in ["drain = true\n", "[health]\noff = true\n"] {
        let parsed = |more: &str| Backends::parse(&(of_a.to_owned() + more)).unwrap();
        let mut fleet = start(parsed(""));
        check(&mut fleet, START, &[]);
        fleet.replace(after(1), parsed(more));
        let (_, report) = fleet.changed_pool(after(1)).unwrap().unwrap();
        assert_eq!(report, None, "{more}");
    }
}
