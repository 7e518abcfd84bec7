use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A handshake that takes longer has failed.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

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
    /// How many of them run at the same time.
    #[arg(long, default_value_t = 20)]
    pub parallel: usize,
}

/// The results of many handshakes.
#[derive(Default)]
pub struct HandshakesSummary {
    failed: usize,
    seconds: Vec<f64>,
}

impl HandshakesSummary {
    /// Adds one, which took so long or failed.
    pub fn add(&mut self, outcome: Result<Duration, String>) {
        match outcome {
            Ok(took) => self.seconds.push(took.as_secs_f64()),
            Err(error) => {
                self.failed += 1;
                eprintln!("handshake: {error}");
            }
        }
    }

    /// Prints how many failed, and the times of the others in seconds.
    pub fn print(mut self) {
        self.seconds.sort_by(f64::total_cmp);
        let seconds: Vec<_> = self.seconds.iter().map(|time| format!("{time:.4}")).collect();
        println!(r#"{{"failed":{},"seconds":[{}]}}"#, self.failed, seconds.join(","));
    }
}
