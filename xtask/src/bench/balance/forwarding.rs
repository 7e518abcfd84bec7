//! The forwarding rate of each proxy on one core, while the clients send as fast as they can.

use super::super::place::{CLIENT_CORE, SERVER_CORE};
use super::super::report::{Ratio, Results, Row};
use super::super::{median, sorted};
use super::proxy::{Kind, Loop, Programs, Proxy};
use super::traffic::{self, Run, SIZE, Servers, Traffic};

/// Minimum ratio of the balancer's forwarding rate to the plain loop's, if datagrams arrive in
/// batches.
const MIN_RATIO: f64 = 3.0;
/// The name of the plain loop.
const PLAIN_LOOP: &str = "recvfrom loop";

/// The cases, with the number of datagrams that clients send per system call.
const CASES: [(&str, usize); 2] = [("batches", 64), ("single datagrams", 1)];

/// The proxies to compare, Clearway's first.
const SUBJECTS: [(&str, Kind); 5] = [
    ("with prefaces", Kind::Balancer { has_preface: true, threads: 1 }),
    ("without prefaces", Kind::Balancer { has_preface: false, threads: 1 }),
    (PLAIN_LOOP, Kind::Loop(loop_with("recvfrom"))),
    ("recvmmsg loop", Kind::Loop(loop_with("recvmmsg"))),
    ("nginx", Kind::Nginx),
];

const fn loop_with(method: &'static str) -> Loop {
    Loop { method, work_us: 0, receive_buffer: None }
}

const fn is_ours(kind: Kind) -> bool {
    matches!(kind, Kind::Balancer { .. })
}

/// Selects a measured value of a run.
type Value = fn(&Run) -> f64;

/// The runs of one proxy in one case, one per round.
struct Series {
    case: &'static str,
    name: &'static str,
    kind: Kind,
    batch: usize,
    runs: Vec<Run>,
    /// Whether a run has failed; if so, there are no further runs.
    has_failed: bool,
}

/// Runs all proxies in each round. Each round starts with a different one.
pub(super) fn measure(programs: &Programs, rounds: u64, seconds: u64, results: &mut Results) {
    let mut all = all(programs.nginx.is_ok());
    results.conclusions.extend(left_out(programs));
    for round in 0..rounds {
        let count = all.len();
        for turn in 0..count {
            let series = &mut all[(turn + round as usize) % count];
            if series.has_failed {
                continue;
            }
            let traffic = Traffic { batch: series.batch, rate: None, seconds };
            let title = format!("{}, {}", series.case, series.name);
            match once(programs, series.kind, traffic) {
                Ok(run) => {
                    let (reached, loss) = (run.reached, run.loss());
                    eprintln!(
                        "xtask: {title}: {reached:.0} datagrams/s; {loss}; round {}",
                        round + 1
                    );
                    series.runs.push(run);
                }
                Err(error) => {
                    series.has_failed = true;
                    results.failures.push(format!("{title}: {error}"));
                }
            }
        }
    }
    report(&all, results);
}

fn all(has_nginx: bool) -> Vec<Series> {
    let subjects = SUBJECTS.into_iter().filter(|(_, kind)| has_nginx || *kind != Kind::Nginx);
    let subjects: Vec<_> = subjects.collect();
    let series = |(case, batch)| {
        let of_case = subjects.iter().map(move |(name, kind)| {
            let (name, kind) = (*name, *kind);
            Series { case, name, kind, batch, runs: Vec::new(), has_failed: false }
        });
        of_case.collect::<Vec<_>>()
    };
    CASES.into_iter().flat_map(series).collect()
}

/// Returns which proxies are skipped, and why.
fn left_out(programs: &Programs) -> Vec<String> {
    let others = "HAProxy and Envoy are not measured: Debian's HAProxy 2.6 does not forward \
        datagrams, and Debian does not package Envoy";
    programs.nginx.as_ref().err().cloned().into_iter().chain([others.to_owned()]).collect()
}

