use std::collections::BTreeMap;

/// Drops a small datagram that is waiting in the queue when a newer small datagram of its flow
/// arrives, as some modems and queue managers do with TCP ACKs (RFC 3449, Section 5.2.1). Applies
/// to any small datagram.
///
/// The newest datagram is always kept, so that its information is not lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckFilter {
    /// The filter ratio: of this many consecutive small datagrams of a flow in the queue, one is
    /// kept. With zero or one, none are dropped.
    pub keep_one_of: u32,
    /// Payload size in bytes below which a datagram is small.
    pub smaller_than: usize,
}

#[derive(Debug)]
pub(crate) struct AckFilterState {
    filter: AckFilter,
    runs: BTreeMap<u32, Run>,
    /// The number of flows at which flows without waiting datagrams are removed.
    prune_at: usize,
}

/// A flow's small datagrams in the queue.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number of the newest datagram.
    newest: u64,
    /// The number of consecutive small datagrams that were dropped.
    dropped: u32,
}

/// The initial value of `prune_at`.
const FIRST_PRUNE: usize = 64;

impl AckFilterState {
    pub(crate) fn new(filter: AckFilter) -> Self {
        Self { filter, runs: BTreeMap::new(), prune_at: FIRST_PRUNE }
    }

    /// Processes datagram `number` of `flow`, with a payload of `length` bytes, just before it is
    /// queued. `remove` removes a datagram from the queue if it is still waiting; it is called for
    /// the datagram to drop.
    pub(crate) fn on_waiting<T>(
        &mut self,
        (flow, number, length): (u32, u64, usize),
        remove: impl FnOnce(u64) -> Option<T>,
    ) -> Option<T> {
        if length >= self.filter.smaller_than {
            return None;
        }
        let run = self.runs.get(&flow).copied();
        let may_drop = |run: &Run| run.dropped.saturating_add(1) < self.filter.keep_one_of;
        let removed = run.filter(may_drop).and_then(|run| remove(run.newest));
        let dropped = match (&removed, run) {
            (Some(_), Some(run)) => run.dropped.saturating_add(1),
            _ => 0,
        };
        self.runs.insert(flow, Run { newest: number, dropped });
        removed
    }

    /// Removes flows without waiting datagrams, if there are many flows. `oldest` is the lowest
    /// number in the queue, or the next number if the queue is empty.
    pub(crate) fn prune(&mut self, oldest: u64) {
        if self.runs.len() >= self.prune_at {
            self.runs.retain(|_, run| run.newest >= oldest);
            self.prune_at = self.runs.len().saturating_mul(2).max(FIRST_PRUNE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues `count` small datagrams of one flow and returns those that remain.
    fn left(keep_one_of: u32, count: u64) -> Vec<u64> {
        let mut state = AckFilterState::new(AckFilter { keep_one_of, smaller_than: 100 });
        let mut queue = Vec::new();
        for number in 0..count {
            state.on_waiting((7, number, 99), |number| {
                let place = queue.iter().position(|waiting| *waiting == number)?;
                Some(queue.remove(place))
            });
            queue.push(number);
        }
        queue
    }

    #[test]
    fn keeps_one_of_n_and_always_the_newest() {
        assert_eq!(left(4, 13), [3, 7, 11, 12]);
        assert_eq!(left(2, 6), [1, 3, 5]);
        assert_eq!(left(u32::MAX, 100), [99]);
        for nothing in [0, 1] {
            assert_eq!(left(nothing, 5), [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn leaves_large_datagrams_and_other_flows_alone() {
        let mut state = AckFilterState::new(AckFilter { keep_one_of: 9, smaller_than: 100 });
        assert_eq!(state.on_waiting((1, 0, 50), Some), None);
        assert_eq!(state.on_waiting((1, 1, 100), Some), None);
        assert_eq!(state.on_waiting((2, 2, 50), Some), None);
        assert_eq!(state.on_waiting((1, 3, 50), Some), Some(0));
        // The previous datagram has left the queue by now, so the count starts again.
        assert_eq!(state.on_waiting((1, 4, 50), |_| None::<u64>), None);
        assert_eq!(state.on_waiting((1, 5, 50), Some), Some(4));
    }

    #[test]
    fn forgets_flows_without_waiting_datagrams() {
        let mut state = AckFilterState::new(AckFilter { keep_one_of: 2, smaller_than: 100 });
        for number in 0..10_000u32 {
            state.on_waiting((number, u64::from(number), 10), |_| None::<()>);
            state.prune(u64::from(number).saturating_sub(5));
        }
        assert!(state.runs.len() <= FIRST_PRUNE);
    }
}
