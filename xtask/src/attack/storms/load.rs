//! A thousand connections that make requests, each on its own socket.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::super::encoding::stream_frame;
use super::super::endpoint::{Endpoint, Settings};
use super::super::http3;

/// Interval between two requests on the same connection.
const PERIOD: Duration = Duration::from_secs(2);
/// Response time above which a request counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The initial pause before an unanswered request is retransmitted; it doubles each time.
const REPEAT: Duration = Duration::from_millis(300);
/// Number of threads that drive the connections.
const THREADS: usize = 2;
/// Handshake timeout.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The combined results of all connections.
#[derive(Default, Clone)]
pub(super) struct Record {
    pub(super) requests: u64,
    pub(super) failures: Vec<String>,
    /// The longest response latency.
    pub(super) longest: Duration,
    /// Number of connections whose server has sent GOAWAY.
    pub(super) gone: usize,
}

struct Pending {
    stream: u64,
    began: Instant,
    repeated: Instant,
    pause: Duration,
}

/// One client connection.
pub(super) struct Member {
    endpoint: Endpoint,
    path: &'static str,
    due: Instant,
    pending: Option<Pending>,
    is_gone: bool,
    is_over: bool,
    moves: u32,
    number: u16,
}

/// Opens connections.
///
/// # Errors
/// Returns an error if a connection cannot be opened.
pub(super) fn open(
    server: SocketAddr,
    settings: &Settings,
    count: u16,
    path: &'static str,
) -> Result<Vec<Member>, String> {
    let member = |number: u16| {
        crate::waiting::check_interrupt()?;
        let settings = Settings { local: spread(settings.local, number), ..settings.clone() };
        let mut endpoint = Endpoint::connect(server, &settings, HANDSHAKE)?;
        endpoint.answers_challenges = true;
        http3::open(&mut endpoint, &[]);
        // The connections' requests are spread evenly over the period.
        let due = Instant::now() + PERIOD.mul_f64(f64::from(number) / f64::from(count));
        let (pending, moves) = (None, 0);
        Ok(Member { endpoint, path, due, pending, is_gone: false, is_over: false, moves, number })
    };
    (0..count).map(member).collect()
}

/// Returns a client address. On loopback, clients are spread over 250 networks, since limits apply
/// per address prefix.
fn spread(local: IpAddr, number: u16) -> IpAddr {
    match local.is_loopback() {
        true => IpAddr::V4(Ipv4Addr::new(127, 1, (number % 250) as u8, 1)),
        false => local,
    }
}

/// Connections that make requests until they are stopped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    moves: Arc<AtomicU32>,
    record: Arc<Mutex<Record>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(members: Vec<Member>) -> Self {
        let (stop, moves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let record = Arc::new(Mutex::new(Record::default()));
        let mut parts: Vec<Vec<Member>> = (0..THREADS).map(|_| Vec::new()).collect();
        for (number, member) in members.into_iter().enumerate() {
            parts[number % THREADS].push(member);
        }
        let drive = |mut part: Vec<Member>| {
            let (stop, moves, record) = (stop.clone(), moves.clone(), record.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let moves = moves.load(Ordering::Relaxed);
                    part.iter_mut().for_each(|member| member.step(moves, &record));
                    std::thread::sleep(Duration::from_millis(2));
                }
                // Requests still in flight count as neither completed nor failed.
                part.iter_mut().for_each(|member| member.endpoint.close());
            })
        };
        let threads = parts.into_iter().map(drive).collect();
        Self { stop, moves, record, threads }
    }

    /// Migrates all connections to other addresses.
    pub(super) fn migrate(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the results so far.
    pub(super) fn record(&self) -> Record {
        self.record.lock().map_or_else(|error| error.into_inner().clone(), |record| record.clone())
    }

    pub(super) fn stop(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.record()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Member {
    fn step(&mut self, moves: u32, record: &Mutex<Record>) {
        if self.is_over {
            return;
        }
        if self.moves != moves {
            self.moves = moves;
            let [high, low] = self.number.to_be_bytes();
            let address = Ipv4Addr::new(127, 20 + moves as u8, high, low.max(1));
            if let Err(error) = self.endpoint.move_to(IpAddr::V4(address)) {
                return self.fail(record, format!("cannot move: {error}"));
            }
        }
        if let Err(error) = self.endpoint.drain() {
            return self.fail(record, error);
        }
        self.notice_goaway(record);
        let now = Instant::now();
        match self.pending.take() {
            None if self.is_gone => self.is_over = true,
            None if self.endpoint.closed.is_some() => {
                let closed = format!("closed: {:?}", self.endpoint.closed);
                self.fail(record, closed);
            }
            None if now >= self.due => {
                self.due = now + PERIOD;
                let stream = http3::request(&mut self.endpoint, self.path);
                self.pending = Some(Pending { stream, began: now, repeated: now, pause: REPEAT });
            }
            None => {}
            Some(pending) => self.wait(pending, now, record),
        }
    }

    fn wait(&mut self, mut pending: Pending, now: Instant, record: &Mutex<Record>) {
        let took = now - pending.began;
        match self.endpoint.streams.get(&pending.stream) {
            Some(answer) if answer.is_complete() => {
                let status = http3::status(answer);
                self.endpoint.streams.remove(&pending.stream);
                if status != Some(200) {
                    return self.note(record, format!("unexpected status {status:?}"));
                }
                if let Ok(mut record) = record.lock() {
                    record.requests += 1;
                    record.longest = record.longest.max(took);
                }
                return;
            }
            // A request that the server has not processed may be retried (RFC 9114 §5.2).
            Some(answer) if answer.reset == Some(0x10b) && self.is_gone => return,
            Some(answer) if answer.reset.is_some() => {
                let reset = format!("the stream was reset with {:?}", answer.reset);
                return self.note(record, reset);
            }
            _ => {}
        }
        if self.endpoint.closed.is_some() {
            let closed = format!("closed with a request in flight: {:?}", self.endpoint.closed);
            return self.fail(record, closed);
        }
        if took > TIMEOUT {
            return self.fail(record, format!("no response within {} s", TIMEOUT.as_secs()));
        }
        if now - pending.repeated > pending.pause {
            pending.repeated = now;
            pending.pause *= 2;
            let request = http3::get(self.path);
            self.endpoint.send(&stream_frame(pending.stream, 0, &request, true));
        }
        self.pending = Some(pending);
    }

    fn notice_goaway(&mut self, record: &Mutex<Record>) {
        let control = self.endpoint.streams.get(&3);
        if !self.is_gone && control.is_some_and(|control| http3::has_goaway(&control.data)) {
            self.is_gone = true;
            if let Ok(mut record) = record.lock() {
                record.gone += 1;
            }
        }
    }

    /// Records a request that failed.
    fn note(&self, record: &Mutex<Record>, failure: String) {
        if let Ok(mut record) = record.lock() {
            record.failures.push(failure);
        }
    }

    /// Records a failure that ends a connection.
    fn fail(&mut self, record: &Mutex<Record>, failure: String) {
        self.is_over = true;
        self.note(record, failure);
    }
}