/// Runs a newly started proxy once, on its own core. Clients and servers share the other core.
pub(super) fn once(programs: &Programs, kind: Kind, traffic: Traffic) -> Result<Run, String> {
    let others = [CLIENT_CORE];
    let mut servers = Servers::start(&programs.bench, &others)?;
    let core = SERVER_CORE.to_string();
    let proxy = Proxy::start(kind, programs, &servers.addresses, "one", &core)?;
    let run = traffic::send(&programs.bench, traffic, &[proxy], &mut servers, &others)?;
    check(kind, &run)?;
    Ok(run)
}

/// Checks that the balancer has routed correctly.
pub(super) fn check(kind: Kind, run: &Run) -> Result<(), String> {
    let Run { misrouted, unreadable, prefaced, received, .. } = *run;
    if unreadable > 0 {
        return Err(format!("{unreadable} datagrams arrived that no client sent"));
    }
    let Kind::Balancer { has_preface, .. } = kind else { return Ok(()) };
    let expected = if has_preface { received } else { 0 };
    match (misrouted, prefaced == expected) {
        (0, true) => Ok(()),
        (0, false) => Err(format!("{prefaced} of {received} datagrams had a preface")),
        _ => Err(format!("{misrouted} of {received} datagrams reached the wrong server")),
    }
}

fn report(all: &[Series], results: &mut Results) {
    for ours in all.iter().filter(|series| is_ours(series.kind) && !series.runs.is_empty()) {
        let peers = all.iter().filter(|series| !is_ours(series.kind) && series.case == ours.case);
        for theirs in peers.filter(|series| !series.runs.is_empty()) {
            let row = row(ours, theirs);
            let ratio = row.ratio.median;
            if theirs.name == PLAIN_LOOP && ours.batch > 1 && ratio < MIN_RATIO {
                results.failures.push(format!(
                    "{}, {}: {ratio:.2} times as many datagrams as the {PLAIN_LOOP} with the same \
                     CPU time; expected at least {MIN_RATIO} times",
                    ours.case, ours.name
                ));
            }
            results.rows.push(row);
        }
    }
    results.conclusions.extend(all.iter().filter_map(conclusion));
}

fn row(ours: &Series, theirs: &Series) -> Row {
    let of_cpu = |series: &Series| values(series, |run| run.per_cpu_second);
    let (our_values, their_values) = (of_cpu(ours), of_cpu(theirs));
    let note = |series: &Series| {
        let (reached, used) = (middle(series, |run| run.reached), middle(series, used));
        format!("{reached:.0} datagrams/s with {:.0} % of a core", used * 100.0)
    };
    let more = [("clearway", ours), ("peer", theirs)].into_iter().flat_map(|(end, series)| {
        let figures: [(&str, Value); 7] = [
            ("datagrams_per_s", |run| run.reached),
            ("offered_per_s", |run| run.offered),
            ("core_percent", |run| used(run) * 100.0),
            ("lost_percent", |run| run.lost * 100.0),
            ("socket_drops", |run| run.drops.proxies as f64),
            ("server_socket_drops", |run| run.drops.servers as f64),
            ("machine_receive_buffer_errors", |run| run.drops.machine as f64),
        ];
        figures.map(|(name, value)| (format!("{end}_{name}"), middle(series, value)))
    });
    Row {
        case: format!("forwarding of {SIZE} bytes, {}", ours.case),
        place: String::new(),
        face: ours.name,
        peer: theirs.name,
        unit: "datagrams per CPU second".to_owned(),
        values: [&our_values, &their_values].map(|values| median(&sorted(values.clone()))),
        ratio: Ratio::of(&our_values, &their_values),
        digits: 0,
        notes: [note(ours), note(theirs)],
        more: more.collect(),
    }
}

/// Describes what happened to the datagrams that were sent.
fn conclusion(series: &Series) -> Option<String> {
    let last = series.runs.last()?;
    let Series { case, name, .. } = series;
    let (offered, reached) = (middle(series, |run| run.offered), middle(series, |run| run.reached));
    let name = if is_ours(series.kind) { format!("balancer, {name}") } else { (*name).to_owned() };
    Some(format!(
        "{case}, {name}: {reached:.0} of {offered:.0} datagrams/s, {:.1} per batch; {}",
        middle(series, |run| run.at_once),
        last.loss()
    ))
}

