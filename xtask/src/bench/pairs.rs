//! Pairs of servers and clients. Each fast endpoint is also measured with other endpoints, so that
//! a slow endpoint does not hide its speed.

use std::collections::{BTreeMap, BTreeSet};

use super::measured::{Latency, Run, Unit};
use super::place::{End, Problem};
use super::report::{RATIO_LIMIT, Ratio, Results, Row};
use super::stacks::{Stack, Stacks};
use super::{median, sorted};

/// The plan: the measurements to make.
pub(super) struct Plan<'a> {
    pub(super) cases: Vec<Case<'a>>,
    pub(super) rounds: usize,
    pub(super) unit: Unit,
}

pub(super) struct Case<'a> {
    pub(super) name: String,
    pub(super) stacks: &'a Stacks,
}

/// The case and pair of a run, as indices into the plan's cases and into the case's servers and
/// clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    case: usize,
    server: usize,
    client: usize,
}

type Runs = BTreeMap<Key, Vec<Run>>;

/// The meaning of a result line: the endpoint that is compared, and the one at the other end.
struct Comparison {
    case: usize,
    place: String,
    face: &'static str,
    peer: &'static str,
    /// The endpoint that is compared; `None` for both.
    end: Option<End>,
}

impl Plan<'_> {
    /// Runs every case with every pair, once per round. Pairs that do not support a case or have
    /// failed are reported and then skipped. `measure` is called with the index of the case.
    pub(super) fn run(
        &self,
        measure: impl Fn(usize, &Stack, &Stack) -> Result<Run, Problem>,
    ) -> Results {
        let keys = self.keys();
        let (mut runs, mut left_out) = (Runs::new(), BTreeSet::new());
        let mut failures = Vec::new();
        for round in 0..self.rounds {
            for (place, key) in self.in_turn(&keys, round).into_iter().enumerate() {
                if left_out.contains(&key) {
                    continue;
                }
                let coming = keys.len() * (self.rounds - round) - place - 1;
                let (server, client) = self.pair(key);
                let name = &self.cases[key.case].name;
                match measure(key.case, server, client) {
                    Ok(run) => {
                        self.say(round, key, &run, coming);
                        runs.entry(key).or_default().push(run);
                    }
                    Err(Problem::NotOffered(end)) => {
                        let who = if end == End::Server { server } else { client };
                        eprintln!("xtask: {}: not supported by {} as a {end}", name, who.title());
                        let same = |other: &&Key| {
                            other.case == key.case
                                && match end {
                                    End::Server => other.server == key.server,
                                    End::Client => other.client == key.client,
                                }
                        };
                        left_out.extend(keys.iter().filter(same));
                    }
                    Err(Problem::Failed(error)) => {
                        let failure =
                            format!("{name}, {} with {}: {error}", client.title(), server.title());
                        eprintln!("xtask: skipped from now on: {failure}");
                        failures.push(failure);
                        left_out.insert(key);
                    }
                }
            }
        }
        Results { rows: self.rows(&runs), failures, ..Results::default() }
    }

    /// Returns the keys of all pairs in all cases.
    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for (case, Case { stacks, .. }) in self.cases.iter().enumerate() {
            for (server, serving) in stacks.servers.iter().enumerate() {
                for (client, asking) in stacks.clients.iter().enumerate() {
                    if stacks.is_pair(serving, asking) {
                        keys.push(Key { case, server, client });
                    }
                }
            }
        }
        keys
    }

    /// Returns the order of a round. Since the machine is cooler in the first run of a case, the
    /// servers take turns.
    fn in_turn(&self, keys: &[Key], round: usize) -> Vec<Key> {
        let mut keys = keys.to_vec();
        let turn = |key: &Key| {
            let count = self.cases[key.case].stacks.servers.len();
            (key.case, (key.server + count - round % count) % count)
        };
        keys.sort_by_key(turn);
        keys
    }

    fn pair(&self, key: Key) -> (&Stack, &Stack) {
        let stacks = self.cases[key.case].stacks;
        (&stacks.servers[key.server], &stacks.clients[key.client])
    }

    fn say(&self, round: usize, key: Key, run: &Run, coming: usize) {
        let (server, client) = self.pair(key);
        let Unit { rate, digits, cpu, .. } = self.unit;
        eprintln!(
            "xtask: round {} of {}, {}, {} with {}: {:.digits$} {rate}; {:.2} and {:.2} {cpu} at client and server; at most \
             {coming} runs left",
            round + 1,
            self.rounds,
            self.cases[key.case].name,
            client.title(),
            server.title(),
            run.per_second,
            run.cpu[1],
            run.cpu[0],
        );
        if let Some(Latency { rate, microseconds: [p50, p99] }) = run.latency {
            eprintln!("xtask: at {rate:.0}/s: p50 {p50:.0} us, p99 {p99:.0} us");
        }
    }

    /// Returns the rows that compare Clearway with each peer: as a server with the same client, as
    /// a client with the same server, and at both ends.
    fn rows(&self, runs: &Runs) -> Vec<Row> {
        let mut rows = Vec::new();
        for (&key, ours) in runs {
            let stacks = self.cases[key.case].stacks;
            let (server, client) = self.pair(key);
            for (peer_server, peer) in stacks.servers.iter().enumerate() {
                if peer.is_ours() {
                    continue;
                }
                let peer_client = stacks.clients.iter().position(|it| it.name == peer.name);
                let mut compare = |end, place, face, theirs: Option<Key>| {
                    let theirs = theirs.and_then(|theirs| runs.get(&theirs));
                    if let (Some(face), Some(theirs)) = (face, theirs) {
                        let case = key.case;
                        let comparison = Comparison { case, place, face, peer: peer.name, end };
                        self.compare(&mut rows, &comparison, ours, theirs);
                    }
                };
                let as_server = Key { server: peer_server, ..key };
                let as_client = peer_client.map(|client| Key { client, ..key });
                let both = peer_client.map(|client| Key { client, ..as_server });
                let place = format!("server of {}", client.name);
                compare(Some(End::Server), place, server.face, Some(as_server));
                // Clearway's servers differ in their API, even if its clients do not.
                let place = format!("client of {}", server.title());
                compare(Some(End::Client), place, client.face, as_client);
                if client.is_ours() {
                    compare(None, "both ends".to_owned(), server.face, both);
                }
            }
        }
        rows
    }

    fn compare(&self, rows: &mut Vec<Row>, comparison: &Comparison, ours: &[Run], theirs: &[Run]) {
        rows.push(self.rates(comparison, ours, theirs));
        let latencies =
            |runs: &[Run]| runs.iter().map(|run| run.latency).collect::<Option<Vec<_>>>();
        if let (Some(ours), Some(theirs)) = (latencies(ours), latencies(theirs)) {
            for (index, name) in ["p50", "p99"].into_iter().enumerate() {
                rows.push(self.latencies(comparison, index, name, &ours, &theirs));
            }
        }
    }

    fn rates(&self, comparison: &Comparison, ours: &[Run], theirs: &[Run]) -> Row {
        let of = |metric: &dyn Fn(&Run) -> f64| {
            [ours, theirs].map(|runs| runs.iter().map(metric).collect::<Vec<f64>>())
        };
        let rates = of(&|run| run.per_second);
        let cpu = of(&|run| match comparison.end {
            Some(End::Server) => run.cpu[0],
            Some(End::Client) => run.cpu[1],
            None => run.cpu[0] + run.cpu[1],
        });
        let cpu = cpu.map(|values| median(&sorted(values)));
        let Unit { rate, digits, cpu: cpu_unit, cpu_key, cpu_scale } = self.unit;
        let mut more = vec![
            (format!("clearway_cpu_{cpu_key}"), cpu[0]),
            (format!("peer_cpu_{cpu_key}"), cpu[1]),
        ];
        // If Clearway is the endpoint that is compared, the other one uses this much of its only
        // core. Using the whole core, it cannot do more than this.
        let limits = ours.iter().zip(theirs).filter_map(|(run, theirs)| {
            let other = match comparison.end? {
                End::Server => run.cpu[1],
                End::Client => run.cpu[0],
            };
            Some(cpu_scale / other / theirs.per_second)
        });
        let limits = sorted(limits.collect());
        if !limits.is_empty() {
            more.push((RATIO_LIMIT.to_owned(), median(&limits)));
        }
        Row {
            case: self.cases[comparison.case].name.clone(),
            place: comparison.place.clone(),
            face: comparison.face,
            peer: comparison.peer,
            unit: rate.to_owned(),
            ratio: Ratio::of(&rates[0], &rates[1]),
            values: rates.map(|values| median(&sorted(values))),
            digits,
            notes: cpu.map(|cpu| format!("{cpu:.2} {cpu_unit}")),
            more,
        }
    }

    fn latencies(
        &self,
        comparison: &Comparison,
        index: usize,
        name: &str,
        ours: &[Latency],
        theirs: &[Latency],
    ) -> Row {
        let of = |metric: &dyn Fn(&Latency) -> f64| {
            [ours, theirs].map(|runs| runs.iter().map(metric).collect::<Vec<f64>>())
        };
        let taken = of(&|run| run.microseconds[index]);
        let rates = of(&|run| run.rate).map(|values| median(&sorted(values)));
        let case = &self.cases[comparison.case].name;
        Row {
            case: format!("{case}, {name} latency at half of the rate"),
            place: comparison.place.clone(),
            face: comparison.face,
            peer: comparison.peer,
            unit: "us".to_owned(),
            ratio: Ratio::of(&taken[0], &taken[1]),
            values: taken.map(|values| median(&sorted(values))),
            digits: 0,
            notes: rates.map(|rate| format!("at {rate:.0}/s")),
            more: vec![("clearway_rate".to_owned(), rates[0]), ("peer_rate".to_owned(), rates[1])],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;

    use super::super::stacks::tests::peer;
    use super::*;

    const UNIT: Unit =
        Unit { rate: "requests/s", digits: 0, cpu: "us", cpu_key: "us", cpu_scale: 1e6 };

    fn plan(stacks: &Stacks, rounds: usize) -> Plan<'_> {
        let case = |name: &str| Case { name: name.to_owned(), stacks };
        Plan { cases: vec![case("small"), case("large")], rounds, unit: UNIT }
    }

    /// Returns a run in which Clearway does all work twice as fast.
    fn measured(server: &Stack, client: &Stack) -> Run {
        let speed = |stack: &Stack| if stack.is_ours() { 2.0 } else { 1.0 };
        let latency = Some(Latency { rate: 1.0, microseconds: [100.0, 200.0] });
        Run { per_second: speed(server) * speed(client), cpu: [1.0, 3.0], latency }
    }

    fn titles(results: &Results, case: &str) -> Vec<String> {
        let rows = results.rows.iter().filter(|row| row.case == case);
        rows.map(|row| format!("{} ({}) / {}", row.place, row.face, row.peer)).collect()
    }

    #[test]
    fn each_row_has_the_same_other_end() {
        let stacks = Stacks::http3(Path::new(""), &[peer("quinn")]);
        let results = plan(&stacks, 2).run(|_, server, client| Ok(measured(server, client)));
        let expected = [
            "server of clearway (in the shard) / quinn",
            "client of clearway, in the shard (async) / quinn",
            "both ends (in the shard) / quinn",
            "server of quinn (in the shard) / quinn",
            "server of clearway (async) / quinn",
            "client of clearway, async (async) / quinn",
            "both ends (async) / quinn",
            "server of quinn (async) / quinn",
            "client of quinn (async) / quinn",
        ];
        assert_eq!(titles(&results, "small"), expected);
        assert_eq!(titles(&results, "large, p99 latency at half of the rate"), expected);
        let ratios: Vec<f64> = results.rows.iter().map(|row| row.ratio.median).collect();
        assert_eq!(ratios[..9], [2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0]);
        let cpu = |row: usize| results.rows[row].more[0].clone();
        assert_eq!(cpu(0), ("clearway_cpu_us".to_owned(), 1.0));
        assert_eq!(cpu(3).1, 3.0);
        assert_eq!(cpu(6).1, 4.0);
        // The client needs 3 us of CPU time and the server 1 us, and the peer reaches 2 operations
        // per second in either role.
        let limit = |row: usize| results.rows[row].more.get(2).map(|(_, limit)| limit.round());
        assert_eq!([0, 3, 6].map(limit), [Some(166_667.0), Some(500_000.0), None]);
    }

    #[test]
    fn what_is_not_offered_is_tried_once() {
        let stacks = Stacks::http3(Path::new(""), &[peer("quinn"), peer("tokio-quiche")]);
        let tried = RefCell::new(0);
        let results = plan(&stacks, 3).run(|case, server, client| {
            if client.name == "tokio-quiche" {
                *tried.borrow_mut() += 1;
                return Err(Problem::NotOffered(End::Client));
            }
            match (case, server.name) {
                (1, "quinn") => Err(Problem::NotOffered(End::Server)),
                _ => Ok(measured(server, client)),
            }
        });
        assert_eq!(*tried.borrow(), 2);
        assert!(results.failures.is_empty());
        let only_server = |title: &String| title.contains("tokio-quiche");
        let found: Vec<_> = titles(&results, "small").into_iter().filter(only_server).collect();
        let expected = [
            "server of clearway (in the shard) / tokio-quiche",
            "server of clearway (async) / tokio-quiche",
        ];
        assert_eq!(found, expected);
        let large = titles(&results, "large");
        assert!(large.iter().all(|title| !title.starts_with("server of quinn")), "{large:?}");
    }

    #[test]
    fn a_pair_that_fails_does_not_end_the_others() {
        let stacks = Stacks::raw(Path::new(""), &[peer("quinn")]);
        let tried = RefCell::new(0);
        let results = plan(&stacks, 3).run(|case, server, client| {
            if case == 0 && !server.is_ours() && !client.is_ours() {
                *tried.borrow_mut() += 1;
                return Err(Problem::Failed("it crashed".to_owned()));
            }
            Ok(measured(server, client))
        });
        assert_eq!(*tried.borrow(), 1);
        assert_eq!(results.failures, ["small, quinn with quinn: it crashed"]);
        assert!(!titles(&results, "small").contains(&"both ends (async) / quinn".to_owned()));
        assert!(titles(&results, "large").contains(&"both ends (async) / quinn".to_owned()));
    }

    #[test]
    fn servers_take_turns() {
        let stacks = Stacks::http3(Path::new(""), &[peer("quinn")]);
        let plan = plan(&stacks, 2);
        let first = |round| plan.in_turn(&plan.keys(), round)[0].server;
        assert_eq!([0, 1, 2, 3].map(first), [0, 1, 2, 0]);
    }
}
