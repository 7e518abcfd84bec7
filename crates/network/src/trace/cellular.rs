use core::time::Duration;

use clearway_units::{Random, Rate};

use super::{OPPORTUNITY, Trace};

/// A synthetic trace that resembles the link of a moving phone: the rate drifts between a floor and
/// a ceiling, with occasional outages. It does not imitate a particular recording; it exists so
/// that tests do not need one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cellular {
    /// The range of the rate. Every 20 ms, the rate is multiplied or divided by a factor of up to
    /// 1.25.
    pub between: (Rate, Rate),
    /// The average number of outages per ten seconds. Each outage lasts 50 to 500 ms; two outages
    /// may overlap.
    pub outages: f64,
    /// The length of the trace, in whole milliseconds.
    pub length: Duration,
}

/// The interval at which the rate changes, in milliseconds.
const STEP: u64 = 20;
/// The size of a delivery opportunity, in bytes times milliseconds per second.
const FULL: u64 = OPPORTUNITY.saturating_mul(1000);

impl Trace {
    /// Generates the trace for `seed`.
    pub fn cellular(cellular: &Cellular, seed: u64) -> Self {
        let mut random = Random::from_number(seed);
        let floor = cellular.between.0.bytes_per_second();
        let ceiling = cellular.between.1.bytes_per_second().max(floor);
        let span = ceiling.saturating_sub(floor).saturating_add(1);
        let mut rate = floor.saturating_add(random.below(span));
        let length = u64::try_from(cellular.length.as_millis()).unwrap_or(u64::MAX).max(1);
        let steps_in_ten_seconds = 500.0;
        let mut silent_until = 0u64;
        let mut credit = 0u64;
        let mut opportunities = Vec::new();
        for time in 0..length {
            if time.is_multiple_of(STEP) {
                rate = wander(rate, &mut random).clamp(floor, ceiling);
                if random.chance(cellular.outages / steps_in_ten_seconds) {
                    silent_until = time.saturating_add(random.below(451)).saturating_add(50);
                }
            }
            if time >= silent_until {
                credit = credit.saturating_add(rate);
            }
            while let Some(left) = credit.checked_sub(FULL) {
                credit = left;
                opportunities.push(time);
            }
        }
        // The last line determines the length of the trace.
        opportunities.push(length);
        Self { opportunities: opportunities.into() }
    }
}

/// Returns `rate` multiplied or divided by a factor of up to 1.25, equally often up and down, so
/// that it has no trend.
fn wander(rate: u64, random: &mut Random) -> u64 {
    let percent = u128::from(random.below(26).saturating_add(100));
    let rate = u128::from(rate);
    let changed = match random.chance(0.5) {
        true => rate.saturating_mul(percent) / 100,
        false => rate.saturating_mul(100).checked_div(percent).unwrap_or(rate),
    };
    u64::try_from(changed).unwrap_or(u64::MAX)
}