fn used(run: &Run) -> f64 {
    run.used.iter().sum()
}

fn values(series: &Series, value: Value) -> Vec<f64> {
    series.runs.iter().map(value).collect()
}

fn middle(series: &Series, value: Value) -> f64 {
    median(&sorted(values(series, value)))
}

#[cfg(test)]
mod tests {
    use super::super::traffic::tests::run;
    use super::*;

    const OURS: Kind = Kind::Balancer { has_preface: true, threads: 1 };

    fn measured(case: usize, subject: usize, rates: [f64; 3]) -> Series {
        let ((case, batch), (name, kind)) = (CASES[case], SUBJECTS[subject]);
        let runs = rates.map(run).into();
        Series { case, name, kind, batch, runs, has_failed: false }
    }

    #[test]
    fn each_case_has_each_subject() {
        assert_eq!(all(true).len(), CASES.len() * SUBJECTS.len());
        assert!(all(false).iter().all(|series| series.kind != Kind::Nginx));
    }

    #[test]
    fn the_balancer_is_compared_with_all_others_of_its_case() {
        let all = [
            measured(0, 0, [400.0, 350.0, 450.0]),
            measured(0, 2, [100.0, 100.0, 100.0]),
            measured(0, 3, [200.0, 200.0, 200.0]),
            measured(1, 2, [50.0, 50.0, 50.0]),
        ];
        let mut results = Results::default();
        report(&all, &mut results);
        let peers: Vec<_> = results.rows.iter().map(|row| row.peer).collect();
        assert_eq!(peers, ["recvfrom loop", "recvmmsg loop"]);
        assert_eq!(results.rows[0].ratio, Ratio { median: 4.0, least: 3.5, most: 4.5 });
        assert_eq!(results.rows[0].notes[0], "400 datagrams/s with 100 % of a core");
        let more = &results.rows[0].more;
        assert!(more.contains(&("clearway_lost_percent".to_owned(), 50.0)), "{more:?}");
        assert!(more.contains(&("peer_socket_drops".to_owned(), 7.0)), "{more:?}");
        assert!(results.failures.is_empty());
        assert_eq!(
            results.conclusions[0],
            "batches, balancer, with prefaces: 400 of 800 datagrams/s, 50.0 per batch; 50.0 % lost, \
             dropped by the full buffer of the proxy's socket"
        );
        assert_eq!(results.conclusions.len(), 4);
    }

    #[test]
    fn three_times_the_plain_loop_are_expected_of_batches() {
        let verdict = |case, peer| {
            let all = [measured(case, 1, [290.0; 3]), measured(case, peer, [100.0; 3])];
            let mut results = Results::default();
            report(&all, &mut results);
            results.failures
        };
        let failures = verdict(0, 2);
        assert!(failures[0].starts_with("batches, without prefaces: 2.90 times"), "{failures:?}");
        assert!(verdict(0, 3).is_empty() && verdict(1, 2).is_empty());
    }

    #[test]
    fn what_a_balancer_must_do() {
        let good = Run { prefaced: 200, ..run(100.0) };
        assert_eq!(check(OURS, &good), Ok(()));
        let error = |run: Run| check(OURS, &run).unwrap_err();
        assert_eq!(error(run(100.0)), "0 of 200 datagrams had a preface");
        let said = error(Run { misrouted: 5, ..good.clone() });
        assert_eq!(said, "5 of 200 datagrams reached the wrong server");
        assert!(error(Run { unreadable: 1, ..good }).contains("no client sent"));
        // The other proxies do not read connection IDs.
        assert_eq!(check(Kind::Nginx, &Run { misrouted: 5, ..run(100.0) }), Ok(()));
        let without = Kind::Balancer { has_preface: false, threads: 1 };
        assert_eq!(check(without, &run(100.0)), Ok(()));
    }
}
