//! Tasks that wait until sending on a stream has ended.

use core::task::Context;
use std::collections::BTreeMap;

use super::{AppState, Effects, WakerSlot};

/// Number of the watcher that belongs to the stream's handle. Other watchers have higher numbers.
pub(crate) const HANDLE: u64 = 0;

/// Any number of waiting tasks. A watcher stays until it is removed, also after it was woken, so
/// that the outcome is kept until all of them have seen it.
#[derive(Default)]
pub(crate) struct Watchers {
    last: u64,
    tasks: BTreeMap<u64, WakerSlot>,
}

impl Watchers {
    /// Adds a watcher, and returns its number.
    pub(crate) fn add(&mut self) -> u64 {
        self.last += 1;
        self.tasks.insert(self.last, WakerSlot::default());
        self.last
    }

    /// Registers the task of `context` to be woken on behalf of a watcher.
    pub(crate) fn register<F: AppState>(
        &mut self,
        number: u64,
        context: &Context<'_>,
        effects: &mut Effects<F>,
    ) {
        self.tasks.entry(number).or_default().register(context, effects);
    }

    /// Removes a watcher without waking its task.
    pub(super) fn remove<F: AppState>(&mut self, number: u64, effects: &mut Effects<F>) {
        if let Some(mut task) = self.tasks.remove(&number) {
            task.clear(effects);
        }
    }

    /// Wakes the tasks of all watchers.
    pub(super) fn wake<F: AppState>(&mut self, effects: &mut Effects<F>) {
        for task in self.tasks.values_mut() {
            task.wake(effects);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
