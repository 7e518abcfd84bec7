//! The well-behaved client, which repeatedly requests a small file from its own address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::encoding::stream_frame;
use super::endpoint::{Endpoint, Settings};
use super::http3;
use super::incoming::Incoming;
use super::scene::SMALL;

/// The address of the well-behaved client, in a different prefix from the attackers.
pub(super) const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 200, 0, 1));
/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Response time above which a request counts as failed.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The pause after which the client retransmits an unanswered request, like a probe timeout.
const REPEAT: Duration = Duration::from_millis(150);
/// Number of requests per connection.
const REQUESTS: usize = 40;

/// The results of the well-behaved client.
#[derive(Default, Clone)]
pub(super) struct Seen {
    /// The latency of each answered request, and of each handshake.
    pub(super) latencies: Vec<Duration>,
    pub(super) failures: Vec<String>,
    /// The longest time without a response, in the whole run.
    pub(super) gap: Duration,
}

impl Seen {
    /// Returns the latency at this percentile of the requests.
    pub(super) fn percentile(&self, part: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let place = (sorted.len().saturating_sub(1) as f64 * part).round() as usize;
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// A well-behaved client that runs until stopped.
pub(super) struct Client {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Client {
    /// Starts an HTTP/3 client, or an HTTP/0.9 client if `is_old`.
    pub(super) fn start(server: SocketAddr, mut settings: Settings, is_old: bool) -> Self {
        settings.local = HOME;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || run(server, &settings, is_old, &flag));
        Self { stop, thread: Some(thread) }
    }

    /// Stops the client, and returns its results.
    pub(super) fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(|| Seen {
            failures: vec!["the client's thread panicked".to_owned()],
            ..Seen::default()
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(server: SocketAddr, settings: &Settings, is_old: bool, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut endpoint = match Endpoint::connect(server, settings, TIMEOUT) {
            Ok(endpoint) => endpoint,
            Err(error) => {
                seen.failures.push(error);
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        seen.latencies.push(began.elapsed());
        if !is_old {
            http3::open(&mut endpoint, &[]);
        }
        for _ in 0..REQUESTS {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let began = Instant::now();
            let answer = match is_old {
                true => ask_old(&mut endpoint, SMALL),
                false => ask(&mut endpoint, SMALL),
            };
            match answer {
                Ok(()) => {
                    seen.latencies.push(began.elapsed());
                    seen.gap = seen.gap.max(last.elapsed());
                    last = Instant::now();
                }
                Err(error) => {
                    seen.failures.push(error);
                    break;
                }
            }
            if endpoint.pump(PAUSE).is_err() {
                break;
            }
        }
        endpoint.close();
    }
    seen.gap = seen.gap.max(last.elapsed());
    seen
}

/// Requests a path, and waits for the complete response.
///
/// # Errors
/// Returns an error if the response does not arrive in time, or its status is not 200.
pub(super) fn ask(endpoint: &mut Endpoint, path: &str) -> Result<(), String> {
    let incoming = exchange(endpoint, &http3::get(path))?;
    match http3::status(&incoming) {
        Some(200) => Ok(()),
        Some(status) => Err(format!("unexpected status {status}")),
        None => Err(format!("no status in the response {:02x?}", incoming.data.get(..16))),
    }
}

/// Requests a path with HTTP/0.9, and waits for the response. An empty response counts as a
/// failure.
fn ask_old(endpoint: &mut Endpoint, path: &str) -> Result<(), String> {
    let incoming = exchange(endpoint, format!("GET {path}\r\n").as_bytes())?;
    match incoming.data.len() {
        1_000 => Ok(()),
        length => Err(format!("a response of {length} bytes")),
    }
}

/// Sends a request, and retransmits it until the response is complete.
fn exchange(endpoint: &mut Endpoint, request: &[u8]) -> Result<Incoming, String> {
    let stream = endpoint.next_stream(false);
    endpoint.send_stream(stream, request, true);
    let mut repeated = Instant::now();
    endpoint.until(TIMEOUT, |endpoint| {
        if repeated.elapsed() > REPEAT {
            repeated = Instant::now();
            endpoint.send(&stream_frame(stream, 0, request, true));
        }
        let incoming = endpoint.streams.get(&stream);
        incoming.is_some_and(|incoming| incoming.is_complete() || incoming.reset.is_some())
    })?;
    match endpoint.streams.remove(&stream) {
        Some(incoming) if incoming.is_complete() => Ok(incoming),
        Some(incoming) => Err(format!("the stream was reset with {:?}", incoming.reset)),
        None => Err(format!("no response in time (closed: {:?})", endpoint.closed)),
    }
}
