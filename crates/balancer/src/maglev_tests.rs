use proptest::prelude::*;

use super::*;

fn candidates(names: impl IntoIterator<Item = u16>, weight: impl Fn(u16) -> u32) -> Vec<Candidate> {
    let candidate = |number: u16| Candidate {
        key: ServerKey::of(&format!("server-{number}")),
        weight: weight(number),
        index: number,
    };
    names.into_iter().map(candidate).collect()
}

fn rows_of(maglev: &Maglev, index: u16) -> f64 {
    maglev.rows.iter().filter(|row| **row == index).count() as f64
}

/// Returns the fraction of rows that differ between the tables.
fn moved(one: &Maglev, other: &Maglev) -> f64 {
    let differ = one.rows.iter().zip(&other.rows).filter(|(one, other)| one != other).count();
    differ as f64 / ROWS as f64
}

#[test]
fn no_server() {
    assert_eq!(Maglev::new([]).find(7), None);
}

#[test]
fn one_server_has_all() {
    let maglev = Maglev::new(candidates([3], |_| u32::MAX));
    assert_eq!(rows_of(&maglev, 3), ROWS as f64);
    assert_eq!((maglev.find(u64::MAX), maglev.find(0)), (Some(3), Some(3)));
}

#[test]
fn servers_of_one_weight_have_the_same_part() {
    for count in [2, 3, 10, 50, 200, 655] {
        let maglev = Maglev::new(candidates(0..count, |_| 7));
        let part = ROWS as f64 / f64::from(count);
        for index in 0..count {
            let rows = rows_of(&maglev, index);
            assert!((rows / part - 1.0).abs() <= 0.01, "{rows} rows of {count} servers");
        }
    }
}

#[test]
fn parts_are_as_weights_state() {
    let weight = |number: u16| [1, 2, 3, 10, 100][usize::from(number % 5)];
    let maglev = Maglev::new(candidates(0..20, weight));
    let sum: u32 = (0..20).map(weight).sum();
    for index in 0..20 {
        let part = ROWS as f64 * f64::from(weight(index)) / f64::from(sum);
        let rows = rows_of(&maglev, index);
        assert!((rows - part).abs() <= 1.0, "{rows} rows for a share of {part}");
    }
}

#[test]
fn the_greatest_weight_beside_the_smallest() {
    let maglev = Maglev::new(candidates(0..2, |number| [1, u32::MAX][usize::from(number)]));
    assert_eq!(
        rows_of(&maglev, 1),
        ROWS as f64,
        "the other server's share is less than half a row"
    );
}

#[test]
fn one_server_more_or_less_moves_few_rows() {
    for count in [1, 2, 3, 5, 10, 20, 50, 100, 200, 400] {
        let before = Maglev::new(candidates(0..count, |_| 10));
        let after = Maglev::new(candidates(0..=count, |_| 10));
        let part = 1.0 / f64::from(count + 1);
        let moved = moved(&before, &after);
        assert!((part - 0.001..=part + 0.02).contains(&moved), "{count} and one: {moved}");
    }
}

#[test]
fn slow_start_of_one_server_moves_few_rows() {
    let tables = (0..=10).map(|tenth| {
        let weight = |number| if number == 0 { tenth } else { 10 };
        Maglev::new(candidates(u16::from(tenth == 0)..20, weight))
    });
    let tables: Vec<_> = tables.collect();
    for pair in tables.windows(2) {
        assert!(moved(&pair[0], &pair[1]) <= 0.1 / 20.0 + 0.02);
    }
    assert!(moved(&tables[0], &tables[10]) <= 1.0 / 20.0 + 0.02);
}

/// These rows must never change: balancers of different versions run side by side.
#[test]
fn the_table_of_three_servers_is_known() {
    let maglev = Maglev::new(candidates(0..3, |number| u32::from(number) + 1));
    let begin: String = maglev.rows.iter().take(48).map(|row| row.to_string()).collect();
    assert_eq!(begin, "022010012220012210122112122222112120112120220102");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn the_order_of_the_list_does_not_matter(
        weights in prop::collection::vec(1_u32..=100, 1..20), seed in any::<u64>()
    ) {
        let count = weights.len() as u16;
        let mut list = candidates(0..count, |number| weights[usize::from(number)]);
        let maglev = Maglev::new(list.clone());
        list.sort_by_key(|candidate| crate::siphash::siphash13([seed, 0], &[candidate.key.number()], &[]));
        prop_assert_eq!(Maglev::new(list).rows, maglev.rows);
    }

    #[test]
    fn a_server_that_goes_moves_few_rows(
        weights in prop::collection::vec(5_u32..=20, 2..30), gone in any::<prop::sample::Index>()
    ) {
        let count = weights.len() as u16;
        let gone = gone.index(weights.len()) as u16;
        let weight = |number| weights[usize::from(number)];
        let before = Maglev::new(candidates(0..count, weight));
        let after = Maglev::new(candidates((0..count).filter(|it| *it != gone), weight));
        let part = rows_of(&before, gone) / ROWS as f64;
        let moved = moved(&before, &after);
        prop_assert!(moved <= part + 0.02, "{} moved, part {}", moved, part);
    }
}
