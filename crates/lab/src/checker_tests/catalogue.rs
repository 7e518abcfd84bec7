use super::Story;
use crate::checker::{Place, Property, PropertySet, UnknownProperty};

#[test]
fn every_property_can_be_found_and_is_explained() {
    for property in Property::ALL {
        assert_eq!(Property::from_id(property.id()), Ok(property));
        assert!(property.meaning().ends_with('.'), "{property}");
        assert!(!property.method().is_empty());
        let across = matches!(property.id().as_bytes()[0], b'M' | b'F');
        assert_eq!(property.place() == Place::Across, across, "{property}");
    }
    let unknown: Result<Property, UnknownProperty> = Property::from_id("S99");
    assert!(unknown.unwrap_err().to_string().contains("S99"));
}

#[test]
fn sets_hold_what_is_put_into_them() {
    let set = PropertySet::NONE.with(Property::L1).with(Property::Fd).without(Property::L1);
    let held = Property::ALL.into_iter().filter(|property| set.contains(*property));
    assert_eq!(held.collect::<Vec<_>>(), [Property::Fd]);
    assert!(Property::ALL.into_iter().all(|property| PropertySet::ALL.contains(property)));
}

#[test]
fn a_property_that_is_off_is_not_checked() {
    // The same event sequence as in S2's test.
    let mut story = Story::new("reno", Property::S3);
    story.send(11);
    assert_eq!(story.violation(), None);
}

#[test]
fn a_violation_is_reported_with_the_last_events() {
    let mut story = Story::new("reno", Property::S2);
    story.send(11);
    let violation = story.checker().violation().unwrap();
    assert!(violation.explanation.contains("13200 are in flight; the window is 12000"));
    assert_eq!(violation.last_events.len(), 11);
    let last = violation.last_events.last().unwrap();
    assert_eq!(last, "1.000000 server 0: sent Application 10, 1200 bytes");
}
