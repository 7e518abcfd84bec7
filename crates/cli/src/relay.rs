//! A UDP relay that does to datagrams in real time what a [`Link`] does in virtual time.
//!
//! One thread moves all datagrams. It sleeps until one comes or the link has one due, to the
//! nanosecond that the kernel's timers allow. A client is known by its address; every client gets a
//! socket of its own towards the server, and another one each time the link says that the NAT has
//! forgotten it.

mod clock;
mod driver;
mod flows;
mod loss_window;
mod socket;

use std::io::{self, PipeWriter};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clearway_network::{Counters, Link, LinkConfig};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::listening::Listening;
use clock::Clock;
use driver::{Driver, Report};
use flows::Flows;
use loss_window::LossWatch;
use socket::Socket;

pub(crate) use loss_window::LossWindow;

/// What a relay does.
#[derive(Clone, Debug)]
pub(crate) struct RelayConfig {
    /// Where clients send to. Port 0 takes any.
    pub(crate) listen: SocketAddr,
    /// Where the server is.
    pub(crate) to: SocketAddr,
    /// What happens in between.
    pub(crate) link: LinkConfig,
}

/// A running relay. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    local_address: SocketAddr,
    clock: Clock,
    shared: Arc<Mutex<Report>>,
    /// Closing it tells the thread to end.
    stop: Option<PipeWriter>,
    finished: oneshot::Receiver<io::Result<()>>,
}

/// What a relay has done so far.
#[derive(Clone, Debug)]
pub(crate) struct RelayStatus {
    /// What the link has done.
    pub(crate) link: Counters,
    /// How many clients there are.
    pub(crate) clients: usize,
    /// Datagrams of clients for which there was no place.
    pub(crate) refused_clients: u64,
    /// Datagrams that did not come from the server but were sent to a client's socket.
    pub(crate) strangers: u64,
    /// Datagrams that the link delivered and this machine could not send.
    pub(crate) unsent: u64,
    /// Deliveries that came more than 1 ms after their time: this machine was busy.
    pub(crate) late: u64,
    /// By how much the latest delivery came after its time.
    pub(crate) worst_lateness: Duration,
    /// Where it is with respect to its loss window.
    pub(crate) loss_window: LossWindow,
}

impl Relay {
    /// Starts a relay on a thread of its own.
    ///
    /// # Errors
    ///
    /// If the addresses do not fit together or the socket cannot be had.
    pub(crate) fn start(config: RelayConfig) -> Result<Self, Failure> {
        let RelayConfig { listen, to, link } = config;
        check_target(to)?;
        let addresses = link.rebind.is_some_and(|rebind| rebind.address);
        if addresses && !matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            return Err(Failure::new(format!("cannot send to {to} from changing addresses"))
                .advise("that works only towards a server at 127.0.0.1; else only ports change"));
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
        let (stopped, stop) = io::pipe().map_err(cannot_start)?;
        let (finish, finished) = oneshot::channel();
        thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                // Nobody may be there any more to hear it.
                let _ = finish.send(driver.run(&stopped));
            })
            .map_err(cannot_start)?;
        Ok(Self { local_address, clock, shared, stop: Some(stop), finished })
    }

    /// Where it listens.
    pub(crate) const fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// What it has done so far.
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

    /// Waits until it cannot go on. Safe to cancel.
    pub(crate) async fn failed(&mut self) -> Failure {
        let why = match (&mut self.finished).await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) | Err(_) => "its thread has ended".to_owned(),
        };
        Failure::new(format!("the relay at {} cannot go on: {why}", self.local_address))
    }

    /// Stops it and says what it has done.
    pub(crate) async fn stop(mut self) -> RelayStatus {
        drop(self.stop.take());
        // An error that comes this late changes nothing about what was done.
        let _ = (&mut self.finished).await;
        self.status()
    }
}

/// Whether datagrams can be sent there, and answers told from those of strangers.
fn check_target(to: SocketAddr) -> Result<(), Failure> {
    if to.ip().is_unspecified() || to.port() == 0 {
        let what = format!("cannot relay to {to}: that is no server's address");
        return Err(Failure::new(what).advise("give an address and a port such as 127.0.0.1:4433"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
