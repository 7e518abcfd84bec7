use super::*;

fn member(server: &str) -> Member {
    Member {
        server: server.to_owned(),
        begun: 4,
        complete: 4,
        moved: 7,
        rotated: 7,
        waited: 0.1,
        failure: None,
        is_wrong: false,
    }
}

fn opening(at: f64, took: f64, server: &str) -> Opening {
    Opening { at, took, server: Some(server.to_owned()), error: None }
}

fn failed_opening(at: f64, took: f64) -> Opening {
    Opening { at, took, server: None, error: Some("no answer".to_owned()) }
}

fn facts(happened: Happened) -> Facts {
    Facts {
        members: vec![member("a"), member("b")],
        openings: vec![opening(0.5, 0.01, "a"), opening(5.0, 0.01, "c")],
        unfinished: 0,
        strays: Strays::default(),
        resets: 0,
        dropped: Vec::new(),
        seconds: 8.0,
        happened,
    }
}

fn probes(names: &str) -> Probes {
    let probe = |name: char| (name != '-').then(|| name.to_string());
    names.chars().map(probe).collect()
}

fn killed() -> Happened {
    Happened::Killed { at: 2.0, server: "b".to_owned(), noticed: Some(0.2) }
}

#[track_caller]
fn only_fault(facts: &Facts) -> String {
    let [fault] = &facts.faults()[..] else { panic!("{:?}", facts.faults()) };
    fault.clone()
}

#[test]
fn nothing_wrong_is_no_fault() {
    let drained = Happened::Drained { at: 2.0, server: "b".to_owned() };
    let restarted = Happened::Restarted { at: 2.0, back: 2.4 };
    for happened in [Happened::Nothing, drained, killed(), restarted, Happened::Replaced] {
        let facts = facts(happened);
        assert_eq!(facts.faults(), [""; 0]);
        assert!(!facts.note().is_empty());
    }
}

#[test]
fn the_note_says_where_sockets_had_no_room() {
    let mut facts = facts(Happened::Nothing);
    facts.dropped = vec![("server 1".to_owned(), 3), ("the clients".to_owned(), 1)];
    let note = "14 migrations; sockets of server 1 dropped 3 datagrams because their buffers were full; \
                sockets of the clients dropped 1 datagrams because their buffers were full";
    assert_eq!(facts.note(), note);
}

#[test]
fn what_no_scenario_may_have() {
    let change = |change: fn(&mut Facts)| {
        let mut facts = facts(Happened::Nothing);
        change(&mut facts);
        only_fault(&facts)
    };
    let lost = change(|it| it.members[1].failure = Some("timed out".to_owned()));
    assert_eq!(lost, "connection 1 at server b was lost: timed out");
    assert!(change(|it| it.members[0].is_wrong = true).ends_with("got wrong bytes"));
    assert!(change(|it| it.members[0].complete = 0).ends_with("did not complete any download"));
    let stood = change(|it| it.members[0].moved = 3);
    assert!(
        stood.ends_with("changed its address 3 times and its connection ID 7 times, not 4 times"),
        "{stood}"
    );
    assert!(
        change(|it| it.members[0].rotated = 0)
            .ends_with("7 times and its connection ID 0 times, not 4 times")
    );
    assert!(
        change(|it| it.strays.misrouted = 1).starts_with("1 datagrams reached a different server")
    );
    assert!(change(|it| it.strays.late = 2).starts_with("2 datagrams reached their server after"));
    assert!(change(|it| it.strays.unknown_server = 3).starts_with("3 stray datagrams have"));
    assert_eq!(change(|it| it.resets = 2), "2 stateless resets");
    assert!(
        change(|it| it.openings.push(failed_opening(3.0, 5.0))).contains("at 3.0 s: no answer")
    );
    assert!(change(|it| it.openings[0].took = 1.5).contains("took 1.5 s"));
    assert!(change(|it| it.unfinished = 2).starts_with("2 connections"));
    assert!(change(|it| it.openings.clear()).starts_with("no connection was opened"));
}

#[test]
fn only_connections_of_the_killed_server_may_be_lost() {
    let mut facts = facts(killed());
    facts.members[1].failure = Some("timed out".to_owned());
    (facts.members[1].waited, facts.members[1].moved) = (4.0, 1);
    assert_eq!(facts.faults(), [""; 0]);
    facts.members[0].failure = Some("timed out".to_owned());
    assert_eq!(only_fault(&facts), "connection 0 at server a was lost: timed out");
    facts.members[0] = Member { waited: 1.5, ..member("a") };
    assert_eq!(only_fault(&facts), "connection 0 waited for 1.5 s");
    facts.members.truncate(1);
    facts.members[0].waited = 0.1;
    assert_eq!(only_fault(&facts), "no connection was at server b");
}

