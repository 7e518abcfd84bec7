//! Every server with every client, so that a slow one on one side does not hide a fast one on the other.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Stack, Stacks, median, round, sorted};

/// The result of one run.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) per_second: f64,
    /// Microseconds of processor time for each operation: of the server, and of the client.
    pub(super) cpu: [f64; 2],
    /// What operations take at half of this rate, if that was measured.
    pub(super) latency: Option<Latency>,
}

/// What operations take that are made at a fixed rate, counted from when they were due.
#[derive(Clone, Copy)]
pub(super) struct Latency {
    /// Operations per second.
    pub(super) rate: f64,
    /// The median and the 99th percentile.
    pub(super) microseconds: [f64; 2],
}

/// Which pair ran which case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The place of the case among all.
    case: usize,
    server: &'static str,
    client: &'static str,
}

/// What is measured, and how it is reported.
pub(super) struct Plan<'a> {
    pub(super) stacks: &'a Stacks,
    /// The names of the cases.
    pub(super) cases: Vec<String>,
    pub(super) peers: &'a [&'static str],
    pub(super) rounds: usize,
    /// What is counted, such as "requests".
    pub(super) operations: &'static str,
    pub(super) json: bool,
}

/// A line of the result: Clearway and a peer at the same place.
struct Row<'a> {
    case: &'a str,
    /// Which end is compared, and what the other end is.
    title: String,
    face: &'static str,
    /// The compared end in [`Run::cpu`].
    end: usize,
    peer: &'static str,
}

