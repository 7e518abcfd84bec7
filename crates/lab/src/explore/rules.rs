//! What has to hold at every move.

use clearway_congestion::{Phase, SendIndex, Snapshot};

use super::sender::{SIZE, Step};
use crate::checker::Property;

/// What a controller is held to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// What a cut leaves at least, in tenths; `None` if it is not driven by losses alone.
    beta_tenths: Option<u64>,
    maximum: u64,
}

/// A property and what was seen.
pub(super) type Fault = (Property, String);

/// Where the last cut was made, by books of our own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Boundary(SendIndex);

impl Rules {
    pub(super) fn new(controller: &str, maximum: u64) -> Self {
        let beta_tenths = match controller {
            "reno" => Some(5),
            "cubic" => Some(7),
            _ => None,
        };
        Self { beta_tenths, maximum: maximum * SIZE }
    }

    pub(super) fn check(self, step: &Step, boundary: &mut Boundary) -> Result<(), Fault> {
        self.check_range(&step.after)?;
        if step.acked.is_empty() && step.lost.is_empty() {
            return Ok(());
        }
        let is_cut = step.after.congestion_events > step.before.congestion_events;
        if let Some(beta) = self.beta_tenths {
            check_relevance(step, is_cut, *boundary)?;
            check_response(step, is_cut, beta)?;
            check_growth(step, is_cut)?;
        }
        if is_cut {
            *boundary = Boundary(step.next_index);
        }
        Ok(())
    }

    fn check_range(self, snapshot: &Snapshot) -> Result<(), Fault> {
        let window = snapshot.window;
        let range = snapshot.minimum_window.max(SIZE)..=self.maximum;
        if range.contains(&window) {
            return Ok(());
        }
        Err((Property::S3, format!("the window is {window}, outside of {range:?}")))
    }
}

/// The window that the algorithm reckons with: in recovery the one that it leads to.
fn reckoned(snapshot: &Snapshot) -> u64 {
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => snapshot.window,
    }
}

/// S16 and S4: a cut for what was sent after the last one, for nothing else, and for that always.
fn check_relevance(step: &Step, is_cut: bool, boundary: Boundary) -> Result<(), Fault> {
    let is_lost = step.lost.iter().any(|packet| packet.index >= boundary.0);
    let is_marked = step.is_marked && step.acked.iter().any(|packet| packet.index >= boundary.0);
    match (is_cut, is_lost || is_marked) {
        (true, false) => Err((Property::S4, "a second cut in one recovery period".to_owned())),
        (false, true) => Err((Property::S16, "congestion was not answered".to_owned())),
        _ => Ok(()),
    }
}

/// S4: by no more than the factor.
fn check_response(step: &Step, is_cut: bool, beta: u64) -> Result<(), Fault> {
    let (before, after) = (reckoned(&step.before), reckoned(&step.after));
    let least = (before * beta / 10).saturating_sub(SIZE);
    if is_cut && after < least {
        return Err((Property::S4, format!("a cut from {before} to {after}, below {least}")));
    }
    // A window of a few datagrams is at its floor.
    if is_cut && after >= before && before > 3 * SIZE {
        return Err((Property::S16, format!("a cut from {before} to {after}")));
    }
    Ok(())
}

/// S6: no more than was acknowledged, nothing unless the window was used, and never less without congestion.
fn check_growth(step: &Step, is_cut: bool) -> Result<(), Fault> {
    let (before, after) = (reckoned(&step.before), reckoned(&step.after));
    let acked: u64 = step.acked.iter().map(|packet| packet.bytes).sum();
    if is_cut {
        return Ok(());
    }
    if after < before {
        return Err((Property::S6, format!("from {before} to {after} without congestion")));
    }
    if after - before > acked {
        return Err((Property::S6, format!("from {before} to {after} for {acked} bytes")));
    }
    if after > before && !step.was_limited {
        return Err((Property::S6, format!("from {before} to {after}, and it was not used")));
    }
    Ok(())
}
