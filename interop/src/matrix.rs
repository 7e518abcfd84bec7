//! The runner's output: a line for each finished cell, the matrix, and the JSON objects of
//! `--json`.

use std::fmt::Write;

use serde_json::json;

use crate::catalogue::TESTS;
use crate::cell::{Cell, Outcome, Verdict};
use crate::stack::{Controller, Stack};

/// A finished cell and its outcome.
pub(crate) type Done = (Cell, Outcome);

/// Returns the output line for one cell.
pub(crate) fn line((cell, outcome): &Done) -> String {
    let Cell { client, server, test, controller } = cell;
    let result = outcome.result.name();
    let detail = match outcome.detail.as_str() {
        "" => String::new(),
        detail => format!("  {detail}"),
    };
    format!(
        "{result:<11} {client} <- {server}  {} {}  {controller}{detail}",
        test.letter, test.name
    )
}

/// Returns the JSON object for one cell.
pub(crate) fn object((cell, outcome): &Done) -> String {
    let mut object = json!({
        "client": cell.client.name(),
        "server": cell.server.name(),
        "test": cell.test.name,
        "controller": cell.controller.name(),
        "result": outcome.result.name(),
        "detail": outcome.detail,
    });
    if let Some(rate) = outcome.kilobits_per_second {
        object["kilobits_per_second"] = json!(rate.round());
    }
    object.to_string()
}

/// Returns the matrix. For each client, server and controller, it shows the letters of the tests,
/// grouped by result, and the measurements.
pub(crate) fn table(done: &[Done]) -> String {
    let mut rows: Vec<(Stack, Stack, Controller)> = Vec::new();
    for (cell, _) in done {
        let row = (cell.client, cell.server, cell.controller);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut text = String::new();
    for row in rows {
        let of_row = |(cell, _): &&Done| (cell.client, cell.server, cell.controller) == row;
        let of_row: Vec<&Done> = done.iter().filter(of_row).collect();
        let (client, server, controller) = row;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nclient {client}, server {server}, {controller}");
        for verdict in [Verdict::Ok, Verdict::Unsupported, Verdict::Failed] {
            let letters = letters(&of_row, verdict);
            if !letters.is_empty() {
                let count = letters.len();
                let name = verdict.name();
                let _ = writeln!(text, "  {name:<11} {count:>2}  {}", letters.join(" "));
            }
        }
        for (cell, outcome) in of_row.iter().filter(|(cell, _)| cell.test.is_measurement()) {
            let _ = writeln!(text, "  {:<14} {}", cell.test.name, outcome.detail);
        }
    }
    text
}

/// Returns the letters of the tests with this result, in the order of the catalog. Measurements
/// are included only if they failed.
fn letters(done: &[&Done], verdict: Verdict) -> Vec<&'static str> {
    let in_order = TESTS.iter().filter(|test| {
        let has_result = |(cell, outcome): &&&Done| {
            cell.test.name == test.name
                && outcome.result == verdict
                && (verdict != Verdict::Ok || !test.is_measurement())
        };
        done.iter().any(|done| has_result(&done))
    });
    in_order.map(|test| test.letter).collect()
}

/// Returns a summary with the number of cells for each result.
pub(crate) fn summary(done: &[Done]) -> String {
    let count = |verdict| done.iter().filter(|(_, outcome)| outcome.result == verdict).count();
    format!(
        "{} ok, {} failed, {} unsupported",
        count(Verdict::Ok),
        count(Verdict::Failed),
        count(Verdict::Unsupported)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;

    fn done(letter: &str, result: Verdict) -> Done {
        let cell = Cell {
            client: Stack::Clearway,
            server: Stack::Quinn,
            test: find(letter).unwrap(),
            controller: Controller::Cubic,
        };
        (cell, Outcome::new(result, "because"))
    }

    #[test]
    fn the_matrix_lists_letters_by_result() {
        let cells = [
            done("S", Verdict::Ok),
            done("H", Verdict::Ok),
            done("V2", Verdict::Unsupported),
            done("G", Verdict::Ok),
        ];
        let table = table(&cells);
        assert!(table.contains("client clearway, server quinn, cubic"), "{table}");
        assert!(table.contains("ok           2  H S\n"), "{table}");
        assert!(table.contains("unsupported  1  V2\n"), "{table}");
        assert!(table.contains("goodput        because"), "{table}");
        assert_eq!(summary(&cells), "3 ok, 0 failed, 1 unsupported");
    }

    #[test]
    fn an_object_has_what_is_documented() {
        let object: serde_json::Value =
            serde_json::from_str(&object(&done("H", Verdict::Failed))).unwrap();
        let expected = json!({
            "client": "clearway", "server": "quinn", "test": "handshake", "controller": "cubic",
            "result": "failed", "detail": "because",
        });
        assert_eq!(object, expected);
    }
}
