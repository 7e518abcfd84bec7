use core::time::Duration;

use super::{WIDTH, table};
use crate::report::testing::{finished, unfinished, violating};
use crate::report::{Row, Share, Verdict};
use crate::sweep::Swept;

fn row(scenario: &str, variant: &str, shortfall: Option<&str>) -> Row {
    let runs = vec![finished(0, 3812), finished(1, 4000)];
    let verdict = Verdict {
        expected: "the 99th percentile within 4.2 s".to_owned(),
        shortfall: shortfall.map(str::to_owned),
        violated: Vec::new(),
        seeds: Vec::new(),
        is_checked: true,
    };
    Row {
        scenario: scenario.to_owned(),
        variant: variant.to_owned(),
        controller: "cubic".to_owned(),
        verdicts: vec![verdict],
        ..Row::new(&Swept { runs, wall: Duration::from_secs(1) }, 2)
    }
}

#[test]
fn columns_are_aligned_and_notes_follow_their_row() {
    let mut partial = row("wifi", "base", None);
    partial.is_complete = false;
    let mut published = row("collapse", "base", None);
    published.references = vec!["3.8 s at the median (field notes)".to_owned()];
    let mut again = row("collapse", "jitter", Some("4.35 s"));
    again.references = vec![published.references[0].clone(), "2 s (a report)".to_owned()];
    let rows = [published, again, partial];
    let expected = "\
collapse
variant  controller  seeds  finished  floor  p50 s  p99 s  max s  expected
base     cubic           2         2    0 %   3.81   4.00   4.00       yes
    published: 3.8 s at the median (field notes)
jitter   cubic           2         2    0 %   3.81   4.00   4.00        NO
    not as expected: the 99th percentile within 4.2 s: 4.35 s
    published: 2 s (a report)

wifi
variant  controller  seeds  finished  floor  p50 s  p99 s  max s  expected
base     cubic           2         2    0 %   3.81   4.00   4.00    so far";
    assert_eq!(table(&rows), expected);
    assert_eq!(table(&[]), "");
}

#[test]
fn values_that_are_unknown_because_runs_ended_early_are_not_failures() {
    let mut row = row("wifi", "base", None);
    let runs = vec![finished(0, 3812), violating(1)];
    row.statistics = Row::new(&Swept { runs, wall: Duration::ZERO }, 2).statistics;
    row.verdicts[0].is_checked = false;
    let text = table(&[row]);
    let expected = "\
base     cubic           2         1    0 %   3.81      -      -        NO
    not checked, because 1 of 2 runs ended early: the 99th percentile within 4.2 s";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn shares_follow_their_row() {
    let share = |flow: String, mean| Share { flow, least: mean - 0.05, mean, most: mean + 0.1 };
    let mut two = row("x", "y", None);
    two.statistics.shares = vec![share("reno".to_owned(), 0.25), share("bbr".to_owned(), 0.75)];
    let text = table(&[two]);
    let expected = "    shares: reno 25.0 % (20.0 to 35.0), bbr 75.0 % (70.0 to 85.0)";
    assert_eq!(text.lines().last(), Some(expected));
    let mut many = row("x", "y", None);
    many.statistics.shares =
        (1_u32..=9).map(|index| share(format!("f-{index}"), f64::from(index) / 45.0)).collect();
    let text = table(&[many]);
    let expected =
        "    shares of 9 flows: from f-1 2.2 % (-2.8 to 12.2) to f-9 20.0 % (15.0 to 30.0)";
    assert_eq!(text.lines().last(), Some(expected));
}

#[test]
fn no_line_is_too_wide() {
    let long = "a word ".repeat(60);
    let mut wide = row(&"s".repeat(40), &"v".repeat(60), Some(&long));
    wide.references = vec![long];
    let mut endless = row("x", "y", None);
    let runs = (0..10_000)
        .map(|seed| if seed < 9000 { finished(seed, 999_990) } else { unfinished(seed) });
    endless.statistics =
        Row::new(&Swept { runs: runs.collect(), wall: Duration::ZERO }, 10_000).statistics;
    let text = table(&[wide, endless]);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= WIDTH, "{text}");
    assert!(text.contains("vvv…") && text.contains("never"), "{text}");
}
