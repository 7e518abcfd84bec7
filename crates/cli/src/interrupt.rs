use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Hears when the user wants the program to end: Ctrl-C, or what a service manager sends.
#[derive(Debug)]
pub(crate) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

/// How the user wanted the program to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Ctrl-C.
    Interrupted,
    /// As a service manager does it.
    Terminated,
}

impl Ended {
    /// The exit status of a program that ends for it with its work undone: as a shell gives it, 128 and
    /// the number of the signal.
    pub(crate) const fn exit_status(self) -> u8 {
        match self {
            Self::Interrupted => 128 + 2,
            Self::Terminated => 128 + 15,
        }
    }
}

impl Interrupt {
    /// From now on those signals are heard, and do not end the program by themselves.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot hear Ctrl-C: {error}")))
        };
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(crate) async fn heard(&mut self) -> Ended {
        tokio::select! {
            _ = self.interrupt.recv() => Ended::Interrupted,
            _ = self.terminate.recv() => Ended::Terminated,
        }
    }
}
