//! The results of benchmarks, as lines, JSON or Markdown tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::{median, round, sorted};

/// A comparison of Clearway with a peer.
pub(super) struct Row {
    pub(super) case: String,
    /// The endpoint that is compared, and the endpoint at the other end; empty if the comparison is
    /// not of pairs.
    pub(super) place: String,
    /// The Clearway API that was used.
    pub(super) face: &'static str,
    pub(super) peer: &'static str,
    pub(super) unit: String,
    /// The values of Clearway and of the peer, each the median over the rounds.
    pub(super) values: [f64; 2],
    pub(super) ratio: Ratio,
    /// Number of decimal places to print.
    pub(super) digits: usize,
    /// Remarks on the two values, one for each.
    pub(super) notes: [String; 2],
    /// Additional fields of the JSON object.
    pub(super) more: Vec<(String, f64)>,
}

/// The JSON field for the ratio that would be possible if the other endpoint of a pair used its
/// whole core.
pub(super) const RATIO_LIMIT: &str = "ratio_limit";

/// Clearway's value divided by the peer's, for each round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Ratio {
    /// Returns the ratios of the values that were measured in the same round.
    pub(super) fn of(ours: &[f64], theirs: &[f64]) -> Self {
        let ratios = sorted(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect());
        Self { median: median(&ratios), least: ratios[0], most: ratios[ratios.len() - 1] }
    }
}

/// A value that describes the machine and is not compared with a peer.
pub(super) struct Figure {
    pub(super) case: String,
    pub(super) unit: &'static str,
    /// The values, in order of measurement.
    pub(super) values: Vec<f64>,
}

/// The results of a benchmark.
#[derive(Default)]
pub(super) struct Results {
    pub(super) figures: Vec<Figure>,
    pub(super) rows: Vec<Row>,
    /// Conclusions for the reader, without line feeds.
    pub(super) conclusions: Vec<String>,
    /// Benchmarks that failed; the other results are still valid.
    pub(super) failures: Vec<String>,
}

impl Results {
    /// Prints all results, one per line.
    ///
    /// # Errors
    /// Returns an error if a benchmark has failed.
    pub(super) fn print(&self, as_json: bool) -> Result<(), String> {
        for figure in &self.figures {
            if as_json { println!("{}", figure.json()) } else { println!("{}", figure.line()) }
        }
        for row in &self.rows {
            if as_json { println!("{}", row.json()) } else { println!("{}", row.line()) }
        }
        if !as_json {
            self.conclusions.iter().for_each(|conclusion| println!("{conclusion}"));
        }
        self.verdict()
    }

    /// Checks that no benchmark has failed.
    ///
    /// # Errors
    /// Returns an error if a benchmark has failed.
    pub(super) fn verdict(&self) -> Result<(), String> {
        match self.failures.as_slice() {
            [] => Ok(()),
            some => Err(format!("some runs failed:\n  {}", some.join("\n  "))),
        }
    }

    /// Returns a table with a column for each peer.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        if !self.figures.is_empty() {
            text += "| | | spread |\n|---|---|---|\n";
            for Figure { case, unit, values } in &self.figures {
                let all = sorted(values.clone());
                let (least, most) = (all[0], all[all.len() - 1]);
                let median = median(&all);
                let _ = writeln!(text, "| {case} | {median:.2} {unit} | {least:.2} to {most:.2} |");
            }
            text.push('\n');
        }
        if !self.rows.is_empty() {
            text += &table(&self.rows);
            text.push('\n');
        }
        for conclusion in &self.conclusions {
            let _ = writeln!(text, "{conclusion}  ");
        }
        text
    }
}

