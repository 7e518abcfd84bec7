//! Counters of a namespace, sampled every few milliseconds while a proxy runs in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use clearway_namespaces::Namespace;

/// The sampling interval.
pub(super) const INTERVAL: Duration = Duration::from_millis(5);

/// The counters at one point in time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sample {
    at: Duration,
    /// The UDP counters `InDatagrams`, `InErrors` and `RcvbufErrors`.
    udp: [u64; 3],
    /// Datagrams dropped by the sockets on the port.
    drops: u64,
}

/// A sampler that runs until stopped.
pub(super) struct Sampler {
    thread: Option<JoinHandle<Result<Vec<Sample>, String>>>,
    is_ended: Arc<AtomicBool>,
    began: Instant,
}

impl Sampler {
    /// Starts sampling a namespace, including the sockets on one of its ports.
    pub(super) fn start(namespace: &Namespace, port: u16) -> Self {
        let folder = PathBuf::from(format!("/proc/{}/net", namespace.process()));
        let (is_ended, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let of_thread = is_ended.clone();
        let thread = spawn(move || {
            let read = |name: &str| {
                let path = folder.join(name);
                std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))
            };
            let mut samples = Vec::new();
            while !of_thread.load(Ordering::Relaxed) {
                let (snmp, sockets) = (read("snmp")?, read("udp")?);
                let udp = counters(&snmp).ok_or("snmp has no UDP counters")?;
                samples.push(Sample { at: began.elapsed(), udp, drops: drops(&sockets, port) });
                sleep(INTERVAL);
            }
            Ok(samples)
        });
        Self { thread: Some(thread), is_ended, began }
    }

    /// Returns the start time of the sampler; the times of samples are relative to it.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    pub(super) fn finish(mut self) -> Result<Samples, String> {
        self.is_ended.store(true, Ordering::Relaxed);
        let thread = self.thread.take().ok_or("it already exited")?;
        let all = thread.join().map_err(|_| "the sampling thread panicked")??;
        Samples::new(all)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

/// The samples from the last one before the first datagram arrived to the first one after the last
/// datagram arrived.
#[derive(PartialEq, Debug)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    fn new(all: Vec<Sample>) -> Result<Self, String> {
        let arrived = |sample: &Sample| sample.udp[0] + sample.udp[1];
        let (first, last) = (all.first().map(arrived), all.last().map(arrived));
        let begin = all.iter().position(|it| Some(arrived(it)) != first);
        let end = all.iter().position(|it| Some(arrived(it)) == last);
        match (begin, end) {
            (Some(begin), Some(end)) => Ok(Self(all[begin.saturating_sub(1)..=end].to_vec())),
            _ => Err("no datagram reached the proxy".to_owned()),
        }
    }

    fn first(&self) -> Sample {
        self.0.first().copied().unwrap_or_default()
    }

    /// Returns the earliest time at which the first datagram may have arrived, relative to the
    /// sampler's start.
    pub(super) fn begin(&self) -> Duration {
        self.first().at
    }

    /// Returns the duration in seconds during which datagrams arrived.
    pub(super) fn seconds(&self) -> f64 {
        self.0.last().map_or(0.0, |last| (last.at - self.begin()).as_secs_f64())
    }

    /// Returns the number of datagrams lost at the sockets.
    pub(super) fn lost(&self) -> u64 {
        self.0.last().map_or(0, |last| last.drops - self.first().drops)
    }

    /// Returns the latest time at which the first datagram may have been lost.
    pub(super) fn first_lost(&self) -> Option<Duration> {
        let lost = self.0.iter().find(|it| it.drops > self.first().drops)?;
        Some(lost.at - self.begin())
    }

    /// Returns the number of datagrams lost in each time step.
    pub(super) fn lost_each(&self, step: Duration) -> Vec<u64> {
        let mut lost = Vec::new();
        for pair in self.0.windows(2) {
            let place = (pair[1].at - self.begin()).as_nanos().saturating_sub(1) / step.as_nanos();
            let place = usize::try_from(place).unwrap_or_default();
            lost.resize(lost.len().max(place + 1), 0);
            lost[place] += pair[1].drops - pair[0].drops;
        }
        lost
    }

    /// Returns the increase of the UDP counters in an interval, with the names that `nstat` uses.
    pub(super) fn rose(&self, from: Duration, to: Duration) -> [(&'static str, u64); 3] {
        let at = |time: Duration| {
            let found = self.0.iter().rev().find(|it| it.at - self.begin() <= time);
            found.copied().unwrap_or_else(|| self.first()).udp
        };
        let (earlier, later) = (at(from), at(to));
        let rise = |place: usize| later[place] - earlier[place];
        [("UdpInDatagrams", rise(0)), ("UdpInErrors", rise(1)), ("UdpRcvbufErrors", rise(2))]
    }
}

/// Parses `InDatagrams`, `InErrors` and `RcvbufErrors` from `/proc/net/snmp`.
fn counters(snmp: &str) -> Option<[u64; 3]> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let mut pairs = names.split(' ').zip(values.split(' '));
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some([of("InDatagrams")?, of("InErrors")?, of("RcvbufErrors")?])
}

/// Returns the number of datagrams dropped by the sockets on a port, from `/proc/net/udp`.
fn drops(udp: &str, port: u16) -> u64 {
    let end = format!(":{port:04X}");
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let is_of_port = words.nth(1)?.ends_with(&end);
        is_of_port.then(|| words.next_back()?.parse::<u64>().ok())?
    };
    udp.lines().skip(1).filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        // No datagrams arrive before 5 ms and after 115 ms.
        let all = [(0, 9, 1), (5, 9, 1), (10, 20, 1), (15, 30, 4), (115, 60, 10), (120, 60, 10)];
        let sample = |(at, read, drops): (u64, u64, u64)| Sample {
            at: Duration::from_millis(at),
            udp: [read, drops, drops],
            drops,
        };
        Samples::new(all.map(sample).into()).unwrap()
    }

    #[test]
    fn time_begins_with_the_first_datagram() {
        let samples = samples();
        assert_eq!(samples.begin(), Duration::from_millis(5));
        assert!((samples.seconds() - 0.11).abs() < 1e-9);
        assert_eq!(samples.first_lost(), Some(Duration::from_millis(10)));
        assert_eq!(samples.lost(), 9);
        assert_eq!(samples.lost_each(Duration::from_millis(100)), [3, 6]);
        let rose = samples.rose(Duration::from_millis(5), Duration::from_millis(110));
        assert_eq!(rose.map(|(_, rise)| rise), [40, 9, 9]);
        assert!(Samples::new(vec![Sample::default(); 3]).is_err());
    }

    #[test]
    fn the_kernels_files_are_read() {
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                    Udp: 5 6 7 8 9\n";
        assert_eq!(counters(snmp), Some([5, 7, 9]));
        assert_eq!(counters("Ip: 1\n"), None);
        let udp = "  sl  local_address rem_address st queues tr tm retr uid timeout inode ref pointer drops\n \
                   7: 0200000A:1151 00000000:0000 07 0:0 00:0 0 0 0 12 2 0 41\n \
                   8: 0200000A:0035 00000000:0000 07 0:0 00:0 0 0 0 13 2 0 1\n";
        assert_eq!((drops(udp, 4433), drops(udp, 53), drops(udp, 54)), (41, 1, 0));
    }
}
