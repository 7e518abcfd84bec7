//! Lanes: states over time.

use core::time::Duration;

use super::columns::Columns;
use super::header::{LaneHeader, milliseconds};

/// The maximum number of names of a lane, and the length in characters at which they are truncated.
const MAX_NAMES: u16 = 256;
const MAX_NAME: usize = 100;

/// A sequence of states.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Lane {
    id: &'static str,
    title: &'static str,
    names: Vec<String>,
    /// The states that have ended: begin, end, and index of the name.
    spans: Vec<(f64, f64, u16)>,
    /// The current state: begin, and index of the name.
    now: Option<(f64, u16)>,
    maximum: usize,
    /// Whether states were left out because there were too many of them.
    is_cut: bool,
}

impl Lane {
    /// Creates an empty lane that keeps at most `maximum` states.
    pub(super) const fn new(id: &'static str, title: &'static str, maximum: usize) -> Self {
        Self { id, title, names: Vec::new(), spans: Vec::new(), now: None, maximum, is_cut: false }
    }

    /// Sets the state from `at` on to `name`, or to none.
    pub(super) fn set(&mut self, at: Duration, name: Option<&str>) {
        let number = name.and_then(|name| self.number(name));
        if self.now.map(|(_, number)| number) == number {
            return;
        }
        self.end(at);
        self.now = number.map(|number| (milliseconds(at), number));
    }

    /// Sets the state from `at` on to `name` if no state is known yet.
    pub(super) fn assume(&mut self, at: Duration, name: &str) {
        if self.spans.is_empty() && self.now.is_none() {
            self.set(at, Some(name));
        }
    }

    fn end(&mut self, at: Duration) {
        if let Some((begin, number)) = self.now.take()
            && (begin < milliseconds(at) || !self.spans.is_empty())
        {
            match self.spans.len() < self.maximum {
                true => self.spans.push((begin, milliseconds(at), number)),
                false => self.is_cut = true,
            }
        }
    }

    /// Returns the index of a name. `None` if there are too many names.
    fn number(&mut self, name: &str) -> Option<u16> {
        let name = name
            .char_indices()
            .nth(MAX_NAME)
            .map_or(name, |(end, _)| name.get(..end).unwrap_or(name));
        if let Some(place) = self.names.iter().position(|known| known == name) {
            return u16::try_from(place).ok();
        }
        let place = u16::try_from(self.names.len()).ok().filter(|place| *place < MAX_NAMES)?;
        self.names.push(name.to_owned());
        Some(place)
    }

    /// Returns whether states were left out because there were too many of them.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Ends the current state at the end of the trace.
    pub(super) fn finish(mut self, at: Duration) -> Self {
        self.end(at);
        self
    }

    /// Returns the ended states after the first `count`, and then the current state, which has no
    /// end.
    pub(super) fn since(&self, count: usize) -> impl Iterator<Item = (f64, Option<f64>, &str)> {
        let over = self.spans.get(count..).unwrap_or_default();
        let over = over.iter().map(|(begin, end, name)| (*begin, Some(*end), *name));
        let now = self.now.map(|(begin, name)| (begin, None, name));
        let name = |number: u16| self.names.get(usize::from(number)).map_or("", String::as_str);
        over.chain(now).map(move |(begin, end, number)| (begin, end, name(number)))
    }

    pub(super) const fn id(&self) -> &'static str {
        self.id
    }

    pub(super) const fn title(&self) -> &'static str {
        self.title
    }

    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn write(&self, columns: &mut Columns) -> LaneHeader {
        let begin = columns.f64(self.spans.iter().map(|(begin, _, _)| *begin));
        let end = columns.f64(self.spans.iter().map(|(_, end, _)| *end));
        let state = columns.u16(self.spans.iter().map(|(_, _, state)| *state));
        LaneHeader {
            id: self.id.to_owned(),
            title: self.title.to_owned(),
            names: self.names.clone(),
            begin: Some(begin),
            end: Some(end),
            state: Some(state),
        }
    }
}
