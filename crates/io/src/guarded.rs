//! Calls to what users of the library wrote. A panic there ends one connection, not its shard.

use std::panic::{AssertUnwindSafe, catch_unwind};

use clearway_transport::{Connection, Statistics};
use clearway_units::Timestamp;

use crate::application::Application;

/// The application's code panicked. The panic hook has printed where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Panicked;

/// Calls `act`. What it was in the middle of changing may only be dropped after it panicked.
pub(crate) fn guarded<T>(act: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| {
        // Dropping what the panic carries may panic as well; then it is left alone.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// An application, or none any more after it panicked.
pub(crate) struct Guarded(Option<Box<dyn Application>>);

impl Guarded {
    pub(crate) fn new(make: impl FnOnce() -> Box<dyn Application>) -> Result<Self, Panicked> {
        guarded(make).map(|application| Self(Some(application)))
    }

    /// One that does nothing.
    pub(crate) fn gone() -> Self {
        Self(None)
    }

    pub(crate) fn process(
        &mut self,
        now: Timestamp,
        connection: &mut Connection,
    ) -> Result<(), Panicked> {
        self.call(|application| application.process(now, connection))
    }

    /// Says farewell and drops the application.
    pub(crate) fn closed(mut self, statistics: &Statistics) -> Result<(), Panicked> {
        self.call(|application| application.closed(statistics))?;
        self.forget()
    }

    fn call(&mut self, act: impl FnOnce(&mut Box<dyn Application>)) -> Result<(), Panicked> {
        let Some(application) = &mut self.0 else { return Ok(()) };
        let outcome = guarded(|| act(application));
        if outcome.is_err() {
            // One panic of an application is reported once.
            let _ = self.forget();
        }
        outcome
    }

    fn forget(&mut self) -> Result<(), Panicked> {
        let application = self.0.take();
        guarded(|| drop(application))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The shard ends, and this one's panic must not keep the others from being dropped.
        let _ = self.forget();
    }
}
