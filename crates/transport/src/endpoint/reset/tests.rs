use super::*;

fn token() -> ResetToken {
    ResetToken::new([0xab; 16])
}

/// RFC 9000 §10.3, §10.3.3: at least 21 bytes, smaller than what caused it, and like a short header.
#[test]
fn a_reset_looks_like_a_packet_and_is_smaller_than_what_caused_it() {
    let mut random = Random::from_number(1);
    for trigger in 0..1500 {
        let Some(reset) = build(trigger, &token(), &mut random) else {
            assert!(trigger <= MINIMUM_RESET_SIZE, "{trigger}");
            continue;
        };
        assert!(reset.len() < trigger && (MINIMUM_RESET_SIZE..=USUAL_SIZE).contains(&reset.len()));
        assert_eq!(reset[0] & 0xc0, 0x40);
        assert!(reset.ends_with(&[0xab; 16]));
    }
}

#[test]
fn what_is_before_the_token_is_unpredictable() {
    let mut random = Random::from_number(1);
    let mut reset = || build(100, &token(), &mut random).unwrap();
    assert_ne!(reset()[1..27], reset()[1..27]);
}

#[test]
fn resets_are_limited_in_every_second() {
    let at = |milliseconds| Timestamp::from_origin(Duration::from_millis(milliseconds));
    let mut limiter = ResetLimiter::new(at(0));
    let allowed =
        |limiter: &mut ResetLimiter, now| (0..1000).filter(|_| limiter.allows(now)).count();
    assert_eq!(allowed(&mut limiter, at(10)), 200);
    assert_eq!(allowed(&mut limiter, at(999)), 0);
    assert_eq!(allowed(&mut limiter, at(1000)), 200);
    assert_eq!(allowed(&mut limiter, at(9000)), 200);
}
