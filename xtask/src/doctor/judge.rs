//! Checks whether a verdict is correct.

use clearway_doctor::{Cause, Certainty, Finding, Outcome, Stage, Verdict};

use super::faults::Expected;

/// How correct a verdict is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Grade {
    /// The verdict is as expected.
    Right,
    /// The verdict is undecided, or has the right stage but not the cause.
    Open,
    /// The verdict is wrong, but stated only as possible.
    Wrong,
    /// The verdict is wrong and stated as certain. This includes "no loss" if datagrams are lost.
    CertainlyWrong,
}

/// A short form of the verdict, and how correct it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Judgement {
    pub(super) grade: Grade,
    /// The verdict: `no loss`, `stray`, `unknown`, or the cause of the largest loss.
    pub(super) said: String,
    /// Errors in the verdict apart from the cause.
    pub(super) faults: Vec<String>,
}

/// Parses a verdict from JSON.
pub(crate) fn read(output: &str) -> Result<Verdict, String> {
    serde_json::from_str(output)
        .map_err(|error| format!("cannot parse the verdict: {error}: {output}"))
}

/// Checks a verdict. The command that printed it exited with `status`.
pub(super) fn judge(expected: Expected, verdict: &Verdict, status: Option<i32>) -> Judgement {
    let mut faults = Vec::new();
    if status.is_some_and(|status| status != i32::from(verdict.outcome.exit_status())) {
        faults.push(format!(
            "the outcome is {:?}, but the exit status is {status:?}",
            verdict.outcome
        ));
    }
    if let Expected::Two([_, second]) = expected
        && !verdict.findings.iter().any(|finding| is(finding, second))
    {
        faults.push(format!("the verdict does not include the other fault, {}", second.1));
    }
    Judgement { grade: grade(expected, verdict), said: said(verdict), faults }
}

fn grade(expected: Expected, verdict: &Verdict) -> Grade {
    let worst = worst(verdict);
    let worse = match worst.map(|finding| finding.certainty) {
        Some(Certainty::Possible) => Grade::Wrong,
        _ => Grade::CertainlyWrong,
    };
    let wanted = match expected {
        Expected::NoLoss if verdict.outcome == Outcome::NoLoss => return Grade::Right,
        Expected::Unknown if verdict.outcome == Outcome::Unknown => return Grade::Right,
        Expected::Stray if verdict.outcome == Outcome::Stray => return Grade::Right,
        Expected::NotSeen(stage) if verdict.outcome != Outcome::Loss => {
            return match verdict.unseen.iter().any(|unseen| unseen.stage == stage) {
                true => Grade::Right,
                false => Grade::CertainlyWrong,
            };
        }
        Expected::NoLoss | Expected::Unknown | Expected::Stray | Expected::NotSeen(_) => None,
        Expected::Loss(stage, cause) | Expected::Two([(stage, cause), _]) => Some((stage, cause)),
    };
    match (verdict.outcome, worst, wanted) {
        (Outcome::Unknown, ..) => Grade::Open,
        (_, Some(finding), Some(wanted)) if is(finding, wanted) => Grade::Right,
        (_, Some(finding), Some((stage, _))) if finding.stage == stage && is_open(finding) => {
            Grade::Open
        }
        (_, Some(_), _) => worse,
        _ => Grade::CertainlyWrong,
    }
}

/// Returns the finding with the largest loss, which determines the verdict.
fn worst(verdict: &Verdict) -> Option<&Finding> {
    match verdict.outcome {
        Outcome::Loss => verdict.findings.first(),
        _ => None,
    }
}

/// Returns whether a finding does not determine the cause.
fn is_open(finding: &Finding) -> bool {
    matches!(finding.cause, Cause::Other | Cause::Overflow(_))
}

fn is(finding: &Finding, (stage, cause): (Stage, &str)) -> bool {
    finding.stage == stage && finding.cause.name() == cause
}

