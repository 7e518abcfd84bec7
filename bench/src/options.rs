//! Command-line options shared by several commands.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clearway::{Endpoint, QuicLb, ServerConfig};

use crate::ids::Ids;

/// The UDP payload size of full-size datagrams.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Mtu {
    /// A fixed size that is used from the start.
    Fixed(u16),
    /// The size is discovered with the library's default settings.
    Discovered,
}

impl FromStr for Mtu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "discover" {
            return Ok(Self::Discovered);
        }
        let size = text.parse().ok().filter(|size| (1200..=65_527).contains(size));
        size.map(Self::Fixed).ok_or_else(|| "expected 1200 to 65527, or discover".to_owned())
    }
}

#[derive(Args)]
pub(crate) struct ServerOptions {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// Certificate chain, PEM.
    #[arg(long)]
    pub(crate) cert: PathBuf,
    /// Private key, PEM.
    #[arg(long)]
    pub(crate) key: PathBuf,
    /// Ignored: the other peers serve files from this folder.
    #[arg(long)]
    pub(crate) root: Option<PathBuf>,
}

/// Busy polling of an endpoint's threads.
#[derive(Args)]
pub(crate) struct BusyPollOptions {
    /// Poll for datagrams for at most this many microseconds before a thread sleeps.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    busy_poll: u64,
}

impl BusyPollOptions {
    pub(crate) fn apply(&self, endpoint: &Endpoint) {
        endpoint.set_busy_poll(Duration::from_micros(self.busy_poll));
    }
}

/// Options of servers that hold many connections.
#[derive(Args)]
pub(crate) struct ManyOptions {
    /// Maximum number of concurrent connections [default: the library's].
    #[arg(long)]
    max_connections: Option<usize>,
    /// Idle timeout in seconds.
    #[arg(long, default_value_t = 30)]
    idle_timeout: u64,
    /// Accept datagrams only from the load balancer at this address, which puts a preface with the
    /// client's address before each.
    #[arg(long, requires = "quic_lb")]
    balancer: Option<IpAddr>,
    /// Issue connection IDs that the load balancer can route.
    #[arg(long, value_name = "SERVER-ID:NONCE-LENGTH:KEY")]
    quic_lb: Option<Ids>,
    /// Exit when standard input ends; with the handler API, print the shards' counters for each
    /// line of it.
    #[arg(long)]
    pub(crate) attached: bool,
}

impl ManyOptions {
    pub(crate) fn idle_timeout(&self) -> Duration {
        Duration::from_secs(self.idle_timeout)
    }

    /// Returns the configuration with these options applied, except the idle timeout.
    pub(crate) fn apply(&self, mut config: ServerConfig) -> ServerConfig {
        if let Some(max) = self.max_connections {
            config = config.max_connections(max);
        }
        if let Some(Ids(ids)) = &self.quic_lb {
            config = config.quic_lb(QuicLb::clone(ids));
        }
        config.balancers(self.balancer)
    }
}

/// Where code for raw streams runs.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RawFace {
    /// On the shard's thread, by an `Application`.
    Shard,
    /// In tasks on the shard's thread.
    Async,
}

#[derive(Args)]
pub(crate) struct RawServerOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    #[command(flatten)]
    pub(crate) many: ManyOptions,
    /// Where streams are handled.
    #[arg(long, value_enum, default_value_t = RawFace::Shard)]
    pub(crate) face: RawFace,
}

#[derive(Args)]
pub(crate) struct RawClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    pub(crate) ca: PathBuf,
    /// Number of bytes that each connection transfers.
    #[arg(long)]
    pub(crate) bytes: u64,
    /// Send the bytes instead of requesting them.
    #[arg(long)]
    pub(crate) upload: bool,
    /// Number of connections. All are open before the first transfer begins.
    #[arg(long, default_value = "1")]
    pub(crate) connections: NonZeroUsize,
    /// Where streams are handled.
    #[arg(long, value_enum, default_value_t = RawFace::Shard)]
    pub(crate) face: RawFace,
    /// The address of the server, whose certificate must be for `localhost`.
    pub(crate) address: SocketAddr,
}

/// Where an HTTP/3 client runs. The library has no HTTP/3 client with handlers.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ClientFace {
    /// In tasks on the shard's thread.
    Async,
    /// In tasks of a tokio runtime, on another thread.
    Runtime,
}

#[derive(Args)]
pub(crate) struct ClientOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    pub(crate) ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    pub(crate) connect: SocketAddr,
    /// Check and count the received bytes instead of writing them. Required: there is no other mode.
    #[arg(long, required = true)]
    pub(crate) discard: bool,
    /// Number of connections, each of which makes the same request. All are open before the first request is made.
    #[arg(long, default_value = "1")]
    pub(crate) connections: NonZeroUsize,
    /// Send this many generated bytes to the URL with POST, instead of GET.
    #[arg(long)]
    pub(crate) upload: Option<u64>,
    /// Where the client runs.
    #[arg(long, value_enum, default_value_t = ClientFace::Async)]
    pub(crate) face: ClientFace,
    /// The URL: https://localhost/zero/N to download, https://localhost/sink to upload.
    pub(crate) url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagram_sizes_are_those_of_udp() {
        assert_eq!("1200".parse(), Ok(Mtu::Fixed(1200)));
        assert_eq!("9000".parse(), Ok(Mtu::Fixed(9000)));
        assert_eq!("discover".parse(), Ok(Mtu::Discovered));
        for wrong in ["1199", "65528", "-1", "large"] {
            assert!(wrong.parse::<Mtu>().is_err(), "{wrong}");
        }
    }
}
