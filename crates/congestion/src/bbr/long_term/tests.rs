use super::*;

const SIZE: u64 = 1200;

/// A probe in its third round: four datagrams for each window of forty.
fn probing() -> LongTerm {
    let mut long_term = LongTerm { bound: Some(40 * SIZE), ..LongTerm::default() };
    long_term.begin_probe();
    (0..3).for_each(|_| long_term.raise_slope(40 * SIZE, SIZE));
    long_term
}

#[test]
fn how_acknowledgements_are_bundled_does_not_change_growth() {
    // Row 116: an ACK that is worth several increases leaves only its rest.
    for bundle in [1, 3, 10, 25, 40] {
        let mut long_term = probing();
        (0..200 / bundle).for_each(|_| long_term.grow(bundle * SIZE, SIZE));
        let acked = 200 / bundle * bundle;
        assert_eq!(long_term.bound, Some((40 + acked / 10) * SIZE), "{bundle} at once");
    }
}

#[test]
fn nothing_grows_outside_of_a_probe() {
    let mut long_term = probing();
    long_term.end_probe();
    long_term.grow(1000 * SIZE, SIZE);
    assert_eq!(long_term.bound, Some(40 * SIZE));
}
