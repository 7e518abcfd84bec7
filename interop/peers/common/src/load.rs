use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Pace;

/// Options of `load`.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    pub ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    pub connect: SocketAddr,
    /// Number of connections.
    #[arg(long, default_value_t = 1)]
    pub connections: usize,
    /// Number of requests in flight on each connection.
    #[arg(long, default_value_t = 1)]
    pub streams: usize,
    /// Bytes in each response.
    #[arg(long, default_value_t = 1024)]
    pub size: u64,
    /// How long to make requests, in seconds.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Requests per second of all connections together, regardless of how many are then in flight
    /// [default: a new request for each response].
    #[arg(long, value_parser = crate::options::rate)]
    pub rate: Option<f64>,
}

impl LoadOptions {
    /// Returns the schedule of the requests, if they are sent at a fixed rate. Requests are
    /// distributed over the connections in turn.
    pub fn pace(&self) -> Option<Pace> {
        self.rate.map(|rate| Pace::new(rate, (rate * self.seconds) as usize))
    }
}

/// The schedule of requests that are not sent at a fixed rate: there are as many workers as
/// requests may be in flight.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: Instant,
    end: Instant,
    workers: usize,
}

impl Schedule {
    /// Creates a schedule that starts now.
    pub fn new(options: &LoadOptions) -> Self {
        let start = Instant::now();
        let workers = options.connections * options.streams;
        Self { start, end: start + Duration::from_secs_f64(options.seconds), workers }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the time since the schedule started.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the start time of a worker's next request, which is now; `None` if the run is over.
    /// Latency is measured from this time.
    pub fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        (now < self.end).then_some(now)
    }
}

/// The latencies of the answered requests, and the number of bytes received.
#[derive(Default)]
pub struct Tally {
    microseconds: Vec<u32>,
    bytes: u64,
}

impl Tally {
    /// Adds a request that has just been answered.
    pub fn add(&mut self, began: Instant, bytes: u64) {
        self.add_finished(began.elapsed(), bytes);
    }

    /// Adds a request that took this long.
    pub fn add_finished(&mut self, took: Duration, bytes: u64) {
        self.microseconds.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        self.bytes += bytes;
    }

    /// Returns the number of answered requests.
    pub fn count(&self) -> usize {
        self.microseconds.len()
    }

    /// Returns the latencies in microseconds at these quantiles (fractions) of the requests; 0 if
    /// there were no requests.
    pub fn quantiles<const N: usize>(&mut self, parts: [f64; N]) -> [u32; N] {
        self.microseconds.sort_unstable();
        parts.map(|part| {
            let index = (self.microseconds.len() as f64 * part) as usize;
            self.microseconds.get(index).or(self.microseconds.last()).copied().unwrap_or(0)
        })
    }

    /// Prints the final line of the `load` command.
    pub fn print(mut self, elapsed: Duration) {
        let [p50, p99] = self.quantiles([0.5, 0.99]);
        println!(
            r#"{{"requests":{},"bytes":{},"seconds":{:.6},"p50_us":{p50},"p99_us":{p99}}}"#,
            self.microseconds.len(),
            self.bytes,
            elapsed.as_secs_f64(),
        );
    }
}
