//! Stateless reset (RFC 9000 §10.3).

use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::ResetToken;

use crate::ids::MINIMUM_RESET_SIZE;

/// Large enough to look like any short-header packet, small enough to cost little (§10.3).
const USUAL_SIZE: usize = 43;

/// A stateless reset in answer to a datagram of `trigger_len` bytes. It is always smaller, so that two endpoints that
/// do not know each other's connection stop (§10.3.3). `None` if the datagram is too small to answer.
pub(super) fn build(
    trigger_len: usize,
    token: &ResetToken,
    random: &mut Random,
) -> Option<Vec<u8>> {
    let size = trigger_len.checked_sub(1)?.min(USUAL_SIZE);
    let unpredictable = size.checked_sub(ResetToken::LEN).filter(|_| size >= MINIMUM_RESET_SIZE)?;
    let mut reset = vec![0; unpredictable];
    random.fill(&mut reset);
    if let Some(first) = reset.first_mut() {
        // The header form of a short header, and the fixed bit.
        *first = (*first & 0x3f) | 0x40;
    }
    reset.extend_from_slice(token.as_bytes());
    Some(reset)
}

/// Limits how many resets are sent. They are optional, and must not make this endpoint work or send at an attacker's
/// command.
#[derive(Debug)]
pub(super) struct ResetLimiter {
    window_began: Timestamp,
    sent: u32,
}

const WINDOW: Duration = Duration::from_secs(1);
const MAX_PER_WINDOW: u32 = 200;

impl ResetLimiter {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { window_began: now, sent: 0 }
    }

    /// Whether one more may be sent at `now`; counts it if so.
    pub(super) fn allows(&mut self, now: Timestamp) -> bool {
        if now.saturating_since(self.window_began) >= WINDOW {
            self.window_began = now;
            self.sent = 0;
        }
        let allowed = self.sent < MAX_PER_WINDOW;
        self.sent = self.sent.saturating_add(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> ResetToken {
        ResetToken::new([0xab; 16])
    }

    /// RFC 9000 §10.3, §10.3.3: at least 21 bytes, smaller than the packet that caused it, and like a short header.
    #[test]
    fn a_reset_looks_like_a_packet_and_is_smaller_than_what_caused_it() {
        let mut random = Random::from_number(1);
        for trigger in 0..1500 {
            let Some(reset) = build(trigger, &token(), &mut random) else {
                assert!(trigger <= MINIMUM_RESET_SIZE, "{trigger}");
                continue;
            };
            assert!(
                reset.len() < trigger && (MINIMUM_RESET_SIZE..=USUAL_SIZE).contains(&reset.len())
            );
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
}
