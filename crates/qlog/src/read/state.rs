//! The state of the current trace, and how each part of the file changes it.

use core::time::Duration;

use super::clock::Clock;
use super::envelope::PreparedEvent;
use super::header::{FileHeader, TraceHeader};
use super::prepare::Prepared;
use super::reading::Reading;

/// The current trace.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) reading: Reading,
    clock: Clock,
    groups: Groups,
    /// Whether a contained trace has begun, but its header has not been read yet.
    is_beginning: bool,
    /// The previous trace, which is complete.
    pub(crate) finished: Option<Reading>,
}

/// The result of processing a part of the file.
pub(super) enum Step<T> {
    Event { at: Duration, content: T },
    Trace,
    Nothing,
    Broken(String),
}

impl State {
    pub(super) fn begin(header: &FileHeader<'_>) -> Self {
        let mut state = Self::default();
        header.apply(&mut state.reading, &mut state.clock);
        state.reading.cut_off();
        state
    }

    pub(super) fn take<T>(&mut self, part: Prepared<T>) -> Step<T> {
        match part {
            Prepared::Event(event) => self.event(event),
            Prepared::Nameless(json) => self.another_file(&json),
            Prepared::Header { of_trace, json } => self.header(of_trace, &json),
            Prepared::Trace => {
                self.is_beginning = true;
                Step::Nothing
            }
            Prepared::TooLong => {
                self.reading.count_unused("(records too long to read)");
                Step::Nothing
            }
            Prepared::Nothing => Step::Nothing,
            Prepared::Broken(why) => Step::Broken(why),
        }
    }

    /// Makes the previous trace the current one again, because the one that has just begun will not
    /// be read.
    pub(super) fn go_back(&mut self) {
        if let Some(finished) = self.finished.take() {
            self.reading = finished;
        }
    }

    fn event<T>(&mut self, event: PreparedEvent<T>) -> Step<T> {
        self.reading.events = self.reading.events.saturating_add(1);
        let at = self.clock.read(event.time, event.time_format.as_deref());
        if self.reading.events == 1 {
            self.reading.began = self.clock.began();
        }
        if self.groups.is_of_another_connection(event.group.as_deref()) {
            self.reading.count_unused("(events of other connections)");
            return Step::Nothing;
        }
        Step::Event { at, content: event.content }
    }

    fn header<T>(&mut self, of_trace: bool, json: &[u8]) -> Step<T> {
        let applied = match of_trace {
            true => serde_json::from_slice(json).map(|header| self.trace_header(&header)),
            false => serde_json::from_slice::<FileHeader<'_>>(json).map(|header| {
                header.apply(&mut self.reading, &mut self.clock);
                Step::Nothing
            }),
        };
        self.reading.cut_off();
        match applied {
            Ok(step) => step,
            Err(error) => Step::Broken(format!("unexpected header: {error}")),
        }
    }

    fn trace_header<T>(&mut self, header: &TraceHeader<'_>) -> Step<T> {
        let is_beginning = core::mem::take(&mut self.is_beginning);
        if let Some(why) = header.error().filter(|_| is_beginning) {
            // A tool wrote this entry instead of a trace. It has no events.
            self.reading.count_unused(&format!("(a trace that could not be read: {why})"));
            return Step::Nothing;
        }
        let step = if is_beginning { self.another_trace() } else { Step::Nothing };
        header.apply(&mut self.reading, &mut self.clock);
        // The reference time may be among the members that follow the events.
        self.reading.began = self.clock.began();
        step
    }

    /// Handles a record without a name, which is the beginning of another log if files were
    /// concatenated.
    fn another_file<T>(&mut self, json: &[u8]) -> Step<T> {
        let Ok(header) = serde_json::from_slice::<FileHeader<'_>>(json) else {
            return Step::Nothing;
        };
        if !header.is_qlog() {
            return Step::Nothing;
        }
        let step = self.another_trace();
        header.apply(&mut self.reading, &mut self.clock);
        self.reading.cut_off();
        step
    }

    fn another_trace<T>(&mut self) -> Step<T> {
        self.clock = Clock::default();
        self.groups = Groups::default();
        if self.reading.events == 0 {
            return Step::Nothing;
        }
        let dialect = self.reading.dialect.clone();
        let fresh = Reading { dialect, ..Reading::default() };
        self.finished = Some(core::mem::replace(&mut self.reading, fresh));
        Step::Trace
    }
}

/// The connection that a trace describes, identified by the names in its events.
#[derive(Debug, Default)]
struct Groups {
    present: Option<String>,
    /// Earlier names of the connection: quinn names a connection by its current connection ID.
    former: Vec<String>,
}

impl Groups {
    /// The maximum number of earlier names that are remembered.
    const MAX: usize = 64;

    /// Returns whether an event of `group` belongs to another connection, which is the case if the
    /// connection used that name earlier but no longer does. A new name becomes the connection's
    /// current name.
    fn is_of_another_connection(&mut self, group: Option<&str>) -> bool {
        let Some(group) = group.filter(|group| self.present.as_deref() != Some(group)) else {
            return false;
        };
        if self.former.iter().any(|former| former == group) {
            return true;
        }
        if self.former.len() < Self::MAX
            && let Some(former) = self.present.replace(group.to_owned())
        {
            self.former.push(former);
        }
        false
    }
}
