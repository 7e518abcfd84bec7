//! The report on a run that violated a property.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use clearway_lab::checker::Violation;
use clearway_lab::end::EndId;
use clearway_lab::log::log;
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
    let (scenario, candidate) = (&view.scenario.name, &view.candidate.name);
    let replay = format!(
        "  to reproduce it: {} replay {} --controller {candidate} --variant {} --seed {}",
        invocation(),
        word(&view.scenario.file),
        word(&view.variant.name),
        culprit.seed
    );
    let head = format!(
        "{scenario}, {:?}, {candidate}, seed {}: {}",
        view.variant.name,
        culprit.seed,
        text(violation)
    );
    Some([head, qlog, replay].join("\n"))
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
    use clearway_units::Timestamp;

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
        let clean = Outcome { violation: None, ..outcome };
        assert_eq!(explain(&view, &Run { seed: 4, outcome: clean }, &folder), None);
    }
}
