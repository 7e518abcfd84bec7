//! The confusion matrix of injected faults and verdicts.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::judge::{Grade, Judgement};

/// The user that the doctor runs as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rights {
    Root,
    User,
}

impl Rights {
    pub(super) const BOTH: [Self; 2] = [Self::Root, Self::User];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "with root",
            Self::User => "without root",
        }
    }
}

/// The results of all runs of one fault.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Why the fault could not be injected.
    pub(super) blocked: Option<String>,
    pub(super) judgements: Vec<(Rights, Judgement)>,
}

/// The number of verdicts, in total and by correctness.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Score {
    pub(super) all: usize,
    pub(super) right: usize,
    pub(super) certainly_wrong: usize,
}

impl Row {
    fn of(&self, rights: Rights) -> impl Iterator<Item = &Judgement> {
        let is_of = move |(of, _): &&(Rights, Judgement)| *of == rights;
        self.judgements.iter().filter(is_of).map(|(_, judgement)| judgement)
    }

    fn count(&self, rights: Rights, grade: Grade) -> usize {
        self.of(rights).filter(|judgement| judgement.grade == grade).count()
    }

    /// Returns the distinct verdicts, each with its count.
    fn said(&self, rights: Rights) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for judgement in self.of(rights) {
            *counts.entry(&judgement.said).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| usize::MAX - count);
        let words: Vec<_> =
            counts.iter().map(|(said, count)| format!("{said} ({count})")).collect();
        words.join(", ").replace('_', " ")
    }

    /// Returns a JSON object with the results for scripts.
    pub(super) fn json(&self) -> Value {
        let judgement = |(rights, it): &(Rights, Judgement)| {
            json!({"rights": rights.name(), "said": it.said, "grade": format!("{:?}", it.grade),
                   "faults": it.faults})
        };
        let judgements: Vec<_> = self.judgements.iter().map(judgement).collect();
        json!({"fault": self.name, "blocked": self.blocked, "verdicts": judgements})
    }
}

/// Returns the total score of this user's verdicts, over all faults.
pub(super) fn score(rows: &[Row], rights: Rights) -> Score {
    let sum = |grade| rows.iter().map(|row| row.count(rights, grade)).sum();
    let all = rows.iter().map(|row| row.of(rights).count()).sum();
    Score { all, right: sum(Grade::Right), certainly_wrong: sum(Grade::CertainlyWrong) }
}

/// Returns the report for readers, in Markdown.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for rights in Rights::BOTH {
        let _ = writeln!(
            text,
            "\n| fault, {} | correct | undecided | wrong | confidently wrong | verdicts |",
            rights.name()
        );
        let _ = writeln!(text, "|---|---|---|---|---|---|");
        for row in rows {
            if let Some(why) = &row.blocked {
                let _ = writeln!(text, "| {} | – | – | – | – | not tried: {why} |", row.name);
                continue;
            }
            let counts = [Grade::Right, Grade::Open, Grade::Wrong, Grade::CertainlyWrong];
            let counts = counts.map(|grade| row.count(rights, grade).to_string()).join(" | ");
            let _ = writeln!(text, "| {} | {counts} | {} |", row.name, row.said(rights));
        }
        let Score { all, right, certainly_wrong } = score(rows, rights);
        let percent = 100.0 * right as f64 / all.max(1) as f64;
        let _ = writeln!(
            text,
            "\n{right} of {all} verdicts {} were correct ({percent:.1} %), {certainly_wrong} were \
             wrong and stated as certain.",
            rights.name()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(grade: Grade, said: &str) -> Judgement {
        Judgement { grade, said: said.to_owned(), faults: Vec::new() }
    }

    fn rows() -> Vec<Row> {
        let judgements = vec![
            (Rights::Root, judgement(Grade::Right, "no_socket")),
            (Rights::Root, judgement(Grade::Right, "no_socket")),
            (Rights::Root, judgement(Grade::CertainlyWrong, "no loss")),
            (Rights::User, judgement(Grade::Open, "unknown")),
        ];
        let blocked = Some("there is no nft".to_owned());
        vec![
            Row { name: "no-socket", blocked: None, judgements },
            Row { name: "firewall", blocked, judgements: Vec::new() },
        ]
    }

    #[test]
    fn verdicts_are_counted_by_rights_and_grade() {
        let rows = rows();
        assert_eq!(score(&rows, Rights::Root), Score { all: 3, right: 2, certainly_wrong: 1 });
        assert_eq!(score(&rows, Rights::User), Score { all: 1, right: 0, certainly_wrong: 0 });
        let text = text(&rows);
        let with_root = "| no-socket | 2 | 0 | 0 | 1 | no socket (2), no loss (1) |";
        assert!(text.contains(with_root), "{text}");
        assert!(text.contains("| no-socket | 0 | 1 | 0 | 0 | unknown (1) |"), "{text}");
        assert!(text.contains("not tried: there is no nft |"), "{text}");
        assert!(text.contains("2 of 3 verdicts with root were correct (66.7 %), 1 were"), "{text}");
    }

    #[test]
    fn a_script_gets_each_verdict() {
        let object = rows()[0].json();
        assert_eq!(object["verdicts"][3]["said"], "unknown");
        assert_eq!(object["verdicts"][2]["grade"], "CertainlyWrong");
    }
}
