//! The cost of watching a thousand sockets.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use clearway_doctor::{Collector, Reading};
use rustix::time::{ClockId, clock_gettime};

const SOCKETS: usize = 1000;
/// Default interval between snapshots of `clearway doctor`, if snapshots are cheap enough.
const INTERVAL: Duration = Duration::from_millis(100);
/// Maximum cost: a hundredth of a core.
const SHARE: u32 = 100;

/// Returns the CPU time of this thread, which excludes other tests.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// This counts the CPU time of the collecting thread, including one-time work at the beginning.
#[test]
#[ignore = "for optimised code: cargo test --release -p clearway-doctor --test cost -- --ignored --nocapture"]
fn a_thousand_sockets_are_watched_with_less_than_a_hundredth_of_a_core() {
    let sockets: Vec<_> = (0..SOCKETS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let mut collector = Collector::new();
    let (begun, before) = (Instant::now(), cpu_time());
    let mut snapshots = 0_u32;
    while begun.elapsed() < Duration::from_secs(10) {
        let snapshot = collector.collect();
        let Reading::Seen(seen) = &snapshot.sockets else { panic!("sockets can be read") };
        assert!(seen.len() >= sockets.len());
        snapshots += 1;
        std::thread::sleep(INTERVAL.max(collector.least_interval()));
    }
    let used = cpu_time() - before;
    let share = used.as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("{SOCKETS} sockets, {snapshots} snapshots: {:.2} % of a core", 100.0 * share);
    println!("{:?} for each snapshot", used / snapshots);
    assert!(share < 1.0 / f64::from(SHARE), "{share}");
}
