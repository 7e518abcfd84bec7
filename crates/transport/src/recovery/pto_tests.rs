use super::*;

fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_millis(milliseconds))
}

fn context() -> PtoContext {
    PtoContext {
        handshake_confirmed: true,
        peer_completed_address_validation: true,
        at_amplification_limit: false,
        has_handshake_keys: true,
        max_ack_delay: Duration::from_millis(25),
        is_client: true,
    }
}

fn rtt() -> Rtt {
    let mut rtt = Rtt::new(Duration::from_millis(333));
    rtt.on_sample(Duration::from_millis(100), Duration::ZERO);
    rtt
}

#[test]
fn only_the_application_space_waits_for_the_peers_delay() {
    let mut timer = ProbeTimer::new(at(0));
    for space in SpaceId::ALL {
        timer.on_sent(space, at(1000));
    }
    for (space, expected) in
        [(SpaceId::Initial, 1300), (SpaceId::Handshake, 1300), (SpaceId::Application, 1325)]
    {
        let next = timer.next(&rtt(), &context(), |armed| armed == space);
        assert_eq!(next, Some((at(expected), space)));
    }
}

#[test]
fn the_earliest_space_decides() {
    let mut timer = ProbeTimer::new(at(0));
    timer.on_sent(SpaceId::Handshake, at(1000));
    timer.on_sent(SpaceId::Initial, at(1010));
    let next = timer.next(&rtt(), &context(), |_| true);
    // Nothing was sent in the Application space, so its timeout starts with the handshake.
    assert_eq!(next, Some((at(325), SpaceId::Application)));
    let next = timer.next(&rtt(), &context(), |space| space != SpaceId::Application);
    assert_eq!(next, Some((at(1300), SpaceId::Handshake)));
}

#[test]
fn unconfirmed_1_rtt_packets_probe_the_handshake_instead() {
    let mut timer = ProbeTimer::new(at(0));
    timer.on_sent(SpaceId::Application, at(1000));
    let unconfirmed = PtoContext { handshake_confirmed: false, ..context() };
    let armed = |space| space == SpaceId::Application;
    assert_eq!(timer.next(&rtt(), &unconfirmed, armed), Some((at(1300), SpaceId::Handshake)));
    let without_keys = PtoContext { has_handshake_keys: false, ..unconfirmed };
    assert_eq!(timer.next(&rtt(), &without_keys, armed), Some((at(1300), SpaceId::Initial)));
}

#[test]
fn a_client_keeps_probing_until_the_server_may_send() {
    let mut timer = ProbeTimer::new(at(0));
    let unsure = PtoContext {
        handshake_confirmed: false,
        peer_completed_address_validation: false,
        ..context()
    };
    assert_eq!(timer.next(&rtt(), &unsure, |_| false), Some((at(300), SpaceId::Handshake)));
    timer.on_progress(at(500));
    assert_eq!(timer.next(&rtt(), &unsure, |_| false), Some((at(800), SpaceId::Handshake)));
    let without_keys = PtoContext { has_handshake_keys: false, ..unsure };
    assert_eq!(timer.next(&rtt(), &without_keys, |_| false), Some((at(800), SpaceId::Initial)));
    // In all other cases, nothing is sent while nothing is outstanding.
    let sure = PtoContext { peer_completed_address_validation: true, ..unsure };
    assert_eq!(timer.next(&rtt(), &sure, |_| false), None);
    let server = PtoContext { is_client: false, ..unsure };
    assert_eq!(timer.next(&rtt(), &server, |_| false), None);
}

#[test]
fn a_server_that_may_not_send_sets_no_timer_and_fires_at_once_when_it_may() {
    let mut timer = ProbeTimer::new(at(0));
    timer.on_sent(SpaceId::Initial, at(0));
    let blocked = PtoContext { at_amplification_limit: true, is_client: false, ..context() };
    let armed = |space| space == SpaceId::Initial;
    assert_eq!(timer.next(&rtt(), &blocked, armed), None);
    let free = PtoContext { at_amplification_limit: false, ..blocked };
    let (deadline, space) = timer.next(&rtt(), &free, armed).unwrap();
    assert_eq!(deadline, at(300), "in the past of a server that waited longer");
    timer.on_expired(space, at(5000));
    assert_eq!(timer.next(&rtt(), &free, armed), Some((at(5600), space)), "and not again at once");
}

#[test]
fn the_backoff_doubles_and_never_overflows() {
    let mut timer = ProbeTimer::new(at(0));
    let mut now = at(0);
    let mut previous = Duration::ZERO;
    let armed = |space| space == SpaceId::Application;
    for expiry in 0..64_u32 {
        timer.on_sent(SpaceId::Application, now);
        let (deadline, space) = timer.next(&rtt(), &context(), armed).unwrap();
        let timeout = deadline.checked_since(now).unwrap();
        if expiry > 0 && expiry <= MAX_BACKOFF_EXPONENT {
            assert_eq!(timeout, previous * 2);
        }
        assert!(timeout >= previous && !timeout.is_zero());
        assert_eq!(timer.count(), expiry);
        timer.on_expired(space, deadline);
        previous = timeout;
        now = deadline;
    }
    assert_eq!(timer.total(), 64);
    timer.reset(now);
    timer.on_sent(SpaceId::Application, now);
    let (deadline, _) = timer.next(&rtt(), &context(), armed).unwrap();
    assert_eq!(deadline.checked_since(now), Some(Duration::from_millis(325)));
    assert_eq!(timer.total(), 64);
}

/// Evidence that the path works makes the timer expire early once, if a full timeout has passed;
/// the next timeout has the previous backoff.
#[test]
fn a_sign_of_life_shortens_one_timeout_and_no_more() {
    let armed = |space| space == SpaceId::Application;
    let next = |timer: &ProbeTimer| {
        timer
            .next(&rtt(), &context(), armed)
            .map(|(time, _)| time.saturating_since(at(0)).as_millis())
    };
    let mut timer = ProbeTimer::new(at(0));
    timer.on_sent(SpaceId::Application, at(1000));
    timer.expire_early(at(1400), &rtt(), &context());
    assert_eq!(
        (timer.skips_backoff, next(&timer)),
        (false, Some(1325)),
        "no backoff, nothing to do"
    );
    for _ in 0..5 {
        timer.on_expired(SpaceId::Application, at(1000));
    }
    timer.expire_early(at(1324), &rtt(), &context());
    assert_eq!(next(&timer), Some(1000 + 32 * 325), "a probe is under way");
    timer.expire_early(at(1400), &rtt(), &context());
    assert_eq!(next(&timer), Some(1325), "due");
    timer.on_expired(SpaceId::Application, at(1400));
    assert_eq!((timer.count(), next(&timer)), (5, Some(1400 + 32 * 325)));
    timer.on_expired(SpaceId::Application, at(1400));
    assert_eq!(timer.count(), 6);
}

/// A packet sent in the meantime for another reason serves as the probe, and an acknowledgment
/// makes a probe unnecessary.
#[test]
fn what_is_sent_or_acknowledged_meanwhile_ends_the_haste() {
    let hastened = || {
        let mut timer = ProbeTimer::new(at(0));
        timer.on_expired(SpaceId::Application, at(1000));
        timer.expire_early(at(1325), &rtt(), &context());
        assert!(timer.skips_backoff);
        timer
    };
    let mut timer = hastened();
    timer.on_sent(SpaceId::Application, at(1330));
    assert!(!timer.skips_backoff && timer.count() == 1);
    let mut timer = hastened();
    timer.reset(at(1330));
    assert!(!timer.skips_backoff && timer.count() == 0);
}
