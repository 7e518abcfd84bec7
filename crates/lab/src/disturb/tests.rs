use super::*;

#[test]
fn names_and_moments_are_read_as_they_are_written() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert!("silence".parse::<Kind>().unwrap_err().to_string().contains("silence-200ms-both"));
    for text in ["datagram:12:client", "datagram:1:server", "time:37ms", "time:0ms"] {
        assert_eq!(text.parse::<At>().unwrap().to_string(), text);
    }
    for text in ["datagram:0:client", "datagram:1", "datagram:1:proxy", "time:", "time:37", "noon"]
    {
        assert!(text.parse::<At>().unwrap_err().to_string().contains("time:37ms"), "{text}");
    }
}

#[test]
fn of_many_datagrams_the_first_are_all_there_and_the_last_is() {
    assert_eq!(numbers(5, 5), [1, 2, 3, 4, 5]);
    assert_eq!(numbers(100, 6), [1, 2, 3, 35, 67, 100]);
    assert!(numbers(0, 6).is_empty());
}

#[test]
fn the_standard_scenario_makes_sense() {
    let scenario = standard().unwrap();
    assert_eq!(scenario.controllers, crate::scenario::CONTROLLERS);
    assert_eq!(scenario.variants.len(), 7);
}

#[test]
fn pairs_are_of_two_and_follow_from_the_seed() {
    let at = |number| At(Moment::Datagram { way: Way::ToClient, number });
    let trials: Vec<_> = (1..=3).map(|number| Event { kind: Kind::Lose, at: at(number) }).collect();
    let some = pairs(&trials, 50, 1);
    assert_eq!((some.len(), &some), (50, &pairs(&trials, 50, 1)));
    assert!(some.iter().all(|[one, other]| one != other));
    assert_eq!(pairs(&trials[..1], 50, 1), Vec::<[Event; 2]>::new());
}
