//! Measures the cost per datagram of several links, in nanoseconds on this machine. The traffic is
//! a download in one direction and half as many small datagrams in the other, driven as in a
//! simulation.
//!
//!     cargo run --release -p clearway-network --example cost [NAME]
//!
//! If NAME is given, runs only the links whose names contain it. On a busy machine, compare the CPU
//! time of such runs instead.

use std::time::{Duration, Instant};

use clearway_network::{
    AckFilter, CoDel, Conditions, Datagram, Discipline, DualPi2, Ecn, Freezes, Host, Jitter, Link,
    LinkConfig, LossRule, Probability, QueueLimit, Reorder, Way, parse_rate,
};
use clearway_units::Timestamp;

const DATAGRAMS: u64 = 2_000_000;
/// The transmission time in nanoseconds of 1200 bytes at 100 Mbit/s.
const INTERVAL: u64 = 96_000;

fn main() {
    let rate = parse_rate("100mbit").ok();
    let plain = Conditions { delay: Duration::from_millis(15), ..Conditions::default() };
    let queue = QueueLimit { packets: Some(200), bytes: None };
    let slow = Conditions { rate, queue, ..plain.clone() };
    let with = |discipline| Conditions { discipline, ..slow.clone() };
    let loss = Probability::new(0.01).map(LossRule::random);
    let jitter = Jitter { range: Duration::from_millis(2), reorder_by_jitter: true };
    let likely = Probability::new(0.01).unwrap_or_default();
    let host = Host { service: Duration::from_micros(30), ..Host::default() };
    let freezes = Freezes {
        start: Duration::ZERO,
        period: Duration::from_millis(100),
        length: Duration::from_millis(10),
        count: None,
        spread: Duration::ZERO,
    };
    let rough = Conditions {
        jitter,
        reorder: Reorder { probability: likely, by: Duration::from_millis(1) },
        duplicate: likely,
        ack_filter: Some(AckFilter { keep_one_of: 4, smaller_than: 100 }),
        host: Some(host),
        freezes: Some(freezes),
        loss: loss.clone().into_iter().collect(),
        ..slow.clone()
    };
    let lossy = Conditions { loss: loss.into_iter().collect(), ..plain.clone() };
    measure("delay", &plain);
    measure("delay and loss", &lossy);
    measure("delay and rate, drop-tail", &slow);
    measure("delay and rate, CoDel", &with(Discipline::CoDel(CoDel::default())));
    measure("delay and rate, DualPI2", &with(Discipline::DualPi2(DualPi2::default())));
    measure("nearly everything", &rough);
}

fn measure(name: &str, conditions: &Conditions) {
    if std::env::args().nth(1).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let (to_server, to_client) = (conditions.clone(), conditions.clone());
    let mut link = Link::new(LinkConfig { to_server, to_client, ..LinkConfig::default() });
    let mut delivered = 0u64;
    let start = Instant::now();
    for number in 0..DATAGRAMS {
        let now = Timestamp::from_nanos(number * INTERVAL * 2 / 3);
        let (way, length) =
            if number % 3 == 2 { (Way::ToServer, 40) } else { (Way::ToClient, 1200) };
        while let Some(at) = link.deadline().filter(|at| *at <= now) {
            while let Some(delivery) = link.poll(at) {
                delivered += 1;
                link.recycle(delivery.datagram.payload);
            }
        }
        let mut payload = link.buffer();
        payload.resize(length, 0);
        link.submit(now, way, Datagram { payload, ecn: Ecn::Ect0, flow: 0 });
    }
    let cost = start.elapsed().as_nanos() / u128::from(DATAGRAMS);
    println!("{cost:>5} ns  {name} ({delivered} delivered)");
}
