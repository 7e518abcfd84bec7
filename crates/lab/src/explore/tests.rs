use super::*;

/// As deep as a debug build goes in seconds; `clearway lab explore` goes further.
const DEPTH: usize = 4;

#[test]
fn no_controller_has_a_fault_in_a_small_scope() {
    for algorithm in Algorithm::ALL {
        let explored = explore(algorithm, DEPTH, &mut |_, _| true);
        assert_eq!(explored.faults, [], "{algorithm}");
        assert_eq!(explored.cycles, 0, "{algorithm}");
        assert!(explored.states > 1000, "{algorithm}: {}", explored.states);
    }
}

#[test]
fn the_same_search_finds_the_same_states() {
    let search = || explore(Algorithm::Cubic, 3, &mut |_, _| true);
    assert_eq!(search(), search());
}

#[test]
fn a_search_can_be_stopped() {
    let explored = explore(Algorithm::Reno, 6, &mut |length, _| length < 2);
    assert!(explored.moves < 20_000, "{}", explored.moves);
}
