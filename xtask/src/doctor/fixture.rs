//! Converts the snapshots of a fault to test fixtures: files that are small enough for the
//! repository, but contain all data that affects the verdict.

use std::collections::BTreeSet;
use std::path::Path;

use clearway_doctor::{Snapshot, Verdict, decode, diagnose, encode};
use serde_json::Value;

/// Number of snapshots to keep from the end: more than a verdict needs to be certain.
const SNAPSHOTS: usize = 14;
/// Names of counters that are kept because their absence has a meaning, with and without the IPv6
/// prefix.
const NEEDED: [&str; 7] = [
    "InReceives",
    "InDelivers",
    "InDatagrams",
    "InErrors",
    "NoPorts",
    "RcvbufErrors",
    "rx_packets",
];

/// Writes the snapshots needed for the fixture, without counters that are always zero.
///
/// # Errors
/// Returns an error if the snapshots then lead to a different verdict.
pub(super) fn write(saved: &Path, fixture: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = std::fs::read(saved).map_err(|error| failed(saved, error))?;
    let all = decode(&bytes).map_err(|error| error.to_string())?;
    let last = all.get(all.len().saturating_sub(SNAPSHOTS)..).unwrap_or_default();
    let fewer = without_zeros(last).map_err(|error| error.to_string())?;
    let (before, after) = (meaning(&diagnose(&all)), meaning(&diagnose(&fewer)));
    if before != after {
        return Err(format!(
            "the reduced snapshots lead to another verdict: {after} instead of {before}"
        ));
    }
    let lines = fewer.iter().map(encode).collect::<Result<String, _>>();
    let lines = lines.map_err(|error| error.to_string())?;
    std::fs::write(fixture, lines).map_err(|error| failed(fixture, error))
}

fn without_zeros(snapshots: &[Snapshot]) -> Result<Vec<Snapshot>, serde_json::Error> {
    let mut values = snapshots.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    let mut nonzero = BTreeSet::new();
    values.iter().for_each(|value| note(value, "", &mut nonzero));
    values.iter_mut().for_each(|value| prune(value, "", &nonzero, false));
    values.into_iter().map(serde_json::from_value).collect()
}

/// Collects the paths of all nonzero numbers in a JSON value.
fn note(value: &Value, place: &str, nonzero: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            object.iter().for_each(|(key, inner)| note(inner, &format!("{place}/{key}"), nonzero));
        }
        Value::Array(array) => {
            array
                .iter()
                .zip(0..)
                .for_each(|(inner, at)| note(inner, &format!("{place}/{at}"), nonzero));
        }
        Value::Number(number) if number.as_u64() != Some(0) => {
            nonzero.insert(place.to_owned());
        }
        _ => {}
    }
}

/// Removes counters that are zero in all snapshots. Entries are removed only from maps of counters:
/// the values with these names.
fn prune(value: &mut Value, place: &str, nonzero: &BTreeSet<String>, is_counters: bool) {
    const COUNTERS: [&str; 8] =
        ["statistics", "ip", "ip_ext", "tcp_ext", "icmp", "udp", "ipv6", "counters"];
    let is_needed = |key: &str| NEEDED.iter().any(|name| key.ends_with(name));
    match value {
        Value::Object(object) => {
            object.retain(|key, inner| {
                let at = format!("{place}/{key}");
                !is_counters || !inner.is_number() || is_needed(key) || nonzero.contains(&at)
            });
            for (key, inner) in object {
                let inside = COUNTERS.contains(&key.as_str());
                // A separate object states which files were read.
                let inside = inside || (key == "seen" && place.ends_with("/drop_reasons"));
                prune(inner, &format!("{place}/{key}"), nonzero, inside);
            }
        }
        Value::Array(array) => {
            for (inner, at) in array.iter_mut().zip(0..) {
                prune(inner, &format!("{place}/{at}"), nonzero, false);
            }
        }
        _ => {}
    }
}

/// Returns the parts of a verdict that do not depend on how long the host was observed.
fn meaning(verdict: &Verdict) -> String {
    let first: Vec<_> = verdict
        .findings
        .iter()
        .map(|finding| {
            let cause = finding.cause.name();
            format!("{:?}: {cause}, {:?}", finding.stage, finding.certainty)
        })
        .collect();
    format!("{:?} ({})", verdict.outcome, first.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_counters_that_are_always_zero_are_removed() {
        let snapshot = |drops: u64| {
            json!({
                "taken": 0,
                "drop_reasons": {"seen": {"XDP": 0, "NO_SOCKET": drops}},
                "udp": {"InDatagrams": 0, "MemErrors": 0, "SndbufErrors": drops},
            })
        };
        let mut values = [snapshot(0), snapshot(3)];
        let mut nonzero = BTreeSet::new();
        values.iter().for_each(|value| note(value, "", &mut nonzero));
        values.iter_mut().for_each(|value| prune(value, "", &nonzero, false));
        let expected = json!({
            "taken": 0,
            "drop_reasons": {"seen": {"NO_SOCKET": 0}},
            "udp": {"InDatagrams": 0, "SndbufErrors": 0},
        });
        assert_eq!(values[0], expected);
    }
}
