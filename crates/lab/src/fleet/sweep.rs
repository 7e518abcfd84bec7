//! Simulates many fleets on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{Report, Settings, Size, simulate};

/// Simulates the fleet of each seed on `threads` threads, at least one, and passes each report to
/// `on_report` on the calling thread, in any order. Ends early once `is_ended` is set.
pub fn sweep(
    seeds: Range<u64>,
    size: Size,
    threads: usize,
    is_ended: &AtomicBool,
    on_report: &mut dyn FnMut(Settings, Report),
) {
    let next = AtomicU64::new(seeds.start);
    let (sender, reports) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (sender, next, end) = (sender.clone(), &next, seeds.end);
            scope.spawn(move || {
                while !is_ended.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let settings = Settings::of_seed(seed, size);
                    if sender.send((settings, simulate(seed, &settings))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        reports.iter().for_each(|(settings, report)| on_report(settings, report));
    });
}
