//! Stateless reset (RFC 9000 §10.3).

use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::ResetToken;

use crate::ids::MINIMUM_RESET_SIZE;

/// The usual size of a stateless reset: large enough to look like a short-header packet, and small
/// enough to cost little (§10.3).
const USUAL_SIZE: usize = 43;

/// Builds a stateless reset in response to a datagram of `trigger_len` bytes. The reset is always
/// smaller, so that two endpoints without state for the connection do not exchange resets forever
/// (§10.3.3). `None` if the datagram is too small to answer.
fn build(trigger_len: usize, token: &ResetToken, random: &mut Random) -> Option<Vec<u8>> {
    let size = trigger_len.checked_sub(1)?.min(USUAL_SIZE);
    let unpredictable = size.checked_sub(ResetToken::LEN).filter(|_| size >= MINIMUM_RESET_SIZE)?;
    let mut reset = vec![0; unpredictable];
    random.fill(&mut reset);
    if let Some(first) = reset.first_mut() {
        // Sets the header form of a short header, and the fixed bit.
        *first = (*first & 0x3f) | 0x40;
    }
    reset.extend_from_slice(token.as_bytes());
    Some(reset)
}

/// Builds the stateless resets in response to a datagram of `trigger_len` bytes, with the current
/// key's token, the previous key's token, or both. Their total size is less than the datagram's
/// (§10.3.3). If there is room for only one reset, it is chosen at random, because the peer
/// retransmits packets that are not answered.
pub(super) fn build_all(
    trigger_len: usize,
    (current, previous): (ResetToken, Option<ResetToken>),
    random: &mut Random,
) -> Vec<Vec<u8>> {
    let Some(previous) = previous else {
        return build(trigger_len, &current, random).into_iter().collect();
    };
    // Each reset is smaller than the datagram length passed for it.
    let half = trigger_len.div_ceil(2);
    let both = [&current, &previous].map(|token| build(half, token, random));
    if both.iter().all(Option::is_some) {
        return both.into_iter().flatten().collect();
    }
    let chosen = if random.below(2) == 0 { current } else { previous };
    build(trigger_len, &chosen, random).into_iter().collect()
}

/// Rate limit for stateless resets. Resets are optional and must not let an attacker cause work or
/// traffic at this endpoint.
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

    /// Returns whether another reset may be sent at `now`; counts it if so.
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

    /// RFC 9000 §10.3, §10.3.3: a stateless reset has at least 21 bytes, is smaller than the packet
    /// that triggered it, and looks like a short header packet.
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

    /// RFC 9000 §10.3.3: the total size of all resets is less than that of the packet that
    /// triggered them.
    #[test]
    fn resets_of_two_keys_are_smaller_than_what_caused_them() {
        let mut random = Random::from_number(1);
        let tokens = (token(), Some(ResetToken::new([0xcd; 16])));
        for trigger in 0..1500 {
            let mut known = [false; 2];
            for _ in 0..20 {
                let resets = build_all(trigger, tokens, &mut random);
                let total: usize = resets.iter().map(Vec::len).sum();
                assert!(total < trigger || total == 0, "{trigger}");
                assert_eq!(resets.len() == 2, trigger > 2 * MINIMUM_RESET_SIZE, "{trigger}");
                for (known, token) in known.iter_mut().zip([0xab, 0xcd]) {
                    *known |= resets.iter().any(|reset| reset.ends_with(&[token; 16]));
                }
            }
            assert_eq!(known, [trigger > MINIMUM_RESET_SIZE; 2], "{trigger}");
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
