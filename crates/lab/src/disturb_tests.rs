use super::*;

#[test]
fn names_and_moments_are_parsed_from_their_text_form() {
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
fn of_many_datagrams_the_first_and_the_last_are_chosen() {
    assert_eq!(numbers(5, 5), [1, 2, 3, 4, 5]);
    assert_eq!(numbers(100, 6), [1, 2, 3, 35, 67, 100]);
    assert!(numbers(0, 6).is_empty());
}

#[test]
fn the_standard_scenario_is_valid() {
    let scenario = standard().unwrap();
    assert_eq!(scenario.controllers, crate::scenario::CONTROLLERS);
    assert_eq!(scenario.variants.len(), 9);
}

#[test]
fn pairs_are_of_different_events_and_depend_only_on_the_seed() {
    let at = |number| At(Moment::Datagram { way: Way::ToClient, number });
    let trials: Vec<_> = (1..=3).map(|number| Event { kind: Kind::Lose, at: at(number) }).collect();
    let some = pairs(&trials, 50, 1);
    assert_eq!((some.len(), &some), (50, &pairs(&trials, 50, 1)));
    assert!(some.iter().all(|[one, other]| one != other));
    assert_eq!(pairs(&trials[..1], 50, 1), Vec::<[Event; 2]>::new());
}

#[test]
fn bounds_depend_on_the_disturbance_and_its_time() {
    let scenario = standard().unwrap();
    let setup = &scenario.variants.iter().find(|it| it.name == "download, 200 ms").unwrap().setup;
    let baseline = Baseline::measure(setup, &"cubic".parse().unwrap(), 0).unwrap();
    let end = baseline.outcome.took().unwrap();
    let bounds = Bounds::new(setup, "cubic", &baseline, None);
    let ms = Duration::from_millis;
    let at = |kind, time| Event { kind, at: At(Moment::After(ms(time))) };
    let cost = |events: &[Event]| bounds.of(events).saturating_sub(end);

    assert_eq!(cost(&[]), Duration::ZERO);
    // A duplicate costs at most a round trip: 200 ms, plus the queueing delay of both directions.
    assert!(cost(&[at(Kind::Double, 900)]) < ms(400));
    let silence = |length, time| at(Kind::Silence(None, ms(length)), time);
    // Each millisecond of silence may cost one more millisecond of backoff.
    assert_eq!(cost(&[silence(2000, 700)]) - cost(&[silence(200, 700)]), ms(3600));
    // Without an RTT sample, the initial probe timeout applies.
    assert!(cost(&[silence(200, 0)]) > cost(&[silence(200, 700)]));
    // Data that has arrived need not be retransmitted with a small window.
    let lose = |number| Event {
        kind: Kind::Lose,
        at: At(Moment::Datagram { way: Way::ToClient, number }),
    };
    let last = baseline.datagrams(Way::ToClient);
    assert!(cost(&[lose(last)]) < cost(&[lose(last / 2)]));
    // The second silence may begin when the probe after the first one is due.
    let pair = cost(&[silence(2000, 700), silence(2000, 700)]);
    assert!(pair >= 3 * cost(&[silence(2000, 700)]) / 2, "{pair:?}");
}

#[test]
fn the_time_of_a_datagram_is_that_of_the_undisturbed_run() {
    let scenario = standard().unwrap();
    let setup = &scenario.variants[0].setup;
    let baseline = Baseline::measure(setup, &"reno".parse().unwrap(), 0).unwrap();
    // For a download of 100 kB, the request is sent at the end of the handshake, which takes a
    // little more than 5 ms.
    let first = baseline.time_before(Moment::Datagram { way: Way::ToClient, number: 1 });
    assert!(first >= Duration::from_millis(4) && first <= Duration::from_millis(6), "{first:?}");
    assert_eq!(baseline.received(first), 0);
    assert!(baseline.received(baseline.outcome.at) > 50_000);
    assert_eq!(left_out(&Choice::default(), &baseline), 0);
    let few = Choice { datagrams: 10, ..Choice::default() };
    let all = [Way::ToServer, Way::ToClient].map(|way| baseline.datagrams(way));
    assert_eq!(left_out(&few, &baseline), all.iter().sum::<u64>() - 20);
}
