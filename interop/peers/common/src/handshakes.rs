use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Pace;

/// Time after which a handshake counts as failed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of connections that stay open after their handshake, because a ticket arrives one round
/// trip later.
const OPEN: usize = 64;

/// Options of `handshakes`.
#[derive(clap::Args, Clone, Debug)]
pub struct HandshakesOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    pub ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    pub connect: SocketAddr,
    /// Number of handshakes.
    #[arg(long, default_value_t = 200)]
    pub count: usize,
    /// Number of concurrent handshakes.
    #[arg(long, default_value_t = 20)]
    pub parallel: usize,
    /// Handshakes per second, regardless of how many are then concurrent.
    #[arg(long, value_parser = crate::options::rate)]
    pub rate: Option<f64>,
    /// Key exchange.
    #[arg(long, value_enum, default_value_t = KeyExchange::X25519mlkem768)]
    pub key_exchange: KeyExchange,
    /// Resume sessions: all but the first handshakes use a ticket from an earlier one.
    #[arg(long)]
    pub resume: bool,
}

impl HandshakesOptions {
    /// Returns the schedule of the handshakes, if they start at a fixed rate.
    pub fn pace(&self) -> Option<Pace> {
        self.rate.map(|rate| Pace::new(rate, self.count))
    }
}

/// The group of the key exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum KeyExchange {
    /// On an elliptic curve; the ClientHello takes one datagram.
    X25519,
    /// Post-quantum; the ClientHello takes two datagrams.
    X25519mlkem768,
}

/// The results of many handshakes; `C` is the type of the connections.
pub struct HandshakesSummary<C> {
    began: Instant,
    failed: usize,
    seconds: Vec<f64>,
    open: VecDeque<C>,
}

impl<C> HandshakesSummary<C> {
    /// Creates an empty summary; the first handshake starts now.
    pub fn start() -> Self {
        Self { began: Instant::now(), failed: 0, seconds: Vec::new(), open: VecDeque::new() }
    }

    /// Adds a handshake that took this long, or that failed. Returns a connection to close, if
    /// there is one.
    pub fn add(&mut self, outcome: Result<(C, Duration), String>) -> Option<C> {
        match outcome {
            Ok((connection, took)) => {
                self.seconds.push(took.as_secs_f64());
                self.open.push_back(connection);
            }
            Err(error) => {
                self.failed += 1;
                eprintln!("handshake: {error}");
            }
        }
        if self.open.len() > OPEN { self.open.pop_front() } else { None }
    }

    /// Prints the number of failed handshakes, the number that used a ticket, the total time, and
    /// the duration of each handshake in seconds. Returns the connections that are still open.
    pub fn print(mut self, resumed: usize) -> VecDeque<C> {
        let elapsed = self.began.elapsed().as_secs_f64();
        self.seconds.sort_by(f64::total_cmp);
        let seconds: Vec<_> = self.seconds.iter().map(|time| format!("{time:.6}")).collect();
        println!(
            r#"{{"failed":{},"resumed":{resumed},"elapsed":{elapsed:.6},"seconds":[{}]}}"#,
            self.failed,
            seconds.join(","),
        );
        self.open
    }
}
