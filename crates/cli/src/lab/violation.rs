//! What is left of a run that violated a property.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use clearway_lab::checker::Violation;
use clearway_lab::log::log;
use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::sweep::Run;
use clearway_qlog::QlogError;

use super::matrix::View;
use crate::failure::Failure;

/// Says what happened in a run that violated a property, runs it once more to leave its qlog file in
/// `folder`, and says how to see it again.
pub(super) fn explain(view: &View<'_>, culprit: &Run, folder: &Path) -> Option<String> {
    let violation = culprit.outcome.violation.as_ref()?;
    let path = folder.join(view.file_name(culprit.seed));
    let made = fs::create_dir_all(folder).map_err(|error| error.to_string());
    let logged = made.and_then(|()| {
        record(view, culprit.seed, &path, Extras { check: true, ..Extras::default() })
            .map_err(|failure| failure.to_string())
    });
    let qlog = match logged {
        Ok(_) => format!("  its qlog file: {}", path.display()),
        Err(why) => format!("  no qlog file: {why}"),
    };
    let (scenario, candidate) = (&view.scenario.name, &view.candidate.name);
    let replay = format!(
        "  to see it again: clearway lab replay {scenario} --controller {candidate} \
         --variant {:?} --seed {}",
        view.variant.name, culprit.seed
    );
    let head = format!(
        "{scenario}, {:?}, {candidate}, seed {}: {}",
        view.variant.name,
        culprit.seed,
        text(violation)
    );
    Some([head, qlog, replay].join("\n"))
}

/// A violation with what happened before it.
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

/// Runs a seed and leaves its qlog file at `path`.
///
/// # Errors
///
/// If the run cannot be made, or the file cannot be written.
pub(super) fn record(
    view: &View<'_>,
    seed: u64,
    path: &Path,
    extras: Extras,
) -> Result<Outcome, Failure> {
    let unwritten = |why: &dyn std::fmt::Display| {
        Failure::new(format!("the qlog file {} cannot be written: {why}", path.display()))
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
    let observers = log(setup, view.candidate, title, file, on_error);
    let observers = observers.map_err(|error| failed(&error))?;
    let extras = Extras { observers: Some(observers), ..extras };
    let outcome = run(setup, view.candidate, seed, extras).map_err(|error| failed(&error))?;
    match error.get() {
        None => Ok(outcome),
        Some(why) => Err(unwritten(why)),
    }
}
