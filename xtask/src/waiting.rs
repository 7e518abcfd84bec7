//! Waits for other programs until the user interrupts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Set when the user interrupts this program. All waits then return, and everything that was
/// created is removed.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Interval at which an interrupt is checked for.
pub(crate) const POLLING: Duration = Duration::from_millis(10);

/// Makes Ctrl-C and SIGTERM stop everything in order.
pub(crate) fn watch_signals() -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, INTERRUPTED.clone())
            .map_err(|error| format!("cannot handle signal {signal}: {error}"))?;
    }
    Ok(())
}

/// Checks whether the user has interrupted this program.
///
/// # Errors
/// Returns an error if the user has interrupted this program.
pub(crate) fn check_interrupt() -> Result<(), String> {
    match INTERRUPTED.load(Ordering::Relaxed) {
        true => Err("interrupted".to_owned()),
        false => Ok(()),
    }
}

/// Waits until `is_done` returns true or the time limit expires, and returns whether `is_done`
/// returned true in time.
///
/// # Errors
/// Returns the error of `is_done`, or an error if the user interrupts.
pub(crate) fn wait_until(
    limit: Duration,
    mut is_done: impl FnMut() -> Result<bool, String>,
) -> Result<bool, String> {
    let began = Instant::now();
    loop {
        check_interrupt()?;
        if is_done()? {
            return Ok(true);
        }
        if began.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(POLLING);
    }
}

/// Sleeps for `time`.
///
/// # Errors
/// Returns an error if the user interrupts.
pub(crate) fn pause(time: Duration) -> Result<(), String> {
    let began = Instant::now();
    wait_until(time, || Ok(began.elapsed() >= time)).map(drop)
}