fn said(verdict: &Verdict) -> String {
    match (verdict.outcome, verdict.findings.first()) {
        (Outcome::NoLoss, _) => "no loss".to_owned(),
        (Outcome::Stray, _) => "stray".to_owned(),
        (Outcome::Loss, Some(finding)) => finding.cause.name().to_owned(),
        (Outcome::Unknown | Outcome::Loss, _) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clearway_doctor::{Queue, Starvation, Unseen};

    use super::*;

    fn finding(stage: Stage, cause: Cause, certainty: Certainty) -> Finding {
        let (evidence, actions) = (Vec::new(), Vec::new());
        Finding {
            stage,
            cause,
            lost: 1,
            per_second: 1.0,
            share: Some(0.5),
            is_above_floor: true,
            certainty,
            evidence,
            actions,
            consequence_of: None,
        }
    }

    fn verdict(outcome: Outcome, first: Option<Finding>) -> Verdict {
        let (elsewhere, unseen, oddities) = (Vec::new(), Vec::new(), Vec::new());
        let findings = first.into_iter().collect();
        Verdict { outcome, seconds: 1.0, findings, elsewhere, unseen, oddities }
    }

    fn queue() -> Queue {
        Queue {
            local: "10.0.0.2:4433".to_owned(),
            process: None,
            are_rates_exact: false,
            arrival_rate: None,
            drain_rate: None,
            charge: None,
            buffer: None,
            buffer_seconds: None,
            sufficient_buffer: None,
        }
    }

    fn graded(expected: Expected, verdict: &Verdict) -> Grade {
        judge(expected, verdict, Some(verdict.outcome.exit_status().into())).grade
    }

    const STARVED: Expected = Expected::Loss(Stage::Socket, "starved");

    #[test]
    fn the_first_stage_and_its_cause_have_to_be_right() {
        let cause = Cause::Starved(queue(), Starvation::Stopped);
        let right = finding(Stage::Socket, cause, Certainty::Certain);
        assert_eq!(graded(STARVED, &verdict(Outcome::Loss, Some(right))), Grade::Right);
        for (certainty, grade) in
            [(Certainty::Certain, Grade::CertainlyWrong), (Certainty::Possible, Grade::Wrong)]
        {
            let rate = finding(Stage::Socket, Cause::Rate(queue()), certainty);
            assert_eq!(graded(STARVED, &verdict(Outcome::Loss, Some(rate.clone()))), grade);
            assert_eq!(graded(Expected::NoLoss, &verdict(Outcome::Loss, Some(rate))), grade);
        }
    }

    #[test]
    fn strays_are_an_outcome_of_their_own_and_little_losses_are_none() {
        let stray = finding(Stage::Udp, Cause::NoSocket, Certainty::Certain);
        let scanned = verdict(Outcome::Stray, Some(stray.clone()));
        assert_eq!(graded(Expected::Stray, &scanned), Grade::Right);
        assert_eq!(graded(Expected::NoLoss, &scanned), Grade::CertainlyWrong);
        let little = Finding { is_above_floor: false, ..stray };
        let healthy = verdict(Outcome::NoLoss, Some(little));
        assert_eq!(graded(Expected::NoLoss, &healthy), Grade::Right);
        assert_eq!(graded(Expected::Stray, &healthy), Grade::CertainlyWrong);
    }

    #[test]
    fn what_is_left_open_is_not_wrong() {
        let open = finding(Stage::Socket, Cause::Overflow(queue()), Certainty::Certain);
        assert_eq!(graded(STARVED, &verdict(Outcome::Loss, Some(open))), Grade::Open);
        let elsewhere = finding(Stage::Udp, Cause::Other, Certainty::Possible);
        assert_eq!(graded(STARVED, &verdict(Outcome::Loss, Some(elsewhere))), Grade::Wrong);
        assert_eq!(graded(STARVED, &verdict(Outcome::Unknown, None)), Grade::Open);
        assert_eq!(graded(Expected::NoLoss, &verdict(Outcome::Unknown, None)), Grade::Open);
    }

    #[test]
    fn no_loss_where_there_is_one_is_certainly_wrong() {
        let healthy = verdict(Outcome::NoLoss, None);
        assert_eq!(graded(Expected::NoLoss, &healthy), Grade::Right);
        assert_eq!(graded(STARVED, &healthy), Grade::CertainlyWrong);
        assert_eq!(graded(Expected::Unknown, &healthy), Grade::CertainlyWrong);
        assert_eq!(graded(Expected::Unknown, &verdict(Outcome::Unknown, None)), Grade::Right);
    }

    #[test]
    fn a_stage_that_cannot_be_seen_has_to_be_named() {
        let expected = Expected::NotSeen(Stage::Application);
        let mut healthy = verdict(Outcome::NoLoss, None);
        assert_eq!(graded(expected, &healthy), Grade::CertainlyWrong);
        let why = "what applications lose themselves was not asked for".to_owned();
        let (stage, needed) = (Stage::Application, None);
        healthy.unseen.push(Unseen { stage, why, needed, may_hide_loss: false });
        assert_eq!(graded(expected, &healthy), Grade::Right);
    }

    #[test]
    fn the_status_and_the_second_fault_are_looked_at() {
        let rate = (Stage::Socket, "rate");
        let expected = Expected::Two([rate, (Stage::Udp, "no_socket")]);
        let first = finding(Stage::Socket, Cause::Rate(queue()), Certainty::Certain);
        let mut said = verdict(Outcome::Loss, Some(first));
        assert_eq!(judge(expected, &said, Some(0)).faults.len(), 2);
        said.findings.push(finding(Stage::Udp, Cause::NoSocket, Certainty::Certain));
        let text = serde_json::to_string(&said).unwrap();
        let judgement = judge(expected, &read(&text).unwrap(), Some(1));
        let right = Judgement { grade: Grade::Right, said: "rate".to_owned(), faults: vec![] };
        assert_eq!(judgement, right);
        assert!(read("{").is_err());
    }
}
