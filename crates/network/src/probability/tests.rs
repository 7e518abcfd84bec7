use super::*;

#[test]
fn only_numbers_from_zero_to_one() {
    assert_eq!(Probability::new(0.0), Some(Probability::NEVER));
    assert_eq!(Probability::new(1.0), Some(Probability::ALWAYS));
    assert_eq!(Probability::new(0.25).map(Probability::get), Some(0.25));
    for wrong in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
        assert_eq!(Probability::new(wrong), None, "{wrong}");
    }
}

#[test]
fn never_and_always_are_exact() {
    let mut random = Random::from_number(1);
    for _ in 0..1000 {
        assert!(!Probability::NEVER.happens(&mut random));
        assert!(Probability::ALWAYS.happens(&mut random));
    }
}

#[test]
fn shown_as_a_percentage() {
    assert_eq!(Probability(0.25).to_string(), "25 %");
}
