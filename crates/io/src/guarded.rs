//! Guarded calls of application code. A panic there ends one connection, not its shard.

use core::cell::Cell;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clearway_transport::{Connection, Observation, Observer, Statistics};
use clearway_units::Timestamp;

use crate::application::Application;

/// Marks that application code panicked. The panic hook has already printed the location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Panicked;

thread_local! {
    /// Number of panics caught on this thread, which belongs to one shard.
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of panics caught on this thread.
pub(crate) fn panics() -> u64 {
    PANICS.get()
}

/// Calls the application code `act` on a shard's thread. If it panics, this counts the panic in
/// [`ShardStatistics::panics`](crate::ShardStatistics::panics), logs `consequence` as a `tracing`
/// event, and returns `None`. `consequence` describes what panicked and what happens as a result.
///
/// State that `act` was changing when it panicked must only be dropped afterward.
pub fn guard<T>(consequence: &str, act: impl FnOnce() -> T) -> Option<T> {
    guarded(consequence, act).ok()
}

/// Calls `act`; see [`guard`].
pub(crate) fn guarded<T>(consequence: &str, act: impl FnOnce() -> T) -> Result<T, Panicked> {
    caught(act).map_err(|panic| {
        PANICS.set(PANICS.get() + 1);
        tracing::error!(%panic, "{consequence}");
        Panicked
    })
}

/// Calls `act`, and returns the message of its panic as an error.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| {
        let message = message(&*payload);
        // Dropping the panic payload may panic as well; it is leaked then.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        message
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the panic has no message").to_owned()
}

/// An observer that is dropped when it panics.
pub(crate) struct GuardedObserver(Option<Box<dyn Observer>>);

impl GuardedObserver {
    pub(crate) fn guard(observer: Option<Box<dyn Observer>>) -> Option<Box<dyn Observer>> {
        observer.map(|observer| Box::new(Self(Some(observer))) as Box<dyn Observer>)
    }
}

impl Observer for GuardedObserver {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        let Some(observer) = &mut self.0 else { return };
        let consequence = "observer panicked; its connection continues without an observer";
        if guarded(consequence, || observer.observe(now, observation)).is_err() {
            let observer = self.0.take();
            // Report a panicking observer only once.
            let _ = caught(|| drop(observer));
        }
    }
}

impl Drop for GuardedObserver {
    fn drop(&mut self) {
        if let Some(observer) = self.0.take() {
            let _ = guarded("observer panicked while being dropped", || drop(observer));
        }
    }
}

const ENDS_CONNECTION: &str = "application panicked; its connection is closed with INTERNAL_ERROR";

/// An application whose panics are caught; `None` once it has panicked.
pub(crate) struct Guarded(Option<Box<dyn Application>>);

impl Guarded {
    pub(crate) fn new(make: impl FnOnce() -> Box<dyn Application>) -> Result<Self, Panicked> {
        guarded(ENDS_CONNECTION, make).map(|application| Self(Some(application)))
    }

    /// Returns an application that does nothing.
    pub(crate) fn gone() -> Self {
        Self(None)
    }

    /// Runs the application. Returns the time at which to run the application again.
    pub(crate) fn process(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
    ) -> Result<Option<Timestamp>, Panicked> {
        let mut deadline = None;
        let outcome = self.call(ENDS_CONNECTION, |application| {
            application.process(now, connection);
            deadline = application.deadline();
        });
        outcome.map(|()| deadline)
    }

    /// Returns the number of bytes that the application buffers.
    pub(crate) fn held_bytes(&mut self) -> u64 {
        let mut held = 0;
        let _ = self.call(ENDS_CONNECTION, |application| held = application.held_bytes());
        held
    }

    /// Notifies the application that the connection is closed, and drops it.
    pub(crate) fn closed(mut self, statistics: &Statistics) -> Result<(), Panicked> {
        const WAS_GONE: &str = "application panicked after its connection had ended";
        self.call(WAS_GONE, |application| application.closed(statistics))?;
        let application = self.0.take();
        guarded(WAS_GONE, || drop(application))
    }

    fn call(
        &mut self,
        consequence: &str,
        act: impl FnOnce(&mut Box<dyn Application>),
    ) -> Result<(), Panicked> {
        let Some(application) = &mut self.0 else { return Ok(()) };
        let outcome = guarded(consequence, || act(application));
        if outcome.is_err() {
            self.forget();
        }
        outcome
    }

    /// Drops the application, and reports a panicking application only once.
    fn forget(&mut self) {
        let application = self.0.take();
        let _ = caught(|| drop(application));
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The shard is ending, and a panic in this application must not prevent other applications
        // from being dropped.
        self.forget();
    }
}
