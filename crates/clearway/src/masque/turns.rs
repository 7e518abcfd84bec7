//! Alternation between the two directions of a relay.

use core::task::{Context, Poll};

use super::error::RelayEnd;

/// Maximum number of turns of both directions before the relay yields to other tasks. A client that
/// sends faster than the relay can process must not keep it from noticing anything else.
const TURNS: usize = 16;

/// The result of a turn: more may follow, nothing is left, or the relay is over.
pub(super) type Turn = Poll<Result<(), RelayEnd>>;

/// Calls `relay`, which relays a bounded number of datagrams in each direction, until neither has
/// any left. Returns the reason if the relay is over.
pub(super) fn poll_turns(
    context: &mut Context<'_>,
    mut relay: impl FnMut(&mut Context<'_>) -> [Turn; 2],
) -> Poll<RelayEnd> {
    for _ in 0..TURNS {
        match relay(context) {
            [Poll::Ready(Err(end)), _] | [_, Poll::Ready(Err(end))] => return Poll::Ready(end),
            [Poll::Pending, Poll::Pending] => return Poll::Pending,
            _ => {}
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use core::task::Waker;
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_flood_in_one_direction_leaves_time_for_others() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let mut turns = 0;
        let polled = poll_turns(&mut Context::from_waker(&waker), |_| {
            turns += 1;
            assert!(turns < 1000);
            [Poll::Ready(Ok(())), Poll::Pending]
        });
        assert!(polled.is_pending());
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_end_of_either_direction_ends_the_relay() {
        let mut context = Context::from_waker(Waker::noop());
        for at in 0..2 {
            let polled = poll_turns(&mut context, |_| {
                let mut turns = [Poll::Ready(Ok(())), Poll::Pending];
                turns[at] = Poll::Ready(Err(RelayEnd::Idle));
                turns
            });
            assert!(matches!(polled, Poll::Ready(RelayEnd::Idle)));
        }
        assert!(poll_turns(&mut context, |_| [Poll::Pending, Poll::Pending]).is_pending());
    }
}
