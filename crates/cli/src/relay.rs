//! A UDP relay that simulates a [`Link`] in real time.
//!
//! One thread relays all datagrams. It sleeps until a datagram arrives or is due for delivery, as
//! precisely as the kernel's timers allow. A client is identified by its address; every client gets
//! its own socket toward the server, and a new one whenever the link simulates a NAT rebinding.

mod clock;
mod driver;
mod flows;
mod loss_window;
mod socket;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clearway_network::{Counters, Link, LinkConfig};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::listening::Listening;
use crate::system::{self, Stop};
use clock::Clock;
use driver::{Driver, Report};
use flows::Flows;
use loss_window::LossWatch;
use socket::Socket;

pub(crate) use loss_window::LossWindow;

/// The configuration of a relay.
#[derive(Clone, Debug)]
pub(crate) struct RelayConfig {
    /// The address that clients send to. Port 0 selects any free port.
    pub(crate) listen: SocketAddr,
    /// The server's address.
    pub(crate) to: SocketAddr,
    /// The network conditions between clients and server.
    pub(crate) link: LinkConfig,
}

/// A running relay. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    local_address: SocketAddr,
    clock: Clock,
    shared: Arc<Mutex<Report>>,
    /// Stops the thread when dropped.
    stop: Option<Stop>,
    finished: oneshot::Receiver<io::Result<()>>,
}

/// The counters of a relay.
#[derive(Clone, Debug)]
pub(crate) struct RelayStatus {
    /// The counters of the link.
    pub(crate) link: Counters,
    /// The number of clients.
    pub(crate) clients: usize,
    /// Number of datagrams from clients that were dropped because there are too many clients.
    pub(crate) refused_clients: u64,
    /// Number of datagrams that arrived at a client's socket from a sender other than the server.
    pub(crate) strangers: u64,
    /// Number of datagrams that the link delivered but this machine could not send.
    pub(crate) unsent: u64,
    /// Number of deliveries more than 1 ms after their scheduled time, because this machine was
    /// busy.
    pub(crate) late: u64,
    /// Maximum delay of a delivery after its scheduled time.
    pub(crate) worst_lateness: Duration,
    /// The state of the loss window.
    pub(crate) loss_window: LossWindow,
}

impl Relay {
    /// Starts a relay on its own thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the server's address cannot be used, or the socket cannot be opened.
    pub(crate) fn start(config: RelayConfig) -> Result<Self, Failure> {
        let RelayConfig { listen, to, link } = config;
        check_target(to)?;
        let addresses = link.rebind.is_some_and(|rebind| rebind.address);
        if addresses && !matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            return Err(Failure::new(format!("cannot change the source address of datagrams to {to}"))
                .advise("--rebind-address works only with a server at 127.0.0.1; omit it to change only the port"));
        }
        let listener =
            Socket::bind(listen).map_err(|error| Listening::UDP.failed(listen, &error))?;
        let local_address =
            listener.local_address().map_err(|error| Listening::UDP.failed(listen, &error))?;
        let clock = Clock::start();
        let shared = Arc::new(Mutex::new(Report {
            link: Counters::default(),
            clients: 0,
            refused_clients: 0,
            strangers: 0,
            unsent: 0,
            late: 0,
            worst_lateness: Duration::ZERO,
            loss: LossWatch::new(&link),
        }));
        let flows = Flows::new(to, addresses);
        let driver = Driver::new(clock, Link::new(link), (listener, to), flows, shared.clone());
        let cannot_start = |error| Failure::new(format!("cannot start the relay: {error}"));
        let (stopped, stop) = system::stop_pair().map_err(cannot_start)?;
        let (finish, finished) = oneshot::channel();
        thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                // The receiver may have been dropped already.
                let _ = finish.send(driver.run(&stopped));
            })
            .map_err(cannot_start)?;
        Ok(Self { local_address, clock, shared, stop: Some(stop), finished })
    }

    /// Returns the address that the relay listens on.
    pub(crate) const fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Returns the current counters.
    pub(crate) fn status(&self) -> RelayStatus {
        let report = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        RelayStatus {
            link: report.link,
            clients: report.clients,
            refused_clients: report.refused_clients,
            strangers: report.strangers,
            unsent: report.unsent,
            late: report.late,
            worst_lateness: report.worst_lateness,
            loss_window: report.loss.state(self.clock.now()),
        }
    }

    /// Waits until the relay fails, and returns the reason. Cancel-safe.
    pub(crate) async fn failed(&mut self) -> Failure {
        let why = match (&mut self.finished).await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) | Err(_) => "its thread has exited".to_owned(),
        };
        Failure::new(format!("the relay at {} failed: {why}", self.local_address))
    }

    /// Stops the relay. Returns the final counters.
    pub(crate) async fn stop(mut self) -> RelayStatus {
        drop(self.stop.take());
        // An error at this point does not change the counters.
        let _ = (&mut self.finished).await;
        self.status()
    }
}

/// Checks that `to` is a specific address and port: datagrams can be sent to it, and datagrams from
/// it are the server's.
fn check_target(to: SocketAddr) -> Result<(), Failure> {
    if to.ip().is_unspecified() || to.port() == 0 {
        let what = format!("cannot relay to {to}: not a server address");
        return Err(Failure::new(what).advise("use an address and a port such as 127.0.0.1:4433"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
