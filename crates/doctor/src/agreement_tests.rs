//! Compares the doctor's verdicts with the true losses in the lab's model of a host, for the same
//! traffic.

use std::collections::BTreeMap;
use std::time::Duration;

use clearway_network::{Conditions, Datagram, Ecn, Host, Link, LinkConfig, QueueLimit, Way};
use clearway_units::{Random, Timestamp};

use crate::testing::{CHARGE, Parts, STEP, host};
use crate::{
    Cause, Certainty, Missing, Outcome, Reading, RunState, Snapshot, Starvation, Verdict, diagnose,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Truth {
    Healthy,
    Rate,
    Burst,
    Starved,
}

/// A run: the arrival times of datagrams, and the host that receives them.
struct Run {
    truth: Truth,
    arrivals: Vec<u64>,
    host: Host,
    /// Number of datagrams that the socket's receive buffer can hold.
    room: u64,
}

const SNAPSHOTS: u64 = 31;
const END: u64 = (SNAPSHOTS - 1) * STEP;

fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low + (high - low) * random.fraction()
}

/// Returns random arrival times, `rate` per second.
fn steady(random: &mut Random, rate: f64) -> Vec<u64> {
    let (mut at, mut all) = (0.0, Vec::new());
    loop {
        at += -(1.0 - random.fraction()).ln() / rate * 1e9;
        if at >= END as f64 {
            return all;
        }
        all.push(at as u64);
    }
}

/// Returns bursts of `size` datagrams 10 us apart, every `period` seconds.
fn bursts(random: &mut Random, size: u64, period: f64) -> Vec<u64> {
    let mut all = Vec::new();
    let mut at = random.fraction() * period * 1e9;
    while at < END as f64 {
        all.extend((0..size).map(|place| at as u64 + place * 10_000));
        at += period * 1e9 * between(random, 0.9, 1.1);
    }
    all.sort_unstable();
    all
}

fn run(seed: u64) -> Run {
    let mut random = Random::from_number(seed);
    let truth = [Truth::Healthy, Truth::Rate, Truth::Burst, Truth::Starved][(seed % 4) as usize];
    let room = 40 + random.below(160);
    let rate = between(&mut random, 800.0, 3_000.0);
    let seconds = Duration::from_secs_f64;
    let mut host = Host {
        buffer: QueueLimit { packets: None, bytes: Some(room * CHARGE) },
        ..Host::default()
    };
    let arrivals = match truth {
        Truth::Healthy => {
            host.service = seconds(between(&mut random, 0.05, 0.7) / rate);
            steady(&mut random, rate)
        }
        Truth::Rate => {
            host.service = seconds(between(&mut random, 1.03, 3.0) / rate);
            host.batch = 1 + random.below(32) as usize;
            steady(&mut random, rate)
        }
        Truth::Burst => {
            let size = room / 2 + random.below(3 * room);
            let period = between(&mut random, 0.05, 0.6);
            host.service = seconds(between(&mut random, 0.02, 0.9) * period / size as f64);
            bursts(&mut random, size, period)
        }
        // Before each run, the thread waits for a CPU. It then reads all queued datagrams.
        Truth::Starved => {
            host.batch_service = seconds(between(&mut random, 0.5, 4.0) * room as f64 / rate);
            host.service = seconds(between(&mut random, 0.02, 0.8) / rate);
            host.batch = usize::MAX;
            steady(&mut random, rate)
        }
    };
    Run { truth, arrivals, host, room }
}

/// The state of the model's thread, reconstructed from its input and output.
#[derive(Default)]
struct Thread {
    /// Number of datagrams that the thread has read and not yet processed.
    batch: u64,
    reads: u64,
    /// Time at which the thread last began to wait for a CPU, and the total of its previous waits.
    waits_from: Option<u64>,
    waited: u64,
    worked: u64,
}

impl Thread {
    fn begin(&mut self, now: u64, datagrams: u64) {
        self.batch = datagrams;
        self.reads += datagrams;
        self.waits_from = Some(now);
    }

    /// Returns the total time that the thread has waited for a CPU by `now`, if each wait takes
    /// `wait`.
    fn waited(&self, now: u64, wait: u64) -> u64 {
        self.waited + self.waits_from.map_or(0, |from| (now - from).min(wait))
    }

    fn settle(&mut self, wait: u64) {
        if self.waits_from.take().is_some() {
            self.waited += wait;
        }
    }
}

/// Runs the model. Returns snapshots of the kernel counters, taken every 100 ms, and how many
/// datagrams the model dropped.
fn simulate(run: &Run) -> (Vec<Snapshot>, u64) {
    let to_server =
        Conditions { host: Some(run.host), overhead: CHARGE as u16, ..Conditions::default() };
    let mut link = Link::new(LinkConfig { to_server, ..LinkConfig::default() });
    let (mut thread, mut snapshots) = (Thread::default(), Vec::new());
    let wait = run.host.batch_service.as_nanos() as u64;
    let service = run.host.service.as_nanos() as u64;
    let mut arrivals = run.arrivals.iter().copied().peekable();
    for sample in (0..SNAPSHOTS).map(|place| place * STEP) {
        loop {
            let arrival = arrivals.peek().copied().filter(|at| *at <= sample);
            let done = link.deadline().map(|at| at.as_nanos()).filter(|at| *at <= sample);
            match (arrival, done) {
                (Some(arrival), done) if done.is_none_or(|done| arrival < done) => {
                    arrivals.next();
                    let now = Timestamp::from_nanos(arrival);
                    let datagram = Datagram { payload: Vec::new(), ecn: Ecn::NotEct, flow: 0 };
                    link.submit(now, Way::ToServer, datagram);
                    while link.poll(now).is_some() {}
                    if thread.batch == 0 {
                        thread.begin(arrival, 1);
                    }
                }
                (_, Some(done)) => {
                    while link.poll(Timestamp::from_nanos(done)).is_some() {
                        thread.settle(wait);
                        thread.worked += service;
                        thread.batch -= 1;
                        if thread.batch == 0 {
                            let queued = link.counters().to_server.in_pipe;
                            let batch = queued.min(run.host.batch.max(1) as u64);
                            if batch > 0 {
                                thread.begin(done, batch);
                            }
                        }
                    }
                }
                (_, None) => break,
            }
        }
        snapshots.push(snapshot(run, &link, &thread, (sample, wait)));
    }
    (snapshots, link.counters().to_server.dropped_socket_buffer)
}

