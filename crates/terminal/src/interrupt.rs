//! The signals that end a program.
//!
//! A dedicated thread receives them, so that they arrive even while the program's threads are
//! blocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::failure::Failure;
pub use crate::system::Ended;
use crate::system::Signals;

/// Grace period after the second signal, for example to remove incomplete files.
const GRACE: Duration = Duration::from_millis(500);

/// Whether the program has been interrupted twice.
static IS_URGENT: AtomicBool = AtomicBool::new(false);

/// Returns whether the program has been interrupted twice and therefore must not wait for anything
/// else.
pub(crate) fn is_urgent() -> bool {
    IS_URGENT.load(Ordering::Relaxed)
}

/// Receives the signals with which a user or a service manager ends the program: SIGINT (Ctrl-C),
/// SIGTERM and SIGHUP. On Windows, the corresponding events are Ctrl-C; Ctrl-Break and shutdown;
/// and closing of the console and logoff. The program is terminated if it does not exit within half
/// a second of the second signal, or if nothing is waiting for the first one.
#[derive(Debug)]
pub struct Interrupt(Receiver<Ended>);

impl Failure {
    /// Creates the failure of a command that the user ended early; `what` states the consequence
    /// for the command's result.
    pub fn interrupted(signal: Ended, what: impl Into<String>) -> Self {
        Self::new(what).with_exit_status(signal.exit_status())
    }
}

impl Interrupt {
    /// Installs the handlers, which replace the default action of these signals.
    ///
    /// # Errors
    ///
    /// Returns an error if the system rejects a signal handler or cannot start a thread.
    pub fn listen() -> Result<Self, Failure> {
        Self::start(Vec::new())
    }

    /// Like [`listen`](Self::listen), but SIGHUP ends the program only if its terminal was closed.
    /// Otherwise it requests a reload, as in other servers, and notifies all `N` returned handles.
    /// On Windows, nothing requests a reload.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`listen`](Self::listen).
    pub fn listen_and_reload<const N: usize>() -> Result<(Self, [Arc<Notify>; N]), Failure> {
        let reload = core::array::from_fn(|_| Arc::new(Notify::new()));
        Ok((Self::start(reload.to_vec())?, reload))
    }

    fn start(reload: Vec<Arc<Notify>>) -> Result<Self, Failure> {
        let (sender, receiver) = channel(1);
        let (starting, started) = sync_channel(1);
        let thread = move || {
            // This is a dedicated runtime, which tasks of the program cannot delay.
            let runtime = Builder::new_current_thread().enable_io().build();
            let listen = |runtime: Runtime| {
                let signals = runtime.block_on(async { Signals::listen(reload) })?;
                Ok((runtime, signals))
            };
            // The other end waits for this result.
            match runtime.and_then(listen) {
                Ok((runtime, signals)) => {
                    let _ = starting.send(Ok(()));
                    runtime.block_on(pass_on(signals, &sender));
                }
                Err(error) => drop(starting.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("clearway-signals".to_owned()).spawn(thread);
        thread
            .and_then(|_| started.recv().unwrap_or_else(|error| Err(std::io::Error::other(error))))
            .map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
        Ok(Self(receiver))
    }

    /// Waits for the next signal that ends the program.
    pub async fn received(&mut self) -> Ended {
        match self.0.recv().await {
            Some(ended) => ended,
            // The thread ends only with the program.
            None => std::future::pending().await,
        }
    }
}

/// Forwards the signals to the program, and terminates it if it does not exit after the second one.
async fn pass_on(mut signals: Signals, program: &Sender<Ended>) {
    let mut is_first = true;
    loop {
        let ended = signals.next().await;
        let is_heard = program.try_send(ended).is_ok();
        if !is_first || !is_heard {
            IS_URGENT.store(true, Ordering::Relaxed);
            thread::sleep(GRACE);
            std::process::exit(ended.exit_status().into());
        }
        is_first = false;
    }
}
