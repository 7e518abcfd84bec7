//! Runs a long task, which the user can interrupt, on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_terminal::failure::Failure;
use clearway_terminal::interrupt::{Ended, Interrupt};
use clearway_terminal::output;

/// The messages for interrupted work.
pub(super) struct Words {
    /// The message that is printed at the first interrupt.
    pub(super) on_interrupt: &'static str,
    /// The description of the unfinished work.
    pub(super) undone: &'static str,
}

/// Performs `work`, which must end early once the flag passed to it is set; the first interrupt
/// sets it. The second interrupt ends the program immediately.
///
/// # Errors
///
/// Returns an error if `work` fails or was interrupted.
pub(super) async fn interruptible<F>(work: F, words: Words) -> Result<(), Failure>
where
    F: FnOnce(&AtomicBool) -> Result<(), Failure> + Send + 'static,
{
    let mut interrupt = Interrupt::listen()?;
    let is_ended = Arc::new(AtomicBool::new(false));
    let mut work = {
        let is_ended = is_ended.clone();
        tokio::task::spawn_blocking(move || work(&is_ended))
    };
    let mut signal: Option<Ended> = None;
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            received = interrupt.received() => {
                if signal.replace(received).is_some() {
                    return Err(Failure::interrupted(received, "interrupted"));
                }
                is_ended.store(true, Ordering::Relaxed);
                output::status(words.on_interrupt);
            }
        }
    };
    let outcome =
        outcome.unwrap_or_else(|error| Err(Failure::new(format!("the work panicked: {error}"))));
    match signal {
        None => outcome,
        Some(signal) => {
            let unmet = outcome.err().map_or_else(String::new, |failure| format!("; {failure}"));
            Err(Failure::interrupted(signal, format!("interrupted: {}{unmet}", words.undone)))
        }
    }
}
