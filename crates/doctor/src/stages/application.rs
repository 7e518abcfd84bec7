//! Losses reported by applications, none of which the kernel counts.

use std::collections::BTreeSet;

use crate::examination::{Examination, certain_if, evidence, explain};
use crate::{Application, Cause, Missing, Reading, Snapshot, Stage};

pub(crate) fn application<'a>(it: &'a Snapshot, name: &str) -> Option<&'a Application> {
    it.applications.seen()?.get(name)
}

/// Returns the names of the reporting applications.
pub(crate) fn names(snapshots: &[&Snapshot]) -> BTreeSet<String> {
    let seen = snapshots.iter().filter_map(|it| it.applications.seen());
    seen.flat_map(|applications| applications.keys().cloned()).collect()
}

pub(crate) fn examine(examination: &mut Examination<'_>) {
    if let Some(Reading::Missing(missing)) =
        examination.span.snapshots.last().map(|it| &it.applications)
    {
        let (why, needed) = match missing {
            Missing::NotAsked => {
                ("losses inside applications: no application reports them".to_owned(), None)
            }
            missing => explain("losses inside applications", missing),
        };
        examination.unseen(Stage::Application, why, needed);
    }
    for name in names(&examination.span.snapshots) {
        let mut of = |label: &str, get: fn(&Application) -> u64| {
            let readings = examination.span.values(|it| application(it, &name).map(get));
            let label = format!("{name}: {label}");
            let rise = examination.rise_of(Stage::Application, &label, &readings).unwrap_or(0);
            (rise, evidence(label, rise))
        };
        let truncated = of("truncated reads", |it| it.truncated);
        let queue = of("datagrams dropped because its own queue was full", |it| it.queue_full);
        // Only one counter supports this, and the application may be wrong.
        for (cause, (lost, evidence)) in
            [(Cause::TruncatedReads, truncated), (Cause::ApplicationQueue, queue)]
        {
            examination.find(Stage::Application, cause, lost, certain_if(false), vec![evidence]);
        }
    }
}
