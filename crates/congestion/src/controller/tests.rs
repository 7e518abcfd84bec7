use super::{Suppressor, Suppressors};

#[test]
fn a_suppressor_keeps_the_round_it_began_in_until_it_ends() {
    let mut suppressors = Suppressors::default();
    for (place, suppressor) in Suppressor::ALL.into_iter().enumerate() {
        assert_eq!(suppressor as usize, place);
        assert_eq!(suppressors.since(suppressor), None);
        suppressors.set(suppressor, true, 7);
        suppressors.set(suppressor, true, 9);
        assert_eq!(suppressors.since(suppressor), Some(7));
    }
    assert_eq!(suppressors.active().count(), Suppressor::ALL.len());
    for suppressor in Suppressor::ALL {
        suppressors.set(suppressor, false, 10);
        assert_eq!(suppressors.since(suppressor), None);
    }
    assert_eq!(suppressors, Suppressors::default());
}
