//! The doctor's view: the path of datagrams, with the rate and the losses at each stage.

use clearway_doctor::{
    Certainty, Finding, Mark, Outcome, Scope, Snapshot, Stage, Verdict, diagnose_for, passing,
};

use crate::foreign::Foreign;

/// The content of the view at one point in time.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct View {
    pub(super) headline: String,
    pub(super) outcome: Outcome,
    /// The stages of the receive path, starting at the device, and then those of the send path,
    /// starting at the application.
    pub(super) rows: Vec<Row>,
    /// The findings, the recommended actions, and what could not be observed, as lines.
    pub(super) details: Vec<String>,
}

/// A row of the view: one stage.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub(super) stage: Stage,
    /// Packets that pass the stage per second, if they are counted.
    pub(super) rate: Option<f64>,
    pub(super) mark: Mark,
    /// The stage's losses and their causes.
    pub(super) text: String,
}

impl View {
    /// Creates the view of these snapshots.
    pub(super) fn of(snapshots: &[Snapshot], scope: Scope) -> (Self, Verdict) {
        let verdict = diagnose_for(snapshots, scope);
        let rates = passing(snapshots);
        let row = |stage| row(stage, rates.get(&stage).copied(), &verdict);
        let view = Self {
            headline: verdict.headline(),
            outcome: verdict.outcome,
            rows: Stage::ALL.into_iter().map(row).collect(),
            details: details(&verdict),
        };
        (view, verdict)
    }

    /// Formats the entire view as lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.headline.clone(), String::new()];
        for row in &self.rows {
            lines.extend(row.heading().map(str::to_owned));
            lines.push(row.line());
        }
        lines.push(String::new());
        lines.extend(self.details.iter().cloned());
        lines
    }
}

impl Row {
    /// Returns the heading above the stage, if it is the first one in its direction.
    pub(super) fn heading(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Device => Some("receiving"),
            Stage::SendSocket => Some("sending"),
            _ => None,
        }
    }

    pub(super) fn line(&self) -> String {
        let mark = match self.mark {
            Mark::NotSeen => " ?",
            Mark::Loses => " >",
            Mark::Worst => ">>",
            _ => "  ",
        };
        let rate = self.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}/s"));
        let title = self.stage.title();
        format!("{mark} {title:<20} {rate:>12}  {}", self.text).trim_end().to_owned()
    }
}

fn row(stage: Stage, rate: Option<f64>, verdict: &Verdict) -> Row {
    let mark = verdict.mark(stage);
    let text = match mark {
        Mark::NotSeen => "only partly visible".to_owned(),
        _ => verdict
            .findings
            .iter()
            .filter(|it| it.stage == stage)
            .map(lost)
            .collect::<Vec<_>>()
            .join(", "),
    };
    Row { stage, rate, mark, text }
}

/// Describes a finding in a few words.
fn lost(finding: &Finding) -> String {
    let sure = match finding.certainty {
        Certainty::Certain => "",
        Certainty::Possible => "?",
    };
    let cause = finding.cause.name().replace('_', " ");
    let word = if finding.cause.is_stray() { "stray" } else { "lost" };
    let below = if finding.is_above_floor { "" } else { " (below the floor)" };
    format!("{} {word}: {cause}{sure}{below}", finding.rate())
}

fn details(verdict: &Verdict) -> Vec<String> {
    let findings = verdict.findings.iter();
    let mut lines: Vec<String> = findings
        .flat_map(|finding| finding.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines
        .extend(verdict.elsewhere.iter().map(|it| format!("Elsewhere on this host: {}", lost(it))));
    for unseen in &verdict.unseen {
        let needed = unseen.needed.as_ref().map(|needed| format!(" (needed: {})", Foreign(needed)));
        lines.push(format!("Not visible: {}{}", Foreign(&unseen.why), needed.unwrap_or_default()));
    }
    lines.extend(
        verdict.oddities.iter().map(|it| format!("What prevents a conclusion: {}", Foreign(it))),
    );
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::slow;
    use super::*;

    /// Returns the view of a host with a slow reader.
    pub(crate) fn view() -> View {
        let verdict = slow(7, 4433);
        View {
            headline: verdict.headline(),
            outcome: verdict.outcome,
            rows: Stage::ALL.into_iter().map(|stage| row(stage, Some(12.4), &verdict)).collect(),
            details: details(&verdict),
        }
    }

    #[test]
    fn the_stage_that_loses_is_marked() {
        let lines = view().lines();
        let marked: Vec<_> = lines.iter().filter(|line| line.starts_with(">>")).collect();
        assert_eq!(marked.len(), 1);
        assert!(marked[0].contains("socket") && marked[0].contains("1,000/s lost: rate"));
        assert!(marked[0].contains("12/s"));
        assert!(lines.iter().any(|line| line.contains("20,000/s")), "{lines:?}");
    }

    #[test]
    fn without_snapshots_it_is_unknown() {
        let (view, verdict) = View::of(&[], Scope::Host);
        assert_eq!((view.outcome, verdict.outcome), (Outcome::Unknown, Outcome::Unknown));
        assert!(view.rows.iter().all(|row| row.rate.is_none()));
    }
}
