use super::*;
use crate::testing::{SIZE, parameters};
use crate::{Bbr, Cubic, DeliveryRateSampler, DeliverySnapshot, Limitation, Pacer, Reno};

/// Returns the number of values that a part reports. If a value were no longer reported, states
/// would be hidden from a search.
fn values(part: &impl Inspect) -> usize {
    let mut count = 0;
    part.inspect(&mut |name, _| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(is_plain), "{name}");
        count += 1;
    });
    count
}

#[test]
fn every_value_of_a_state_is_reported() {
    let (parameters, now) = (parameters(None), Timestamp::ORIGIN);
    assert_eq!(values(&Reno::new(&parameters)), 16);
    assert_eq!(values(&Cubic::new(&parameters)), 18);
    assert_eq!(values(&Bbr::new(&parameters)), 123);
    assert_eq!(values(&Limitation::default()), 8);
    assert_eq!(values(&Pacer::new(now, SIZE)), 5);
    assert_eq!(values(&DeliveryRateSampler::new(now)), 6);
    assert_eq!(values(&DeliverySnapshot::default()), 6);
}
