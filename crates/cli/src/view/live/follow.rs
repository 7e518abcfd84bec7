//! Reads the logs of connections, one after another.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use clearway_qlog::read::{Event, QlogReader, Reading, TraceVisitor, visit_traces};

use super::origin::{Listed, Origin};
use super::state::Known;
use crate::output;

/// The interval between requests for the list of connections.
const INTERVAL: Duration = Duration::from_millis(300);

/// Follows the connections at `origin`. Never returns.
pub(super) fn follow(origin: &Origin, known: &Known) {
    let mut shown = BTreeSet::new();
    let mut complaint = None;
    loop {
        match origin.list() {
            Ok(listed) => {
                complaint = None;
                shown.retain(|name| listed.iter().any(|it| it.name == *name));
                if let Some(name) = choose(&listed, &shown) {
                    show(origin, &name, known);
                    shown.insert(name);
                    continue;
                }
            }
            Err(why) if complaint.as_ref() != Some(&why) => {
                let authority = origin.authority();
                output::status(&format!("waiting for a server with --live {authority}: {why}"));
                complaint = Some(why);
            }
            Err(_) => {}
        }
        sleep(INTERVAL);
    }
}

/// Returns the newest live connection that was not shown yet. If none was shown yet, an ended
/// connection may be returned.
fn choose(listed: &[Listed], shown: &BTreeSet<String>) -> Option<String> {
    let living = listed.iter().rev().find(|it| !it.has_ended && !shown.contains(&it.name));
    let ended = || listed.last().filter(|_| shown.is_empty());
    living.or_else(ended).map(|it| it.name.clone())
}

fn show(origin: &Origin, name: &str, known: &Known) {
    let reader =
        origin.open(name).and_then(|log| QlogReader::new(log).map_err(|error| error.to_string()));
    let reader = match reader {
        Ok(reader) => reader,
        Err(why) => return output::status(&format!("cannot follow {name}: {why}")),
    };
    output::status(&format!("following {name}"));
    let begin = |reading: &Reading| {
        known.begin(name, reading);
        Followed(known)
    };
    visit_traces(reader, begin, |_| {});
}

/// A log whose events are shown as they arrive.
struct Followed<'a>(&'a Known);

impl TraceVisitor for Followed<'_> {
    type Output = ();

    fn on_event(&mut self, event: Event) {
        self.0.on_event(&event);
    }

    fn finish(self, _reading: Reading) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_in_progress_is_shown_first() {
        let listed = |names: &[(&str, bool)]| -> Vec<Listed> {
            let listed = |(name, has_ended): &(&str, bool)| Listed {
                name: (*name).to_owned(),
                has_ended: *has_ended,
            };
            names.iter().map(listed).collect()
        };
        let none = BTreeSet::new();
        let both = listed(&[("a", false), ("b", false), ("c", true)]);
        assert_eq!(choose(&both, &none).as_deref(), Some("b"));
        let shown = BTreeSet::from(["b".to_owned()]);
        assert_eq!(choose(&both, &shown).as_deref(), Some("a"));
        let over = listed(&[("a", true), ("b", true)]);
        assert_eq!(choose(&over, &none).as_deref(), Some("b"));
        assert_eq!(choose(&over, &shown), None);
    }
}
