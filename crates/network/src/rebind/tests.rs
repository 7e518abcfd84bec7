use super::*;
use crate::testing::{at_ms, ms};

#[test]
fn counts_changes_from_the_first_datagram() {
    let rebind = Rebind { first: ms(1000), every: Some(ms(5000)), address: false };
    let generations = [(10, 0), (1009, 0), (1010, 1), (6009, 1), (6010, 2), (16_010, 4)];
    for (now, generation) in generations {
        assert_eq!(rebind.generation(at_ms(10), at_ms(now)), generation, "at {now} ms");
    }
}

#[test]
fn happens_once_without_an_interval() {
    for every in [None, Some(Duration::ZERO)] {
        let rebind = Rebind { first: ms(1000), every, address: true };
        assert_eq!(rebind.generation(at_ms(0), at_ms(999)), 0);
        assert_eq!(rebind.generation(at_ms(0), at_ms(1_000_000)), 1);
    }
}