/// Returns a table in which rows that differ only in the peer share a line.
fn table(rows: &[Row]) -> String {
    let mut peers = Vec::new();
    let mut lines: Vec<[String; 3]> = Vec::new();
    let mut cells = BTreeMap::new();
    for row in rows {
        if !peers.contains(&row.peer) {
            peers.push(row.peer);
        }
        let case = format!("{} ({})", row.case, row.unit);
        let line = [case, row.place.replace(row.peer, "the peer"), row.face.to_owned()];
        if !lines.contains(&line) {
            lines.push(line.clone());
        }
        let ([ours, theirs], digits) = (row.values, row.digits);
        let Ratio { median, least, most } = row.ratio;
        let cell = format!(
            "{ours:.digits$} : {theirs:.digits$} = **{median:.2}** ({least:.2} to {most:.2})"
        );
        cells.insert((line, row.peer), cell);
    }
    let mut text = format!("| | Clearway as | API | {} |\n", peers.join(" | "));
    let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(peers.len()));
    for line in lines {
        let _ = write!(text, "| {} |", line.join(" | "));
        for peer in &peers {
            let cell = cells.get(&(line.clone(), *peer)).map_or("", String::as_str);
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}

impl Figure {
    fn json(&self) -> Value {
        let all = sorted(self.values.clone());
        json!({
            "case": self.case,
            "value": round(median(&all)),
            "unit": self.unit,
            "min": round(all[0]),
            "max": round(all[all.len() - 1]),
        })
    }

    fn line(&self) -> String {
        let all = sorted(self.values.clone());
        let (median, least, most) = (median(&all), all[0], all[all.len() - 1]);
        format!("{}: {median:.2} {} ({least:.2} to {most:.2})", self.case, self.unit)
    }
}

impl Row {
    fn title(&self) -> String {
        match self.place.as_str() {
            "" => self.case.clone(),
            place => format!("{}, {place}", self.case),
        }
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("case", self.title().into());
        put("face", self.face.into());
        put("clearway", round(self.values[0]).into());
        put("peer", self.peer.into());
        put("peer_value", round(self.values[1]).into());
        put("unit", self.unit.as_str().into());
        put("ratio", round(self.ratio.median).into());
        put("ratio_min", round(self.ratio.least).into());
        put("ratio_max", round(self.ratio.most).into());
        for (key, value) in &self.more {
            put(key, round(*value).into());
        }
        object.into()
    }

    fn line(&self) -> String {
        let Self { face, peer, unit, digits, notes, .. } = self;
        let ([ours, theirs], digits) = (self.values, *digits);
        let Ratio { median, least, most } = self.ratio;
        let limit = self.more.iter().find(|(key, _)| key == RATIO_LIMIT);
        let limit = limit.map_or_else(String::new, |(_, limit)| {
            format!("; {limit:.2} if the other end used all of its core")
        });
        let [our_note, their_note] = [&notes[0], &notes[1]]
            .map(|note| if note.is_empty() { String::new() } else { format!(" ({note})") });
        format!(
            "{}, {face}: clearway {ours:.digits$} {unit}{our_note}, {peer} {theirs:.digits$} {unit}{their_note}, \
             ratio {median:.2} ({least:.2} to {most:.2}){limit}",
            self.title(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(place: &str, peer: &'static str) -> Row {
        let (ours, theirs) = ([12.0, 11.0, 14.0], [6.0, 5.0, 8.0]);
        Row {
            case: "bulk".to_owned(),
            place: place.to_owned(),
            face: "async",
            peer,
            unit: "Gbit/s".to_owned(),
            values: [12.0, 6.0],
            ratio: Ratio::of(&ours, &theirs),
            digits: 1,
            notes: ["0.7 s".to_owned(), "1.4 s".to_owned()],
            more: vec![("clearway_cpu_s_per_gib".to_owned(), 0.7)],
        }
    }

    #[test]
    fn ratios_are_those_of_rounds() {
        let ratio = Ratio::of(&[12.0, 11.0, 14.0], &[6.0, 5.0, 8.0]);
        assert_eq!(ratio, Ratio { median: 2.0, least: 1.75, most: 2.2 });
        // A failed run leaves one of the series shorter.
        assert_eq!(Ratio::of(&[1.0, 9.0], &[2.0]).most, 0.5);
    }

    #[test]
    fn an_object_has_the_fields_of_all_benchmarks() {
        let expected = json!({
            "case": "bulk, server of quinn", "face": "async", "clearway": 12.0, "peer": "quinn",
            "peer_value": 6.0, "unit": "Gbit/s", "ratio": 2.0, "ratio_min": 1.75, "ratio_max": 2.2,
            "clearway_cpu_s_per_gib": 0.7,
        });
        assert_eq!(row("server of quinn", "quinn").json(), expected);
        assert_eq!(row("", "quinn").json()["case"], "bulk");
        assert_eq!(
            row("server of quinn", "quinn").line(),
            "bulk, server of quinn, async: clearway 12.0 Gbit/s (0.7 s), quinn 6.0 Gbit/s (1.4 s), ratio 2.00 \
             (1.75 to 2.20)"
        );
    }

    #[test]
    fn a_table_has_a_column_for_each_peer() {
        let rows = vec![
            row("server of clearway", "quinn"),
            row("server of clearway", "quic-go"),
            row("server of quinn", "quinn"),
        ];
        let cell = "12.0 : 6.0 = **2.00** (1.75 to 2.20)";
        let expected = format!(
            "\
| | Clearway as | API | quinn | quic-go |
|---|---|---|---|---|
| bulk (Gbit/s) | server of clearway | async | {cell} | {cell} |
| bulk (Gbit/s) | server of the peer | async | {cell} |  |
"
        );
        assert_eq!(table(&rows), expected);
        let results = Results { rows, ..Results::default() };
        assert_eq!(results.markdown(), format!("{expected}\n"));
    }

    #[test]
    fn failures_are_said_at_the_end() {
        let failures = vec!["quinn with quic-go".to_owned()];
        let results = Results { failures, ..Results::default() };
        assert!(results.print(false).is_err_and(|error| error.contains("quinn with quic-go")));
        assert_eq!(Results::default().print(true), Ok(()));
    }
}
