use std::time::Duration;

use super::super::watch::Watched;
use super::*;

fn outcome(controller: Algorithm, number: u32, milliseconds: u64, is_finished: bool) -> Outcome {
    Outcome {
        name: format!("{controller} {number}"),
        controller,
        is_finished,
        error: (!is_finished).then(|| "it took too long".to_owned()),
        time: Duration::from_millis(milliseconds),
        bytes: 10_000_000,
        qlog: std::path::PathBuf::from("target/demo/reno-1.sqlog"),
        qlog_error: None,
        server: Watched {
            window: 50_000,
            smallest_window: 2400,
            floor: 2400,
            at_floor: Duration::from_millis(1300),
            congestion_events: 42,
            lost: 400,
            spurious: 3,
            ..Watched::default()
        },
    }
}

#[test]
fn a_run_is_a_row() {
    let text = table(
        &[outcome(Algorithm::Reno, 1, 4000, true), outcome(Algorithm::Cubic, 1, 2500, true)],
        None,
    );
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("controller"), "{text}");
    let cells: Vec<_> =
        lines[1].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        cells,
        ["reno 1", "yes", "4.00", "20.0 Mbit/s", "2.4 kB (floor)", "1.30 s", "42", "400", "3"]
    );
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
}

#[test]
fn many_runs_are_summed_up_with_the_slowest() {
    let mut outcomes: Vec<_> = (1..=20)
        .map(|number| outcome(Algorithm::Cubic, number, 2000 + u64::from(number), true))
        .collect();
    let text = table(&outcomes, None);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("20 of 20 finished, 20 reached the floor"), "{text}");
    assert!(text.contains("median 2.01 s, slowest 2.02 s (cubic 20)"), "{text}");
    // A run that did not finish counts as the slowest, regardless of its time.
    outcomes[4] = outcome(Algorithm::Cubic, 5, 100, false);
    let text = table(&outcomes, None);
    assert!(text.contains("19 of 20 finished") && text.contains("(cubic 5)"), "{text}");
    assert!(text.contains("NO"), "{text}");
}

#[test]
fn a_narrow_terminal_gets_a_narrow_table() {
    let outcomes: Vec<_> = [(Algorithm::Reno, 1), (Algorithm::Reno, 2), (Algorithm::Cubic, 1)]
        .map(|(algorithm, number)| outcome(algorithm, number, 2000 + u64::from(number), true))
        .into();
    let wide = table(&outcomes, None);
    let columns = wide.lines().next().unwrap().len();
    assert_eq!(table(&outcomes, Some(columns)), wide);
    let narrow = table(&outcomes, Some(columns - 1));
    let lines: Vec<_> = narrow.lines().collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[0]), ["controller", "reno", "2", "cubic", "1"], "{narrow}");
    assert_eq!(words(lines[8]), ["spuriously", "3", "3"], "{narrow}");
    assert!(lines[..9].iter().all(|line| line.len() < 60), "{narrow}");
    assert!(lines[9].contains("slowest 2.00 s (reno 2)"), "{narrow}");
}
