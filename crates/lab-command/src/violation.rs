//! The reports on runs that violated a property or missed a bound.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use clearway_lab::checker::Violation;
use clearway_lab::end::EndId;
use clearway_lab::log::log;
use clearway_lab::report::{Row, Verdict};
use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::sweep::Run;
use clearway_qlog::QlogError;

use super::invocation::invocation;
use super::matrix::View;
use clearway_terminal::failure::Failure;
use clearway_terminal::shell::word;

/// Describes the violation in a run, and includes the command that reproduces it. Repeats the run
/// to write the qlog file of the affected endpoint to `folder`.
pub(super) fn explain(view: &View<'_>, culprit: &Run, folder: &Path) -> Option<String> {
    let violation = culprit.outcome.violation.as_ref()?;
    let path = folder.join(view.file_name(culprit.seed));
    let made = fs::create_dir_all(folder).map_err(|error| error.to_string());
    let logged = made.and_then(|()| {
        let extras = Extras { check: true, ..Extras::default() };
        record(view, culprit.seed, Some(violation.end), &path, extras)
            .map_err(|failure| failure.to_string())
    });
    let qlog = match logged {
        Ok(_) => format!("  its qlog file: {}", path.display()),
        Err(why) => format!("  no qlog file: {why}"),
    };
    let head = format!("{}: {}", name(view, culprit.seed), text(violation));
    Some([head, qlog, replay(view, culprit.seed)].join("\n"))
}

/// Describes the first expectation in `row` that a run does not meet, and includes the command that
/// reproduces the run.
pub(super) fn explain_unmet(view: &View<'_>, row: &Row) -> Option<String> {
    let unmet = |verdict: &Verdict| Some((verdict.unmet()?, *verdict.seeds.first()?));
    let (unmet, seed) = row.verdicts.iter().find_map(unmet)?;
    Some(format!("{}: not as expected: {unmet}\n{}", name(view, seed), replay(view, seed)))
}

/// Returns the name of a run in reports.
pub(super) fn name(view: &View<'_>, seed: u64) -> String {
    let View { scenario, variant, candidate, .. } = view;
    format!("{}, {:?}, {}, seed {seed}", scenario.name, variant.name, candidate.name)
}

/// Returns the line with the command that reproduces a run.
fn replay(view: &View<'_>, seed: u64) -> String {
    format!(
        "  to reproduce it: {} replay {} --controller {} --variant {} --seed {seed}",
        invocation(),
        word(&view.scenario.file),
        view.candidate.name,
        word(&view.variant.name)
    )
}

/// Formats a violation and the events before it.
pub(super) fn text(violation: &Violation) -> String {
    let mut lines = vec![format!(
        "property {} was violated after {:.6} s at the {} of flow {}: {}",
        violation.property,
        violation.at.since_origin().as_secs_f64(),
        violation.end.side.name(),
        violation.end.flow,
        violation.explanation
    )];
    lines.extend(violation.last_events.iter().map(|event| format!("    {event}")));
    lines.join("\n")
}

/// Runs a seed and writes the qlog file of `end` to `path`. The run continues after a violation, so
/// that the file shows the consequences.
///
/// # Errors
///
/// Returns an error if the run cannot be performed, or the file cannot be written.
pub(super) fn record(
    view: &View<'_>,
    seed: u64,
    end: Option<EndId>,
    path: &Path,
    extras: Extras,
) -> Result<Outcome, Failure> {
    let unwritten = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write the qlog file {}: {why}", path.display()))
    };
    let file = File::create(path).map_err(|error| unwritten(&error))?;
    let error = Arc::new(OnceLock::new());
    let keep = error.clone();
    let on_error = Arc::new(move |why: &QlogError| keep.set(why.to_string()).unwrap_or_default());
    let setup = &view.variant.setup;
    let title = format!(
        "lab, {}, {}, {}, seed {seed}",
        view.scenario.name, view.variant.name, view.candidate.name
    );
    let failed = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    let observers = log(setup, view.candidate, title, end, file, on_error);
    let observers = observers.map_err(|error| failed(&error))?;
    let extras = Extras { observers: Some(observers), goes_on: true, ..extras };
    let outcome = run(setup, view.candidate, seed, extras).map_err(|error| failed(&error))?;
    match error.get() {
        None => Ok(outcome),
        Some(why) => Err(unwritten(why)),
    }
}

