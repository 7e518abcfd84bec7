//! The origin of the server's sockets, and the server's shutdown.

use std::future::Future;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway::{Endpoint, HotRestart, ServerConfig};

use super::parse_timeout;
use crate::events::{Event, note};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::replacing;
use crate::system;

/// The options for replacing another process and for being replaced.
#[derive(Args, Debug)]
pub(crate) struct RestartOptions {
    /// Replace the server at this unix socket without interrupting connections.
    ///
    /// If no server is running there, this one starts normally, and a later one can replace it in
    /// the same way. No client is refused. The old server gets no new clients, stops accepting
    /// requests (GOAWAY), completes those in progress, and exits. Both need the same --listen,
    /// --preferred-address, --shards, --ticket-keys and --quic-lb (except for its config-id, server
    /// ID and key). If this server cannot start, the old one continues. Only this user can use the
    /// socket. Requires Linux.
    #[arg(long, value_name = "SOCKET")]
    hot_restart: Option<PathBuf>,
    /// Time limit for responses in progress when another server has replaced this one.
    ///
    /// Responses that are not complete by then are aborted. By default there is no limit; the next
    /// server can only start when this one has exited.
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, requires = "hot_restart")]
    drain: Option<Duration>,
}

/// The conditions under which the server starts.
pub(crate) struct Beginning {
    /// The listening address: the requested one, or the address of inherited sockets.
    pub(crate) listen: SocketAddr,
    /// The required number of shards, unless configured otherwise.
    pub(crate) shards: Option<NonZeroUsize>,
    /// Whether this server replaces another one, which runs until this one has started.
    pub(crate) is_replacing: bool,
    sockets: Vec<UdpSocket>,
    hot_restart: Option<HotRestart>,
}

impl RestartOptions {
    /// Returns whether the server can be replaced, which halves the maximum number of shards.
    pub(crate) fn is_given(&self) -> bool {
        self.hot_restart.is_some()
    }

    /// Returns the maximum duration of draining.
    pub(crate) fn drain(&self) -> Option<Duration> {
        self.drain
    }

    /// Takes over the sockets from a service manager, and looks for a server to replace.
    pub(crate) async fn begin(&self, listen: SocketAddr) -> Result<Beginning, Failure> {
        let sockets = system::activated().map_err(|error| unusable(&error))?;
        let mut beginning =
            Beginning { listen, shards: None, is_replacing: false, sockets, hot_restart: None };
        if let Some(first) = beginning.sockets.first() {
            beginning.listen = first.local_addr().map_err(|error| unusable(&error))?;
            beginning.shards = NonZeroUsize::new(beginning.sockets.len());
        }
        if let Some(path) = &self.hot_restart {
            let found = replacing::look_for(path, HotRestart::at).await?;
            if let Some(shards) = found.shards() {
                beginning.shards = NonZeroUsize::new(shards);
                beginning.is_replacing = true;
            }
            beginning.hot_restart = Some(found);
        }
        Ok(beginning)
    }
}

impl Beginning {
    /// Adds these settings to a server's configuration.
    pub(crate) fn configure(self, config: ServerConfig) -> ServerConfig {
        let config = config.listening_sockets(self.sockets);
        match self.hot_restart {
            Some(hot_restart) => config.hot_restart(hot_restart),
            None => config,
        }
    }
}

fn unusable(error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot use the service manager's sockets: {error}"))
        .advise("use ListenDatagram= in its configuration, with one address")
}

/// The conditions under which the server ends.
pub(crate) struct Ending {
    pub(crate) interrupt: Interrupt,
    /// Time limit for responses in progress after an interrupt.
    pub(crate) timeout: Duration,
    /// Time limit for responses in progress after a replacement.
    pub(crate) drain: Option<Duration>,
}

/// The reason that the server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Interrupted,
    /// Another process has replaced this one.
    Replaced,
}

impl Ending {
    /// Waits until the server has to end.
    pub(crate) async fn begin(&mut self, endpoint: &Endpoint) -> Cause {
        tokio::select! {
            _ = self.interrupt.received() => Cause::Interrupted,
            () = endpoint.replaced() => Cause::Replaced,
        }
    }

    /// Waits until the shutdown is complete, the program is interrupted (again), or the time limit
    /// has passed.
    pub(crate) async fn complete(mut self, cause: Cause, shutdown: impl Future<Output = ()>) {
        let limit = match cause {
            Cause::Interrupted => {
                let timeout = self.timeout;
                let line = format!(
                    "interrupted: draining; responses in progress have {timeout:?} to complete, or until the next interrupt"
                );
                note(Event::DrainBegun, &line);
                Some(timeout)
            }
            Cause::Replaced => {
                note(
                    Event::Replaced,
                    "another process has replaced this one, which exits after its last connection",
                );
                self.drain
            }
        };
        let expired = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown => note(Event::DrainEnded, "drained: all responses were complete"),
            // A second interrupt ends the server immediately. After a replacement, even the first
            // one does.
            _ = self.interrupt.received() => {}
            () = expired => {
                let limit = limit.unwrap_or_default();
                let line = format!("aborting responses that are incomplete after {limit:?}");
                note(Event::DrainCutOff, &line);
            }
        }
    }
}