/// The last datagrams for a killed server must be routed to some other server; datagrams for other
/// servers must not.
#[test]
fn only_what_a_killed_server_should_have_got_may_come_to_others() {
    let mut facts = facts(killed());
    facts.strays.killed_server = 500;
    facts.resets = 500;
    assert_eq!(facts.faults(), [""; 0]);
    facts.resets = 501;
    assert_eq!(only_fault(&facts), "1 stateless resets");
    facts.resets = 0;
    facts.strays.misrouted = 1;
    assert!(only_fault(&facts).starts_with("1 datagrams reached a different server"));
}

#[test]
fn a_balancer_notices_a_killed_server_within_a_second() {
    for noticed in [None, Some(1.01)] {
        let facts = facts(Happened::Killed { at: 2.0, server: "b".to_owned(), noticed });
        let fault = "the balancer did not notice within 1 s that server b was killed";
        assert_eq!(only_fault(&facts), fault);
    }
}

#[test]
fn new_clients_of_a_killed_server_go_elsewhere_within_a_second() {
    let mut facts = facts(killed());
    facts.openings.extend([
        failed_opening(2.9, 5.0),
        failed_opening(1.95, 5.0),
        opening(2.5, 1.2, "a"),
    ]);
    assert_eq!(facts.faults(), [""; 0]);
    facts.openings.push(failed_opening(3.1, 5.0));
    assert!(only_fault(&facts).contains("not opened at 3.1 s"));
    facts.openings.pop();
    facts.openings.push(failed_opening(0.1, 0.5));
    assert!(only_fault(&facts).contains("not opened at 0.1 s"));
    facts.openings.pop();
    facts.openings.push(opening(3.1, 0.01, "b"));
    assert_eq!(only_fault(&facts), "1 new connections went to server b");
}

#[test]
fn a_drained_server_gets_no_new_clients() {
    let mut facts = facts(Happened::Drained { at: 2.0, server: "b".to_owned() });
    facts.openings.extend([opening(1.0, 0.01, "b"), opening(2.5, 0.01, "b")]);
    assert_eq!(facts.faults(), [""; 0]);
    facts.openings.extend([opening(3.1, 0.01, "b"), opening(3.2, 0.01, "b")]);
    assert_eq!(only_fault(&facts), "2 new connections went to server b");
    facts.openings.truncate(4);
    facts.members[1].failure = Some("closed".to_owned());
    assert!(only_fault(&facts).contains("was lost"));
}

#[test]
fn only_while_there_is_no_balancer_may_an_opening_be_late_or_fail() {
    let mut facts = facts(Happened::Restarted { at: 2.0, back: 2.4 });
    facts.openings.extend([
        opening(1.9, 1.3, "a"),
        opening(2.3, 1.3, "a"),
        failed_opening(2.1, 0.0),
    ]);
    assert_eq!(facts.faults(), [""; 0]);
    facts.openings.push(opening(2.5, 1.3, "a"));
    assert!(only_fault(&facts).contains("took 1.3 s to open at 2.5 s"));
    facts.openings.pop();
    facts.openings.push(failed_opening(1.5, 0.1));
    assert!(only_fault(&facts).contains("not opened at 1.5 s"));
}

#[test]
fn an_added_server_takes_its_part_and_no_more() {
    let added = |before: &str, after: &str| {
        let (before, after) = (probes(before), probes(after));
        let remembers = false;
        facts(Happened::Added { server: "c".to_owned(), servers: 4, before, after, remembers })
    };
    let good = added("abababab", "abcbabcb");
    assert_eq!((good.faults(), good.probes()), (Vec::new(), 16));
    assert_eq!(good.note(), "25.0 % of first flights moved to another server");
    let much = added("abababab", "abcbabcc");
    assert!(only_fault(&much).starts_with(
        "37.5 % of first flights moved to another server; more than 0 and at most 27.0 %"
    ));
    assert!(only_fault(&added("abab", "abab")).starts_with("0.0 % of first flights"));
    assert_eq!(only_fault(&added("aaa-a", "aaaac")), "1 probes were not answered");
    let mut remembered = added("abab", "abab");
    if let Happened::Added { remembers, .. } = &mut remembered.happened {
        *remembers = true;
    }
    assert_eq!(remembered.faults(), [""; 0]);
    let mut unused = good;
    unused.openings[1].server = Some("a".to_owned());
    assert_eq!(only_fault(&unused), "server c did not get any new clients");
}

#[test]
fn only_flights_that_were_answered_twice_count() {
    assert_eq!(share_of_moved(&probes("ab-a"), &probes("ab-b")), 1.0 / 3.0);
    assert_eq!(share_of_moved(&probes("--"), &probes("ab")), 0.0);
    assert_eq!(share_of_moved(&probes(""), &probes("")), 0.0);
}
