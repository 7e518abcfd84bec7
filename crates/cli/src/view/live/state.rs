//! The state of the followed connection, and how much of it was sent to a page.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clearway_qlog::findings::{Ending, EndingKind, Finding, FindingsBuilder};
use clearway_qlog::model::{Follower, ModelBuilder};
use clearway_qlog::read::{Event, Reading};
use serde_json::{Value, json};

/// Interval at which the findings are recomputed.
const FINDINGS_INTERVAL: Duration = Duration::from_millis(500);

/// The state that is sent to pages.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<Connection>);

/// The followed connection.
#[derive(Debug, Default)]
struct Connection {
    /// Number of connections followed so far.
    number: u64,
    events: u64,
    reading: Reading,
    model: ModelBuilder,
    detectors: FindingsBuilder,
    /// How the connection ended, as far as the events show.
    ending: Option<Ending>,
    findings: Vec<Finding>,
    /// Time at which the findings were last computed, and the number of events before that.
    found: Option<(Instant, u64)>,
}

/// The part of the state that was already sent to a page.
#[derive(Debug, Default)]
pub(super) struct Told {
    connection: u64,
    events: u64,
    findings: usize,
    has_ended: bool,
    follower: Follower,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to follow another connection.
    pub(super) fn begin(&self, name: &str, reading: &Reading) {
        let mut connection = self.lock();
        let title = reading.title.clone().filter(|title| !title.is_empty());
        let reading =
            Reading { title: Some(title.unwrap_or_else(|| name.to_owned())), ..reading.clone() };
        *connection =
            Connection { number: connection.number + 1, reading, ..Connection::default() };
    }

    pub(super) fn on_event(&self, event: &Event) {
        let connection = &mut *self.lock();
        connection.events += 1;
        connection.model.on_event(event);
        connection.detectors.on_event(event);
    }

    /// Returns the next message to a page, if there is an update: its name and its data.
    pub(super) fn news(&self, told: &mut Told) -> Option<(&'static str, Value)> {
        let connection = &mut *self.lock();
        if connection.number == 0 {
            return None;
        }
        if told.connection != connection.number || told.follower.is_outrun(&connection.model) {
            *told = Told { connection: connection.number, ..Told::default() };
            return Some((
                "header",
                json!(Follower::header(&connection.model, &connection.reading)),
            ));
        }
        connection.find();
        let is_news = told.events != connection.events
            || told.findings != connection.findings.len()
            || told.has_ended != connection.has_ended();
        if !is_news {
            return None;
        }
        (told.events, told.findings) = (connection.events, connection.findings.len());
        told.has_ended = connection.has_ended();
        Some((
            "rows",
            json!(told.follower.rows(
                &connection.model,
                connection.ending.as_ref(),
                &connection.findings
            )),
        ))
    }
}

impl Connection {
    fn has_ended(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.kind != EndingKind::Open)
    }

    /// Computes the findings so far, as if the trace ended here.
    fn find(&mut self) {
        let is_due = self
            .found
            .is_none_or(|(at, events)| events != self.events && at.elapsed() >= FINDINGS_INTERVAL);
        if is_due {
            let report = self.detectors.clone().finish(self.reading.clone());
            (self.ending, self.findings) = (Some(report.ending), report.findings);
            self.found = Some((Instant::now(), self.events));
        }
    }
}

#[cfg(test)]
mod tests {
    use clearway_qlog::read::{EventKind, Metrics};
    use serde_json::json;

    use super::*;

    fn window(milliseconds: u64, bytes: u64) -> Event {
        let metrics = Metrics { congestion_window: Some(bytes), ..Metrics::default() };
        Event {
            at: Duration::from_millis(milliseconds),
            kind: EventKind::Metrics(Box::new(metrics)),
        }
    }

    #[test]
    fn everything_is_sent_to_a_page_once_and_a_new_connection_starts_afresh() {
        let (known, mut told) = (Known::default(), Told::default());
        assert_eq!(known.news(&mut told), None);
        known.begin("a", &Reading::default());
        known.on_event(&window(1, 12_000));
        let (name, header) = known.news(&mut told).unwrap();
        assert_eq!((name, &header["title"]), ("header", &json!("a")));
        let (name, rows) = known.news(&mut told).unwrap();
        assert_eq!(name, "rows");
        assert_eq!(rows["series"]["congestion_window"], json!([[1.0, 12_000.0]]));
        assert_eq!(known.news(&mut told), None);
        known.on_event(&window(2, 13_000));
        let (_, rows) = known.news(&mut told).unwrap();
        assert_eq!(rows["series"]["congestion_window"], json!([[2.0, 13_000.0]]));
        known.begin("b", &Reading::default());
        assert_eq!(known.news(&mut told).unwrap().0, "header");
    }
}
