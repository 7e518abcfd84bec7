//! The contract of [`Controller`], as tests that can be run against any implementation.
//!
//! ```
//! use clearway_congestion::{ControllerFactory, Reno, conformance};
//!
//! conformance::check(|parameters| Box::new(Reno::new(parameters)));
//! ```
//!
//! Each test runs a sender with the controller over a path in virtual time. A failed test panics
//! with the first violated rule, the time, and the details.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails panics"
)]

mod path;

use core::time::Duration;

use clearway_units::Random;
use clearway_units::packed::{Packer, Unpacker};

use crate::{Controller, ControllerParameters};

use path::{Fate, Offer, Path};

/// The size of the path's datagrams, in bytes.
const SIZE: u64 = 1200;
/// The largest window that the tests allow, in bytes.
const MAXIMUM_WINDOW: u64 = 2000 * SIZE;
/// The time within which a limited sender has to use most of the path again after a disturbance:
/// 100 round trips without a queue. Growing from the minimum window by one datagram per round trip
/// would take 40.
const RECOVERY: Duration = Duration::from_secs(6);
/// The percentage of the path's capacity that a sender has to use after recovery.
const USED: u64 = 75;

/// Creates a controller with the given parameters.
type Build<'a> = &'a dyn Fn(&ControllerParameters) -> Box<dyn Controller>;

/// Runs every test of the contract, each with a new controller from `build`:
///
/// - **bounds**: the window is never below two datagrams (RFC 9002 §7.2) nor above the maximum, and
///   the snapshot contains the same window.
/// - **response**: the controller responds once to the losses and CE marks of one round trip
///   (§7.3.1), and reports the response; its statistics count the same number of responses.
/// - **growth**: the window does not grow unless it limits the sender (§7.8), and grows by no more
///   than the acknowledged bytes.
/// - **liveness**: after losses, persistent congestion, silence, little traffic, or late packets,
///   the sender uses the path again.
/// - **repetition**: the same events lead to the same windows.
/// - **packing**: packing and unpacking a controller does not change its behavior.
///
/// # Panics
/// Panics if a test fails.
pub fn check(build: impl Fn(&ControllerParameters) -> Box<dyn Controller>) {
    let build: Build<'_> = &build;
    keeps_its_rules_under_any_losses(build);
    does_not_grow_without_use(build);
    for disturbance in Disturbance::ALL {
        uses_the_path_after(build, disturbance);
    }
    does_the_same_again(build);
    goes_on_after_it_was_packed(build);
}

fn parameters(seed: u64) -> ControllerParameters {
    let (max_datagram_size, maximum_window) = (SIZE, MAXIMUM_WINDOW);
    ControllerParameters { max_datagram_size, initial_window: None, maximum_window, seed }
}

fn path(build: Build<'_>, seed: u64) -> Path {
    Path::new(build(&parameters(seed)), &parameters(seed))
}

/// Tests any amount of loss, marks, late packets and intermittent data. [`Path`] checks each event.
fn keeps_its_rules_under_any_losses(build: Build<'_>) {
    for seed in 0..20 {
        let mut random = Random::from_number(seed);
        let mut path = path(build, seed);
        for _ in 0..12 {
            let (lost, marked, late) = match random.below(4) {
                0 => (0.0, 0.0, 0.0),
                1 => (random.fraction() * 0.5, 0.0, 0.0),
                2 => (random.fraction() * 0.05, random.fraction() * 0.1, 0.0),
                _ => (0.01, 0.0, random.fraction() * 0.1),
            };
            let offer = match random.below(3) {
                0 => Offer::Interval(Duration::from_millis(1 + random.below(100))),
                _ => Offer::Backlog,
            };
            let time = Duration::from_millis(random.below(1500));
            path.run(time, offer, &mut |_| match random.fraction() {
                chance if chance < lost => Fate::Lost,
                chance if chance < lost + marked => Fate::Marked,
                chance if chance < lost + marked + late => Fate::Late,
                _ => Fate::Arrives,
            });
        }
    }
}

/// Sends a datagram every 20 ms, for much longer than a round trip.
fn does_not_grow_without_use(build: Build<'_>) {
    let mut path = path(build, 1);
    let offer = Offer::Interval(Duration::from_millis(20));
    // An earlier limitation counts for this round trip and the next.
    path.run(Duration::from_secs(1), offer, &mut |_| Fate::Arrives);
    let before = path.window();
    path.run(Duration::from_secs(10), offer, &mut |_| Fate::Arrives);
    let after = path.window();
    assert!(
        after <= before,
        "growth: from {before} to {after} bytes although the window did not limit sending"
    );
}

