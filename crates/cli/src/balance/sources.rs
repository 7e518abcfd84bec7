//! The combination of the `--backends` file and its sources, updated whenever one of them changes.
//!
//! Each source has its own task. It publishes its servers whenever they change, or the reason why
//! they are unknown. The previous result stays in use until all sources of a file have published
//! something, and also if servers conflict.

mod bounds;
mod dns;
mod etcd;
mod http;
mod kubernetes;
#[cfg(test)]
mod replay;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::backends::{Backends, Entry, Origin, Source, printable};
use super::own::Own;
use super::watch::Reread;
use crate::failure::Failure;

/// Pause after a failure before a source is retried.
const RETRY: Duration = Duration::from_secs(5);

/// A source's update: its servers, or the reason why they are unknown.
type Update = Result<Vec<Entry>, String>;

/// The file, its sources, and their latest updates.
pub(super) struct Sources {
    file: Backends,
    /// The address that the balancer listens on.
    listen: SocketAddr,
    running: Vec<Running>,
    /// Number of sources started so far.
    started: u64,
    sender: mpsc::Sender<(u64, Update)>,
    receiver: mpsc::Receiver<(u64, Update)>,
}

/// A running source.
struct Running {
    origin: Origin,
    number: u64,
    /// The source's entries; `None` before its first update.
    entries: Option<Vec<Entry>>,
    /// The reason why the source's servers are currently unknown.
    failure: Option<String>,
    task: AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handle through which a source publishes updates.
#[derive(Clone)]
struct Publisher {
    number: u64,
    sender: mpsc::Sender<(u64, Update)>,
}

impl Publisher {
    /// Publishes an update. If the receiver is gone, this task is about to be aborted.
    async fn publish(&self, update: Update) {
        // The text may quote untrusted input.
        let update = update.map_err(|why| printable(&why));
        let _ = self.sender.send((self.number, update)).await;
    }
}

impl Sources {
    /// Starts querying the sources of `file`, for a balancer that listens on this address.
    pub(super) fn start(file: Backends, listen: SocketAddr) -> Self {
        let (sender, receiver) = mpsc::channel(16);
        let running = Vec::new();
        let mut sources = Self { file, listen, running, started: 0, sender, receiver };
        sources.start_new();
        sources
    }

    /// Sets the address that this balancer listens on.
    ///
    /// # Errors
    /// Returns an error if a server of the file has that address.
    pub(super) fn listening_on(&mut self, address: SocketAddr) -> Result<(), Failure> {
        self.listen = address;
        let own = Own::listening_on(address);
        for server in &self.file.servers {
            if let Some(why) = own.fault(server.address) {
                let (name, address) = (&server.name, server.address);
                return Err(Failure::new(format!(
                    "server {name:?} cannot have the address {address}: {why}"
                ))
                .advise("listen on another port, or correct the server's address"));
            }
        }
        Ok(())
    }

    /// Waits for the first update of all sources and returns the combined servers. Until then,
    /// `on_failure` is called with the reason whenever a source's servers are unknown.
    ///
    /// # Errors
    /// Returns an error if servers conflict with each other.
    pub(super) async fn first(&mut self, on_failure: impl Fn(&str)) -> Result<Backends, Failure> {
        loop {
            if let Some(backends) = self.together() {
                return backends;
            }
            if let Some((number, update)) = self.receiver.recv().await
                && let Applied::Failed(failure) = self.apply(number, update)
            {
                on_failure(&failure.to_string());
            }
        }
    }

    /// Sends the combination of the file and its sources, or the error in it, whenever it changes.
    pub(super) async fn run(
        mut self,
        mut file: mpsc::Receiver<Reread>,
        sender: mpsc::Sender<Reread>,
    ) -> Infallible {
        loop {
            let reread = tokio::select! {
                Some(reread) = file.recv() => match reread {
                    Ok(file) => {
                        self.file = file;
                        self.start_new();
                        self.together()
                    }
                    Err(failure) => Some(Err(failure)),
                },
                Some((number, update)) = self.receiver.recv() => match self.apply(number, update) {
                    Applied::New => self.together(),
                    Applied::Failed(failure) => Some(Err(failure)),
                    Applied::Nothing => None,
                },
            };
            if let Some(reread) = reread {
                // If the receiver is gone, the program is about to end.
                let _ = sender.send(reread).await;
            }
        }
    }

    /// Stops the sources that are no longer in the file, and starts the new ones.
    fn start_new(&mut self) {
        let mut before = std::mem::take(&mut self.running);
        for Source { origin, .. } in &self.file.sources {
            let known = before.iter().position(|running| running.origin == *origin);
            let running = match known {
                Some(place) => before.swap_remove(place),
                None => {
                    self.started += 1;
                    let publisher = Publisher { number: self.started, sender: self.sender.clone() };
                    let task = tokio::spawn(ask(origin.clone(), publisher)).abort_handle();
                    let (entries, failure) = (None, None);
                    Running { origin: origin.clone(), number: self.started, entries, failure, task }
                }
            };
            self.running.push(running);
        }
    }

    fn apply(&mut self, number: u64, update: Update) -> Applied {
        let running = self.running.iter_mut().find(|running| running.number == number);
        // The update may come from a source of an earlier file.
        let Some(running) = running else { return Applied::Nothing };
        match update {
            Ok(mut entries) => {
                entries.sort();
                running.failure = None;
                if running.entries.as_ref() == Some(&entries) {
                    return Applied::Nothing;
                }
                running.entries = Some(entries);
                Applied::New
            }
            Err(why) if running.failure.as_ref() == Some(&why) => Applied::Nothing,
            Err(why) => {
                let failure = Failure::new(format!("{}: {why}", running.origin));
                running.failure = Some(why);
                Applied::Failed(failure)
            }
        }
    }

    /// Returns the combined servers of the file and all sources; `None` while a source has not
    /// published anything.
    fn together(&self) -> Option<Reread> {
        let found = self.running.iter().map(|running| running.entries.as_deref());
        let found: Vec<&[Entry]> = found.collect::<Option<_>>()?;
        Some(self.file.with_entries(&found, &Own::listening_on(self.listen)))
    }
}

/// The effect of a source's update.
enum Applied {
    /// The source's servers have changed.
    New,
    /// The source's servers are unknown, for a new reason.
    Failed(Failure),
    /// The source repeats its previous update.
    Nothing,
}

/// Queries a source until the task is aborted.
async fn ask(origin: Origin, publisher: Publisher) {
    match origin {
        Origin::Dns(dns) => dns::ask(&dns, &publisher).await,
        Origin::Etcd(etcd) => etcd::ask(&etcd, &publisher).await,
        Origin::Kubernetes(kubernetes) => kubernetes::ask(&kubernetes, &publisher).await,
    };
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