/// Returns a snapshot with the values that the kernel would have counted.
fn snapshot(run: &Run, link: &Link, thread: &Thread, (now, wait): (u64, u64)) -> Snapshot {
    let counters = &link.counters().to_server;
    let mut snapshot = host();
    snapshot.taken += now;
    let mut parts = Parts(&mut snapshot);
    parts.traffic(thread.reads);
    let queued = counters.in_pipe - thread.batch;
    parts.ip("InReceives", queued);
    parts.ip("InDelivers", queued);
    parts.overflow(counters.dropped_socket_buffer);
    parts.socket().receive_queue = queued * CHARGE;
    parts.socket().receive_buffer = Some(run.room * CHARGE);
    let is_busy = thread.batch > 0;
    let state = if is_busy { RunState::Runnable } else { RunState::Sleeping };
    *parts.thread() = crate::Thread {
        state,
        ran: thread.worked,
        waited: thread.waited(now, wait),
        ..parts.thread().clone()
    };
    snapshot
}

/// Hides the parts that an unprivileged user cannot see.
fn hide(snapshots: &mut [Snapshot]) {
    for it in snapshots {
        let right = || Missing::Right("CAP_NET_ADMIN".to_owned());
        it.processes = Reading::Missing(right());
        it.drop_reasons = Reading::Missing(right());
        if let Reading::Seen(sockets) = &mut it.sockets {
            for socket in sockets.values_mut() {
                socket.owners.clear();
                socket.receive_buffer = None;
            }
        }
    }
}

/// Returns whether the loss is above 1 packet in 1,000 and 1 per second.
fn is_above_floor(run: &Run, dropped: u64) -> bool {
    dropped * 1_000 >= run.arrivals.len() as u64 && dropped * 1_000_000_000 >= END
}

fn called(verdict: &Verdict) -> &'static str {
    match verdict.findings.first().map(|it| &it.cause) {
        None if verdict.outcome == Outcome::NoLoss => "no loss",
        None => "unknown",
        Some(Cause::Rate(_)) => "rate",
        Some(Cause::Burst(_)) => "burst",
        Some(Cause::Starved(_, Starvation::CpuPressure(_))) => "starved",
        Some(_) => "other",
    }
}

#[test]
fn the_doctor_says_of_a_thousand_hosts_what_the_model_knows() {
    let mut matrix: BTreeMap<(bool, Truth, &str), (u64, u64)> = BTreeMap::new();
    let (mut right, mut all) = ([0_u64; 2], [0_u64; 2]);
    for seed in 0..1_000 {
        let run = run(seed);
        let (mut snapshots, dropped) = simulate(&run);
        let is_hidden = seed % 5 == 4;
        // Uses only some of the snapshots: a real collector may take fewer.
        let mut place = 0;
        snapshots.retain(|_| {
            place += 1;
            (place - 1) % [1, 1, 2, 5][(seed / 4 % 4) as usize] == 0
        });
        if is_hidden {
            hide(&mut snapshots);
        }
        let verdict = diagnose(&snapshots);
        let truth = if dropped == 0 { Truth::Healthy } else { run.truth };
        let expected = ["no loss", "rate", "burst", "starved"][truth as usize];
        let called = called(&verdict);
        let is_loss = is_above_floor(&run, dropped);
        let expected_outcome = if is_loss { Outcome::Loss } else { Outcome::NoLoss };
        assert_eq!(verdict.outcome, expected_outcome, "seed {seed}: {verdict}");
        let found: u64 = verdict.findings.iter().map(|it| it.lost).sum();
        assert_eq!(found, dropped, "seed {seed}: {verdict}");
        let is_certain =
            verdict.findings.first().is_some_and(|it| it.certainty == Certainty::Certain);
        assert!(called == expected || !is_certain, "seed {seed}, {truth:?}: {verdict}");
        let cell = matrix.entry((is_hidden, truth, called)).or_default();
        cell.0 += 1;
        cell.1 += u64::from(is_certain);
        all[usize::from(is_hidden)] += 1;
        right[usize::from(is_hidden)] += u64::from(called == expected);
    }
    for ((is_hidden, truth, called), (count, certain)) in &matrix {
        let rights = if *is_hidden { "without rights" } else { "with rights" };
        println!("{rights}: {truth:?} called {called}: {count}, of which certain {certain}");
    }
    println!("right: {right:?} of {all:?}");
    assert!(right[0] * 100 >= all[0] * 95, "{matrix:?}");
}