/// A disturbance of a sender that fully uses the path.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    Nothing,
    OneLoss,
    HalfOfAWindow,
    ManyLosses,
    Silence,
    Idle,
    LittleTraffic,
    LatePackets,
    Marks,
}

impl Disturbance {
    const ALL: [Self; 9] = [
        Self::Nothing,
        Self::OneLoss,
        Self::HalfOfAWindow,
        Self::ManyLosses,
        Self::Silence,
        Self::Idle,
        Self::LittleTraffic,
        Self::LatePackets,
        Self::Marks,
    ];

    fn happens(self, path: &mut Path) {
        let arrives = &mut |_| Fate::Arrives;
        let begin = path.next_index();
        match self {
            Self::Nothing => {}
            Self::OneLoss => {
                let mut lose_one =
                    |index| if index == begin + 5 { Fate::Lost } else { Fate::Arrives };
                path.run(Duration::from_millis(500), Offer::Backlog, &mut lose_one);
            }
            Self::HalfOfAWindow => {
                let end = begin + path.window() / SIZE / 2;
                let mut lose = |index| if index < end { Fate::Lost } else { Fate::Arrives };
                path.run(Duration::from_millis(500), Offer::Backlog, &mut lose);
            }
            Self::ManyLosses => {
                let mut lose = |index| if index % 5 == 0 { Fate::Lost } else { Fate::Arrives };
                path.run(Duration::from_secs(5), Offer::Backlog, &mut lose);
            }
            Self::Silence => path.run(Duration::from_secs(5), Offer::Backlog, &mut |_| Fate::Lost),
            Self::Idle => path.run(Duration::from_secs(20), Offer::Nothing, arrives),
            Self::LittleTraffic => {
                let offer = Offer::Interval(Duration::from_millis(200));
                path.run(Duration::from_secs(20), offer, arrives);
            }
            Self::LatePackets => {
                let mut late = |index| if index % 50 == 0 { Fate::Late } else { Fate::Arrives };
                path.run(Duration::from_secs(3), Offer::Backlog, &mut late);
            }
            Self::Marks => {
                let mut mark = |index| if index % 20 == 0 { Fate::Marked } else { Fate::Arrives };
                path.run(Duration::from_secs(3), Offer::Backlog, &mut mark);
            }
        }
    }
}

fn uses_the_path_after(build: Build<'_>, disturbance: Disturbance) {
    let mut path = path(build, 1);
    path.run(Duration::from_secs(3), Offer::Backlog, &mut |_| Fate::Arrives);
    disturbance.happens(&mut path);
    path.run(RECOVERY, Offer::Backlog, &mut |_| Fate::Arrives);
    let (from, time) = (path.delivered(), Duration::from_secs(4));
    path.run(time, Offer::Backlog, &mut |_| Fate::Arrives);
    let (delivered, possible) = (path.delivered() - from, path::RATE.bytes_in(time));
    let window = path.window();
    assert!(
        delivered * 100 >= possible * USED,
        "liveness: {RECOVERY:?} after {disturbance:?}, {delivered} of {possible} bytes arrive in {time:?}; the window is {window} bytes"
    );
}

/// Records, every few milliseconds, the window of a sender that loses every twentieth packet.
fn windows(mut path: Path, mut between: impl FnMut(&mut Path)) -> Vec<(u64, u64)> {
    let mut windows = Vec::new();
    for part in 0..200 {
        let offer = if part % 50 < 40 { Offer::Backlog } else { Offer::Nothing };
        let mut lose = |index| match index % 100 {
            20 if part < 150 => Fate::Lost,
            60 => Fate::Late,
            _ => Fate::Arrives,
        };
        path.run(Duration::from_millis(23), offer, &mut lose);
        windows.push((path.window(), path.delivered()));
        between(&mut path);
    }
    windows
}

fn does_the_same_again(build: Build<'_>) {
    let [first, second] = [(); 2].map(|()| windows(path(build, 3), |_| {}));
    assert!(first == second, "repetition: different windows after the same events");
}

fn goes_on_after_it_was_packed(build: Build<'_>) {
    let kept = windows(path(build, 4), |_| {});
    let packed = windows(path(build, 4), |path| {
        path.replace_controller(|controller| {
            let mut packer = Packer::new();
            let Some(unpack) = controller.pack(&mut packer) else { return controller };
            let bytes = packer.finish();
            let mut unpacker = Unpacker::new(&bytes);
            let same = unpack(&mut unpacker);
            assert!(unpacker.is_at_end(), "packing: more bytes are written than read");
            same
        });
    });
    let differs = kept.iter().zip(&packed).position(|(kept, packed)| kept != packed);
    assert!(differs.is_none(), "packing: different windows after part {differs:?}");
}

#[cfg(test)]
#[path = "conformance_tests.rs"]
mod tests;
