//! `clearway view --findings`.

use std::path::Path;

use clearway_qlog::findings::{Closer, Finding, Report, find};
use serde_json::json;

use super::progress::Progress;
use super::{UNREADABLE, ViewCommand, open};
use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::output;

/// Maximum length of a line in bytes: names and reasons in it come from the file and the peer.
const MAX_LINE: usize = 4096;

/// Maximum number of types of unused events to list.
const MAX_NAMES: usize = 8;

/// Prints the findings of each file.
pub(super) fn print(command: &ViewCommand) -> Result<(), Failure> {
    let mut findings = 0_usize;
    let mut unreadable: Option<Failure> = None;
    let mut note = |failure| {
        if let Some(earlier) = unreadable.replace(failure) {
            output::status(&format!("clearway: {earlier}"));
        }
    };
    for path in &command.files {
        match reports(path) {
            Ok(reports) => {
                for report in &reports {
                    findings = findings.saturating_add(report.findings.len());
                    let text = if command.json { object } else { paragraph };
                    output::result(&text(path, report))?;
                }
                if let Some(why) = nothing_read(&reports) {
                    let failure = format!("cannot read {}: {why}", path.display());
                    note(Failure::new(failure).with_exit_status(UNREADABLE));
                }
            }
            Err(failure) => note(failure),
        }
    }
    match (unreadable, findings) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, 1) => Err(Failure::new("one finding")),
        (None, count) => Err(Failure::new(format!("{count} findings"))),
    }
}

fn reports(path: &Path) -> Result<Vec<Report>, Failure> {
    let reader = open(path)?;
    let mut progress = Progress::start(path);
    Ok(find(reader, |bytes| progress.advance(bytes)))
}

/// Returns the reason if no event was read from a file: the absence of findings is then
/// meaningless.
fn nothing_read(reports: &[Report]) -> Option<String> {
    let has_events = reports.iter().any(|report| report.reading.events > 0);
    let damage = reports.iter().find_map(|report| report.reading.damage.as_ref());
    damage.filter(|_| !has_events).map(|damage| format!("{damage}, before its first event"))
}

/// Formats the report as text. Text from the file or the peer is escaped, line by line.
fn paragraph(path: &Path, report: &Report) -> String {
    let lines = lines(path, report);
    let lines: Vec<_> =
        lines.iter().map(|line| Foreign(line).within(MAX_LINE).to_string()).collect();
    lines.join("\n")
}

fn lines(path: &Path, report: &Report) -> Vec<String> {
    let reading = &report.reading;
    let mut lines = vec![format!("{}: {}", path.display(), ended(report))];
    lines.push(format!(
        "  {}, {}, {} events in {:.3} s",
        reading.vantage_point.name(),
        reading.dialect,
        reading.events,
        report.duration.as_secs_f64()
    ));
    if let Some(title) = &reading.title {
        lines.push(format!("  title: {title}"));
    }
    let limits = report.shares.limits.iter();
    let limits: Vec<_> =
        limits.map(|(name, share)| format!("{name} {:.1} %", share * 100.0)).collect();
    if !limits.is_empty() {
        lines.push(format!("  limited by: {}", limits.join(", ")));
    }
    if let Some(damage) = &reading.damage {
        lines.push(format!("  damaged: {damage}; only the data before the damage was read"));
    }
    if let Some(unused) = unused(report) {
        lines.push(format!("  not used: {unused}"));
    }
    if reading.events > 0 && report.findings.is_empty() {
        lines.push("  no findings".to_owned());
    }
    let findings = report.findings.iter().zip(1..);
    lines.extend(findings.flat_map(|(finding, place)| finding_lines(finding, place)));
    lines
}

/// Returns a description of how the connection ended.
fn ended(report: &Report) -> String {
    match report.reading.events {
        0 => "no events".to_owned(),
        _ => report.ending.to_string(),
    }
}

fn unused(report: &Report) -> Option<String> {
    let mut names: Vec<_> = report.reading.unused.iter().collect();
    names.sort_by_key(|(name, count)| (core::cmp::Reverse(**count), (*name).clone()));
    let all = names.len();
    let named = names.iter().take(MAX_NAMES).map(|(name, count)| format!("{count} {name}"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if let Some(rest) = all.checked_sub(MAX_NAMES).filter(|rest| *rest > 0) {
        text.push_str(&format!(" and {rest} other types"));
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Formats a finding as text: the headline, the time range, the metrics as a list, the meaning and
/// the usual causes.
fn finding_lines(finding: &Finding, place: usize) -> Vec<String> {
    let entry = finding.id.entry();
    let headline = format!("{place:>3}. {}", finding.headline);
    let (begin, end) = (finding.begin.as_secs_f64(), finding.end.as_secs_f64());
    let range = format!("{}, {begin:.3} s to {end:.3} s", entry.name);
    let cost = format!("- estimated cost: {:.1} s", finding.severity);
    let metrics = finding.metrics.iter().map(|(name, value)| format!("- {name}: {value}"));
    let texts = [format!("Meaning: {}", entry.meaning), format!("Usual causes: {}", entry.causes)];
    let lines = [range, cost].into_iter().chain(metrics).chain(texts);
    let lines = lines.map(|line| format!("     {line}"));
    core::iter::once(headline).chain(lines).collect()
}

fn object(path: &Path, report: &Report) -> String {
    let reading = &report.reading;
    let findings = report.findings.iter().map(|finding| {
        let entry = finding.id.entry();
        json!({
            "id": entry.name,
            "title": entry.title,
            "severity": finding.severity,
            "begin": finding.begin.as_secs_f64(),
            "end": finding.end.as_secs_f64(),
            "headline": finding.headline,
            "metrics": finding.metrics.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
            "meaning": entry.meaning,
            "causes": entry.causes,
        })
    });
    let damage = reading.damage.as_ref();
    let ending = &report.ending;
    json!({
        "file": path.display().to_string(),
        "title": reading.title,
        "vantage_point": reading.vantage_point.name(),
        "dialect": reading.dialect,
        "events": reading.events,
        "duration": report.duration.as_secs_f64(),
        "ending": {
            "how": ending.kind.name(),
            "at": ending.at.as_secs_f64(),
            "by": ending.by.map(Closer::name),
            "error": ending.error,
            "reason": ending.reason,
            "handshake_complete": ending.handshake_is_complete,
            "failed": ending.is_failure(),
            "text": ended(report),
        },
        "damage": damage.map(|damage| json!({ "offset": damage.offset, "why": damage.why })),
        "unused": reading.unused,
        "limited_by": report.shares.limits.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        "findings": findings.collect::<Vec<_>>(),
    })
    .to_string()
}
