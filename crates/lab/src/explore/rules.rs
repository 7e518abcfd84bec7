//! The rules that must hold after every event.

use clearway_congestion::{Inspect, Phase, SendIndex, Snapshot, StateValue, Visit};

use super::sender::{SIZE, Step};
use crate::checker::{Kind, Property};

/// The rules that apply to one controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// The percentages of the window that must remain after a reduction for losses and for marks;
    /// `None` if the controller is not purely loss-based.
    betas: Option<(u64, u64)>,
    maximum: u64,
    /// Whether the window follows a curve back to its value before the last reduction.
    has_curve: bool,
    /// Whether the controller is based on delivery rates.
    is_rated: bool,
    /// The number of clean rounds within which the controller's window must grow.
    pub(super) clean_rounds: u32,
}

/// A violated property, and what was observed.
pub(super) type Fault = (Property, String);

/// The rules' own records of the last reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LastReduction {
    /// The first send index after the reduction.
    boundary: SendIndex,
    /// The window to which the curve returns; only for a controller with such a target.
    pub(super) aim: Option<Aim>,
}

/// The window to which a CUBIC curve returns (RFC 9438 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Aim {
    /// W_max, after fast convergence.
    pub(super) window: u64,
    /// The distance between the window after the reduction and the target.
    pub(super) gap: u64,
}

impl Inspect for LastReduction {
    fn inspect(&self, visit: &mut Visit<'_>) {
        let Self { boundary, aim } = *self;
        visit("boundary", StateValue::Index(boundary));
        // The duration of the curve follows from its start and its end, so the gap is implied.
        visit("aim", StateValue::optional(aim, |Aim { window, gap: _ }| StateValue::Bytes(window)));
    }
}

impl Rules {
    pub(super) fn new(controller: &str, maximum: u64) -> Self {
        let kind = Kind::named(controller);
        Self {
            betas: kind.beta().zip(kind.beta_of_marks()),
            maximum: maximum * SIZE,
            has_curve: kind.follows_cubic_curve(),
            is_rated: !kind.is_loss_based(),
            clean_rounds: kind.explored_rounds(),
        }
    }

    pub(super) fn is_rated(self) -> bool {
        self.is_rated
    }

    pub(super) fn check(self, step: &Step, reduction: &mut LastReduction) -> Result<(), Fault> {
        self.check_range(&step.after)?;
        if step.acked().is_empty() && step.lost().is_empty() {
            return Ok(());
        }
        let is_cut = step.after.congestion_events > step.before.congestion_events;
        if let Some((on_loss, on_mark)) = self.betas {
            let is_slow_start = is_slow_start(step.before.phase);
            let beta = if step.lost().is_empty() && !is_slow_start { on_mark } else { on_loss };
            check_relevance(step, is_cut, reduction.boundary)?;
            check_response(step, is_cut, beta)?;
            check_growth(step, is_cut)?;
        }
        if is_cut {
            let aim = self.has_curve.then(|| Aim::of(step, reduction.aim));
            *reduction = LastReduction { boundary: step.next_index, aim };
        }
        Ok(())
    }

    fn check_range(self, snapshot: &Snapshot) -> Result<(), Fault> {
        let window = snapshot.window;
        let range = snapshot.minimum_window.max(SIZE)..=self.maximum;
        if range.contains(&window) {
            return Ok(());
        }
        Err((Property::S3, format!("the window is {window}, outside {range:?}")))
    }
}

impl Aim {
    /// Returns the target after a reduction. If the window had not returned to the previous target,
    /// the new one is lower (RFC 9438 §4.7).
    fn of(cut: &Step, before: Option<Self>) -> Self {
        let (window, left) = (effective_window(&cut.before), effective_window(&cut.after));
        let is_lower = before.is_some_and(|aim| window < aim.window);
        let window = if is_lower { window * 17 / 20 } else { window };
        Self { window, gap: window.saturating_sub(left) }
    }
}

/// Returns the algorithm's effective window: in recovery, the window that recovery leads to.
fn effective_window(snapshot: &Snapshot) -> u64 {
    match (snapshot.phase, snapshot.slow_start_threshold) {
        (Phase::Recovery, Some(threshold)) => threshold,
        _ => snapshot.window,
    }
}

/// Checks S16 and S4: the window is reduced whenever a packet sent after the last reduction is
/// lost, and for no other reason.
fn check_relevance(step: &Step, is_cut: bool, boundary: SendIndex) -> Result<(), Fault> {
    let is_lost = step.lost().iter().any(|packet| packet.index >= boundary);
    let is_marked = step.is_marked && step.acked().iter().any(|packet| packet.index >= boundary);
    match (is_cut, is_lost || is_marked) {
        (true, false) => {
            Err((Property::S4, "a second reduction in one recovery period".to_owned()))
        }
        (false, true) => {
            Err((Property::S16, "the window was not reduced after congestion".to_owned()))
        }
        _ => Ok(()),
    }
}

fn is_slow_start(phase: Phase) -> bool {
    matches!(phase, Phase::SlowStart | Phase::ConservativeSlowStart)
}

/// Checks S4: the window is not reduced below the specified fraction.
fn check_response(step: &Step, is_cut: bool, beta: u64) -> Result<(), Fault> {
    let (before, after) = (effective_window(&step.before), effective_window(&step.after));
    let least = (before * beta / 100).saturating_sub(SIZE);
    if is_cut && after < least {
        return Err((Property::S4, format!("a reduction from {before} to {after}, below {least}")));
    }
    // A window of a few datagrams is at its floor.
    if is_cut && after >= before && before > 3 * SIZE {
        return Err((Property::S16, format!("a reduction from {before} to {after}")));
    }
    Ok(())
}

/// Checks S6: the window grows by no more than the acknowledged bytes and only if it was used, and
/// never shrinks without congestion.
fn check_growth(step: &Step, is_cut: bool) -> Result<(), Fault> {
    let (before, after) = (effective_window(&step.before), effective_window(&step.after));
    let acked: u64 = step.acked().iter().map(|packet| packet.bytes).sum();
    if is_cut {
        return Ok(());
    }
    if after < before {
        return Err((
            Property::S6,
            format!("a reduction from {before} to {after} without congestion"),
        ));
    }
    if after - before > acked {
        return Err((
            Property::S6,
            format!(
                "growth from {before} to {after} for {acked} \
            acknowledged bytes"
            ),
        ));
    }
    if after > before && !step.was_limited {
        return Err((
            Property::S6,
            format!(
                "growth from {before} to {after} although the window \
            was not used"
            ),
        ));
    }
    Ok(())
}