impl Plan<'_> {
    /// Runs every case with every pair as often as there are rounds, and reports.
    pub(super) fn run(
        &self,
        measure: impl Fn(usize, &Stack, &Stack) -> Result<Run, String>,
    ) -> Result<(), String> {
        let servers = &self.stacks.servers;
        let mut runs: BTreeMap<Key, Vec<Run>> = BTreeMap::new();
        for round in 0..self.rounds {
            for (case, name) in self.cases.iter().enumerate() {
                // The first run of a round has the cooler machine, so the servers take turns.
                for turn in 0..servers.len() {
                    let server = &servers[(turn + round) % servers.len()];
                    for client in &self.stacks.clients {
                        let run = measure(case, server, client)?;
                        eprintln!(
                            "xtask: round {} of {}, {name}, {} with {}: {:.0} {}/s; {:.1} and {:.1} us of processor time \
                             at client and server",
                            round + 1,
                            self.rounds,
                            client.name,
                            server.name,
                            run.per_second,
                            self.operations,
                            run.cpu[1],
                            run.cpu[0],
                        );
                        if let Some(Latency { rate, microseconds: [p50, p99] }) = run.latency {
                            eprintln!("xtask: at {rate:.0}/s: p50 {p50:.0} us, p99 {p99:.0} us");
                        }
                        let key = Key { case, server: server.name, client: client.name };
                        runs.entry(key).or_default().push(run);
                    }
                }
            }
        }
        self.report(&runs);
        Ok(())
    }

    /// Prints Clearway beside each peer: as a server of the same client, and as a client of the same server.
    fn report(&self, runs: &BTreeMap<Key, Vec<Run>>) {
        for (key, ours) in runs {
            let case = &self.cases[key.case];
            for peer in self.peers.iter().copied() {
                if let Some(face) = key.server.strip_prefix("clearway, ") {
                    let title = format!("server of {}", key.client);
                    let row = Row { case, title, face, end: 0, peer };
                    self.compare(&row, ours, &runs[&Key { server: peer, ..*key }]);
                }
                // Some peers are only servers.
                let theirs = runs.get(&Key { client: peer, ..*key });
                if let (true, Some(theirs)) = (key.client == "clearway", theirs) {
                    let title = format!("client of {}", key.server);
                    let row = Row { case, title, face: "async", end: 1, peer };
                    self.compare(&row, ours, theirs);
                }
            }
        }
    }

    fn compare(&self, row: &Row<'_>, ours: &[Run], theirs: &[Run]) {
        self.compare_rates(row, ours, theirs);
        let latencies =
            |runs: &[Run]| runs.iter().map(|run| run.latency).collect::<Option<Vec<_>>>();
        if let (Some(ours), Some(theirs)) = (latencies(ours), latencies(theirs)) {
            for (index, name) in ["p50", "p99"].into_iter().enumerate() {
                self.compare_latencies(row, index, name, &ours, &theirs);
            }
        }
    }

    fn compare_latencies(
        &self,
        row: &Row<'_>,
        index: usize,
        name: &str,
        ours: &[Latency],
        theirs: &[Latency],
    ) {
        let of = |runs: &[Latency], metric: &dyn Fn(&Latency) -> f64| {
            median(&sorted(runs.iter().map(metric).collect()))
        };
        let taken = |run: &Latency| run.microseconds[index];
        let ratio = |(ours, theirs): (&Latency, &Latency)| taken(ours) / taken(theirs);
        let ratios = sorted(ours.iter().zip(theirs).map(ratio).collect());
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let rates = [ours, theirs].map(|runs| of(runs, &|run| run.rate));
        let taken = [ours, theirs].map(|runs| of(runs, &taken));
        let Row { case, title, face, peer, .. } = row;
        if self.json {
            let object = json!({
                "case": format!("{case}, {name} latency at half of the rate, {title}"),
                "face": face,
                "clearway": round(taken[0]),
                "peer": peer,
                "peer_value": round(taken[1]),
                "unit": "us",
                "ratio": round(median(&ratios)),
                "ratio_min": round(least),
                "ratio_max": round(most),
                "clearway_rate": round(rates[0]),
                "peer_rate": round(rates[1]),
            });
            println!("{object}");
        } else {
            println!(
                "{case}, {name} latency, {title}, {face}: clearway {:.0} us (at {:.0}/s), {peer} {:.0} us (at {:.0}/s), \
                 ratio {:.2} ({least:.2} to {most:.2})",
                taken[0],
                rates[0],
                taken[1],
                rates[1],
                median(&ratios),
            );
        }
    }

    fn compare_rates(&self, row: &Row<'_>, ours: &[Run], theirs: &[Run]) {
        let ratio = |(ours, theirs): (&Run, &Run)| ours.per_second / theirs.per_second;
        let ratios = sorted(ours.iter().zip(theirs).map(ratio).collect());
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let rate = |runs: &[Run]| median(&sorted(runs.iter().map(|run| run.per_second).collect()));
        let cpu = |runs: &[Run]| median(&sorted(runs.iter().map(|run| run.cpu[row.end]).collect()));
        let Row { case, title, face, peer, .. } = row;
        if self.json {
            let object = json!({
                "case": format!("{case}, {title}"),
                "face": face,
                "clearway": round(rate(ours)),
                "peer": peer,
                "peer_value": round(rate(theirs)),
                "unit": format!("{}/s", self.operations),
                "ratio": round(median(&ratios)),
                "ratio_min": round(least),
                "ratio_max": round(most),
                "clearway_cpu_us": round(cpu(ours)),
                "peer_cpu_us": round(cpu(theirs)),
            });
            println!("{object}");
        } else {
            println!(
                "{case}, {title}, {face}: clearway {:.0}/s ({:.1} us), {peer} {:.0}/s ({:.1} us), ratio {:.2} ({least:.2} to \
                 {most:.2})",
                rate(ours),
                cpu(ours),
                rate(theirs),
                cpu(theirs),
                median(&ratios),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_only_a_server_is_reported_as_one() {
        let stacks = Stacks { servers: Vec::new(), clients: Vec::new() };
        let plan = Plan {
            stacks: &stacks,
            cases: vec!["handshakes".to_owned()],
            peers: &["peer"],
            rounds: 1,
            operations: "handshakes",
            json: true,
        };
        let latency = Some(Latency { rate: 1.0, microseconds: [100.0, 200.0] });
        let run = Run { per_second: 2.0, cpu: [1.0, 1.0], latency };
        let by_clearway = |server| (Key { case: 0, server, client: "clearway" }, vec![run]);
        plan.report(&["clearway, async", "peer"].map(by_clearway).into());
    }
}
