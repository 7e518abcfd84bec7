//! The results of the scenarios, as a progress line, a table row or a JSON object.

use std::fmt::Write;

use serde_json::{Value, json};

use super::Scenario;
use super::judge::Facts;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) scenario: Scenario,
    /// Number of connections: downloading ones, those opened during the scenario, and probes.
    connections: usize,
    /// Number of downloads started, and of downloads completed.
    begun: u64,
    complete: u64,
    /// Datagrams received by servers other than the running one that their connection IDs identify.
    misrouted: u64,
    /// Stateless resets sent by the servers.
    resets: u64,
    seconds: f64,
    /// Additional observations for the reader.
    pub(super) note: String,
    /// The violated requirements; empty if the scenario has passed.
    pub(super) faults: Vec<String>,
}

impl Row {
    pub(super) fn new(scenario: Scenario, facts: &Facts, seconds: f64) -> Self {
        let sum = |value: fn(&super::fleet::Member) -> u64| facts.members.iter().map(value).sum();
        Self {
            scenario,
            connections: facts.members.len() + facts.openings.len() + facts.probes(),
            begun: sum(|member| member.begun),
            complete: sum(|member| member.complete),
            misrouted: facts.strays.misrouted,
            resets: facts.resets,
            seconds,
            note: facts.note(),
            faults: facts.faults(),
        }
    }

    /// Returns the row of a scenario that could not be checked.
    pub(super) fn failed(scenario: Scenario, why: String) -> Self {
        Self {
            scenario,
            connections: 0,
            begun: 0,
            complete: 0,
            misrouted: 0,
            resets: 0,
            seconds: 0.0,
            note: String::new(),
            faults: vec![why],
        }
    }

    fn verdict(&self) -> &'static str {
        if self.faults.is_empty() { "passed" } else { "FAILED" }
    }

    /// Returns a progress message.
    pub(super) fn progress(&self) -> String {
        let Self { scenario, complete, begun, seconds, note, .. } = self;
        let (name, verdict) = (scenario.name(), self.verdict());
        let mut text = format!("{name} {verdict}: {complete} of {begun} downloads, {seconds:.1} s");
        for more in std::iter::once(note).chain(&self.faults).filter(|it| !it.is_empty()) {
            let _ = write!(text, "; {more}");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "scenario": self.scenario.name(),
            "connections": self.connections,
            "downloads": self.begun,
            "complete": self.complete,
            "misrouted": self.misrouted,
            "resets": self.resets,
            "seconds": (self.seconds * 1000.0).round() / 1000.0,
            "note": self.note,
            "faults": self.faults,
            "passed": self.faults.is_empty(),
        })
    }
}

/// Returns the table, followed by the failures.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<22} {:>11} {:>18} {:>9} {:>6} {:>7} verdict\n",
        "scenario", "connections", "downloads complete", "misrouted", "resets", "seconds"
    );
    for row in rows {
        let downloads = format!("{} of {}", row.complete, row.begun);
        let _ = writeln!(
            text,
            "{:<22} {:>11} {downloads:>18} {:>9} {:>6} {:>7.1} {}",
            row.scenario.name(),
            row.connections,
            row.misrouted,
            row.resets,
            row.seconds,
            row.verdict(),
        );
    }
    for row in rows {
        for fault in &row.faults {
            let _ = writeln!(text, "{}: {fault}", row.scenario.name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Stack};
    use super::*;

    fn row(faults: &[&str]) -> Row {
        Row {
            scenario: Scenario { stack: Stack::QuicGoOpaque, event: Event::Drain },
            connections: 250,
            begun: 120,
            complete: 118,
            misrouted: 3,
            resets: 2,
            seconds: 8.25,
            note: "a note".to_owned(),
            faults: faults.iter().map(|&it| it.to_owned()).collect(),
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_scenario_and_each_fault() {
        let expected = "\
scenario               connections downloads complete misrouted resets seconds verdict
quic-go-opaque/drain           250         118 of 120         3      2     8.2 passed
quic-go-opaque/drain           250         118 of 120         3      2     8.2 FAILED
quic-go-opaque/drain: 3 datagrams
quic-go-opaque/drain: 2 resets
";
        assert_eq!(text(&[row(&[]), row(&["3 datagrams", "2 resets"])]), expected);
    }

    #[test]
    fn progress_and_objects_say_the_same() {
        let row = row(&["2 resets"]);
        let said = "quic-go-opaque/drain FAILED: 118 of 120 downloads, 8.2 s; a note; 2 resets";
        assert_eq!(row.progress(), said);
        let object = row.json();
        assert_eq!(object["passed"], json!(false));
        assert_eq!(object["complete"], json!(118));
        assert_eq!(object["faults"], json!(["2 resets"]));
    }
}
