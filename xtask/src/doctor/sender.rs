//! Threads that send packets at a fixed rate, regardless of whether they arrive.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use clearway_namespaces::Namespace;
use rustix::thread::{CpuSet, sched_setaffinity};
use socket2::{Domain, Protocol, Socket, Type};

use super::packet::{Damage, packet};

/// Maximum delay for which a sender catches up. After a longer delay, catching up would cause an
/// unintended burst.
const MAX_LATENESS: Duration = Duration::from_millis(5);
/// Number of distinct IP identification values.
const IDENTIFICATIONS: u64 = 1 << 16;

/// The rate and burst size of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Packets per second.
    pub(super) rate: u32,
    /// Number of packets to send together.
    pub(super) burst: u32,
}

impl Pace {
    /// Returns the smoothest pace for a thread that sleeps for a millisecond at a time.
    pub(super) fn even(rate: u32) -> Self {
        Self { rate, burst: rate.div_ceil(1000) }
    }

    fn interval(self) -> Duration {
        Duration::from_secs(1) * self.burst / self.rate
    }
}

/// A thread that sends packets until dropped.
pub(super) struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    has_to_end: AtomicBool,
    /// Number of packets that the sender has tried to send.
    tried: AtomicU64,
}

impl Sender {
    /// Calls `send` for each packet with the packet's number. The result is ignored, because the
    /// fault may be that nothing can be sent.
    pub(super) fn start(
        pace: Pace,
        cpu: Option<usize>,
        mut send: impl FnMut(u64) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let known = shared.clone();
        let thread = spawn(move || {
            if let Some(cpu) = cpu {
                pin(cpu);
            }
            let mut due = Instant::now();
            while !known.has_to_end.load(Ordering::Relaxed) {
                for _ in 0..pace.burst {
                    let _ = send(known.tried.fetch_add(1, Ordering::Relaxed));
                }
                due += pace.interval();
                let now = Instant::now();
                match due.checked_duration_since(now) {
                    Some(early) => sleep(early),
                    None if now - due > MAX_LATENESS => due = now,
                    None => {}
                }
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// Returns the number of packets that the sender has tried to send.
    pub(super) fn tried(&self) -> u64 {
        self.shared.tried.load(Ordering::Relaxed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.has_to_end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Threads that keep a CPU busy until dropped.
pub(super) struct Load {
    has_to_end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(cpu: usize, threads: usize) -> Self {
        let has_to_end = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let has_to_end = has_to_end.clone();
            spawn(move || {
                pin(cpu);
                while !has_to_end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        Self { threads: (0..threads).map(start).collect(), has_to_end: has_to_end.clone() }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.has_to_end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Pins this thread to one CPU. Without permission to do so, the thread runs on any CPU.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// Sends the datagrams of one flow from a namespace. The socket is not connected, because a
/// connected socket would report ICMP errors.
pub(super) fn datagrams(
    host: &Namespace,
    to: SocketAddrV4,
    size: usize,
) -> io::Result<impl FnMut(u64) -> io::Result<()> + Send + 'static> {
    let socket = host.run(|| UdpSocket::bind("0.0.0.0:0"))??;
    let payload = vec![0; size];
    Ok(move |_| socket.send_to(&payload, to).map(drop))
}

/// Sends damaged packets.
pub(super) fn packets(
    host: &Namespace,
    (from, to): (SocketAddrV4, SocketAddrV4),
    size: usize,
    damage: Damage,
) -> io::Result<impl FnMut(u64) -> io::Result<()> + Send + 'static> {
    let socket = host.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))))??;
    let (payload, target) = (vec![0; size], SocketAddr::from(to).into());
    Ok(move |number| {
        let identification = (number % IDENTIFICATIONS) as u16;
        let bytes = packet(from, to, &payload, damage, identification);
        socket.send_to(&bytes, &target).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_pace_has_a_burst_each_millisecond_at_most() {
        assert_eq!(Pace::even(100).interval(), Duration::from_millis(10));
        assert_eq!(Pace::even(10_000).interval(), Duration::from_millis(1));
        assert_eq!(Pace { rate: 1600, burst: 400 }.interval(), Duration::from_millis(250));
    }

    #[test]
    fn a_sender_ends_when_it_is_dropped() {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let sender = Sender::start(Pace::even(10_000), None, move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(io::Error::other("refused"))
        });
        while sender.tried() < 20 {
            std::thread::yield_now();
        }
        drop(sender);
        let last = count.load(Ordering::Relaxed);
        assert!(last >= 20);
        assert_eq!(count.load(Ordering::Relaxed), last);
    }
}
