//! The signals that end a program.

use std::io::IsTerminal;
use std::sync::Arc;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::failure::Failure;

/// Receives the signals with which a user or a service manager ends the program: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP, when the terminal is closed; `None` if the program has no terminal.
    hang_up: Option<Signal>,
    /// All are notified of SIGHUP while the terminal is still there, or if there never was one. Without any SIGHUP always ends
    /// the program.
    reload: Vec<Arc<Notify>>,
    /// Whether the program was started in a terminal.
    has_terminal: bool,
}

/// The signal that ended the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// SIGINT: Ctrl-C.
    Interrupted,
    /// SIGTERM, as service managers send it.
    Terminated,
    /// SIGHUP: the terminal was closed.
    HungUp,
}

impl Ended {
    /// The exit status of a program that this signal ended before its work was done: 128 plus the number of
    /// the signal, as shells report it.
    pub fn exit_status(self) -> u8 {
        let signal = match self {
            Self::Interrupted => Number::INT,
            Self::Terminated => Number::TERM,
            Self::HungUp => Number::HUP,
        };
        // The numbers are all less than 128.
        u8::try_from(signal.as_raw()).map_or(1, |number| number | 0x80)
    }
}

impl Interrupt {
    /// Installs the handlers: from now on these signals do not end the program by default.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))
        };
        // With a handler for SIGXFSZ, a write that makes a file too large returns an error instead of ending the
        // program. Nobody waits for the signal itself.
        drop(listen(SignalKind::from_raw(Number::XFSZ.as_raw()))?);
        // nohup(1) detaches the program from the terminal, so that it survives the terminal's end.
        let has_terminal = std::io::stdin().is_terminal();
        let hang_up = has_terminal.then(|| listen(SignalKind::hangup())).transpose()?;
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate, hang_up, reload: Vec::new(), has_terminal })
    }

    /// As [`listen`](Self::listen), but SIGHUP ends the program only when its terminal was closed. Otherwise, as for other
    /// servers, it means to read the configuration again, and each of the `N` that are returned is notified.
    pub fn listen_and_reload<const N: usize>() -> Result<(Self, [Arc<Notify>; N]), Failure> {
        let mut interrupt = Self::listen()?;
        let reload = core::array::from_fn(|_| Arc::new(Notify::new()));
        if interrupt.hang_up.is_none() {
            let hang_up = signal(SignalKind::hangup())
                .map_err(|error| Failure::new(format!("cannot handle SIGHUP: {error}")))?;
            interrupt.hang_up = Some(hang_up);
        }
        interrupt.reload = reload.to_vec();
        Ok((interrupt, reload))
    }

    /// Waits for the next signal that ends the program.
    pub async fn received(&mut self) -> Ended {
        loop {
            let hung_up = async {
                match &mut self.hang_up {
                    Some(hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => return Ended::Interrupted,
                _ = self.terminate.recv() => return Ended::Terminated,
                _ = hung_up => {
                    // A terminal that was closed is none any more.
                    let is_there = !self.has_terminal || std::io::stdin().is_terminal();
                    if self.reload.is_empty() || !is_there {
                        return Ended::HungUp;
                    }
                    self.reload.iter().for_each(|reload| reload.notify_one());
                }
            }
        }
    }
}
