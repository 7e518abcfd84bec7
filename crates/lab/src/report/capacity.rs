//! How much a bottleneck could have carried.

use core::time::Duration;

use clearway_network::Conditions;
use clearway_units::Rate;

/// Bytes, lower layers' included, that fit through the bottleneck of `conditions` in the first `time`
/// after the link's first datagram; `None` if nothing limits it at some time. Of a recorded rate it is
/// the mean that counts.
pub(super) fn capacity(conditions: &Conditions, time: Duration) -> Option<u64> {
    if let Some(trace) = &conditions.trace {
        return Some(trace.mean_rate().bytes_in(time));
    }
    let mut steps = conditions.rate_steps.clone();
    steps.sort_by_key(|step| step.after);
    let starts = core::iter::once((Duration::ZERO, conditions.rate));
    let pieces: Vec<(Duration, Option<Rate>)> =
        starts.chain(steps.iter().map(|step| (step.after, step.value))).collect();
    let ends = pieces.iter().skip(1).map(|(start, _)| *start).chain([Duration::MAX]);
    let mut total: u64 = 0;
    for ((start, rate), end) in pieces.iter().zip(ends) {
        let length = end.min(time).saturating_sub(*start);
        if !length.is_zero() {
            total = total.saturating_add((*rate)?.bytes_in(length));
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests;
