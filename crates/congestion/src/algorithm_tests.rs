use crate::testing::parameters;
use crate::{Algorithm, ControllerFactory};

#[test]
fn every_algorithm_is_found_by_its_name() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        assert_eq!(algorithm.build(&parameters(None)).name(), algorithm.name());
    }
    assert_eq!(Algorithm::default(), Algorithm::Cubic);
}

#[test]
fn an_unknown_name_is_rejected_with_the_list_of_names() {
    let error = "vegas".parse::<Algorithm>().unwrap_err();
    let message = error.to_string();
    assert_eq!(
        message,
        "there is no congestion controller \"vegas\"; choose one of: reno cubic bbr"
    );
}