#[cfg(test)]
mod tests {
    use clearway_lab::end::{EndId, Side};
    use clearway_lab::scenario::Scenario;
    use clearway_lab::sweep::Swept;
    use clearway_units::Timestamp;

    use std::time::Duration;

    use super::super::matrix::Matrix;
    use super::super::selection::Selection;
    use super::*;

    const SCENARIO: &str = "\
summary = \"A small download.\"
[network]
delay = \"5ms\"
[[flow]]
name = \"download\"
traffic = { download = \"20kB\" }
[[variant]]
name = \"two words\"
";

    fn violation() -> Violation {
        Violation {
            property: "L1",
            at: Timestamp::from_nanos(1_500_000_000),
            end: EndId { flow: 0, side: Side::Server },
            explanation: "the window did not grow".to_owned(),
            last_events: vec!["an ACK arrived".to_owned()],
        }
    }

    #[test]
    fn a_report_on_a_late_run_names_its_seed() {
        let text = format!("{SCENARIO}\n[expect]\nwithin = \"1ms\"\n");
        let scenario = Scenario::parse("small", &text, Path::new("")).unwrap();
        let selection = Selection::of("cubic", &["two words"]);
        let matrix = Matrix::new(vec![scenario], &selection, 3, Some(2)).unwrap();
        let view = matrix.view(0).unwrap();
        let setup = &view.variant.setup;
        let one = |seed| Run {
            seed,
            outcome: run(setup, view.candidate, seed, Extras::default()).unwrap(),
        };
        let swept = Swept { runs: vec![one(3), one(4)], wall: Duration::ZERO };
        let text = explain_unmet(&view, &view.row(&swept)).unwrap();
        let head = "small, \"two words\", cubic, seed 3: not as expected: every run within 0.001 s: \
            2 of 2 runs were late (seeds 3, 4; the longest: 0.";
        assert!(text.starts_with(head), "{text}");
        let replay = " replay small.toml --controller cubic --variant 'two words' --seed 3";
        assert!(text.contains("\n  to reproduce it: ") && text.ends_with(replay), "{text}");
    }

    #[test]
    fn a_report_has_everything_needed_to_reproduce_the_violation() {
        let scenario = Scenario::parse("small", SCENARIO, Path::new("")).unwrap();
        let selection = Selection::of("cubic", &["two words"]);
        let matrix = Matrix::new(vec![scenario], &selection, 0, Some(1)).unwrap();
        let view = matrix.view(0).unwrap();
        let setup = &view.variant.setup;
        let outcome = run(setup, view.candidate, 4, Extras::default()).unwrap();
        let outcome = Outcome { violation: Some(violation()), ..outcome };
        let folder = std::env::temp_dir().join(format!("clearway-lab-{}", std::process::id()));
        let text = explain(&view, &Run { seed: 4, outcome: outcome.clone() }, &folder).unwrap();
        let file = folder.join("small-cubic-two_words-4.sqlog");
        for part in [
            "small, \"two words\", cubic, seed 4",
            "property L1 was violated after 1.500000 s at the server of flow 0: the window",
            "    an ACK arrived",
            &file.display().to_string(),
            " replay small.toml --controller cubic --variant 'two words' --seed 4",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(fs::read(&file).unwrap().starts_with(b"\x1e{"));

        // If the file cannot be written, the other information is still reported.
        let text = explain(&view, &Run { seed: 4, outcome: outcome.clone() }, &file).unwrap();
        assert!(text.contains("no qlog file") && text.contains("replay"), "{text}");
        fs::remove_dir_all(&folder).unwrap();
        let clean = Outcome { violation: None, ..outcome.clone() };
        assert_eq!(explain(&view, &Run { seed: 4, outcome: clean }, &folder), None);
    }
}
