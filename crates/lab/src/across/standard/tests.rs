use super::standard;
use crate::checker::{Place, Property};
use crate::run::validate;

#[test]
fn every_property_across_runs_is_asked_for() {
    let set = standard(None);
    for property in Property::ALL {
        let is_asked = set.iter().any(|comparison| comparison.property == property);
        assert_eq!(is_asked, property.place() == Place::Across, "{property}");
    }
}

#[test]
fn comparisons_can_be_run_and_told_apart() {
    let set = standard(Some(3));
    let mut names: Vec<_> =
        set.iter().map(|it| (it.property, &it.controllers, &it.compared)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), set.len());
    for comparison in &set {
        for job in comparison.jobs() {
            assert_eq!(validate(job.setup, job.candidate), Ok(()));
            assert!(job.count() == 3 || job.count() == 1, "{comparison:?}");
        }
    }
}
