use std::io::IsTerminal;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Hears when the user wants the program to end: Ctrl-C, or what a service manager sends.
#[derive(Debug)]
pub(crate) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed; only who has one is told.
    hang_up: Option<Signal>,
}

/// How the user wanted the program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Ctrl-C.
    Interrupted,
    /// As a service manager does it.
    Terminated,
    /// By closing the terminal.
    HungUp,
}

impl Ended {
    /// The exit status of a program that ends for it with its work undone: as a shell gives it, 128 and
    /// the number of the signal.
    pub(crate) fn exit_status(self) -> u8 {
        let signal = match self {
            Self::Interrupted => Number::INT,
            Self::Terminated => Number::TERM,
            Self::HungUp => Number::HUP,
        };
        // They are all small.
        u8::try_from(signal.as_raw()).map_or(1, |number| number | 0x80)
    }
}

impl Interrupt {
    /// From now on those signals are heard, and do not end the program by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot hear Ctrl-C: {error}")))
        };
        // Whoever hears it gets an error from a write that makes a file too large; nobody waits for it.
        drop(listen(SignalKind::from_raw(Number::XFSZ.as_raw()))?);
        // nohup(1) takes the terminal away, and means it.
        let has_terminal = std::io::stdin().is_terminal();
        let hang_up = has_terminal.then(|| listen(SignalKind::hangup())).transpose()?;
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())?, hang_up })
    }

    /// Waits for the next one.
    pub(crate) async fn heard(&mut self) -> Ended {
        let hung_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Ended::Interrupted,
            _ = self.terminate.recv() => Ended::Terminated,
            _ = hung_up => Ended::HungUp,
        }
    }
}
