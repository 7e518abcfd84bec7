//! Runs all attacks on tables that a peer can fill, and checks that the memory an endpoint
//! allocates stays below a bound.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clearway_limits::attack::{self, Attack};

/// The outcome of an attack.
struct Outcome {
    /// Maximum number of additional bytes allocated at any time during the attack.
    peak: u64,
    text: String,
}

/// Runs `attack`. Allocations are counted per thread, so attacks on other threads do not affect the
/// count.
fn outcome(attack: &Attack) -> Outcome {
    let mut scene = attack.scene();
    let used = allocation_counter::measure(|| (attack.drive)(&mut scene));
    let ended = match (&scene.closed, scene.is_closed()) {
        (Some(error), _) => format!("closed: {error}"),
        (None, true) => "closed".to_owned(),
        (None, false) => "open".to_owned(),
    };
    Outcome { peak: used.bytes_max, text: ended }
}

/// Runs all attacks. Each one takes seconds, so they are distributed over the cores.
fn outcomes(attacks: &[Attack]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let work = || {
        let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let taken = places.map_while(|place| Some((place, attacks.get(place)?)));
        taken.map(|(place, attack)| (place, outcome(attack))).collect::<Vec<_>>()
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let done = workers.into_iter().map(|worker| worker.join().expect("an attack"));
        done.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn the_memory_that_a_peer_can_fill_is_bounded() {
    let attacks = attack::all();
    let mut table = format!("{:<46} {:>12} {:>12}  outcome\n", "attack", "peak bytes", "bound");
    let mut over = Vec::new();
    for (attack, Outcome { peak, text }) in attacks.iter().zip(outcomes(&attacks)) {
        let Attack { name, bound, because, .. } = attack;
        let _ = writeln!(table, "{name:<46} {peak:>12} {bound:>12}  {text}");
        if peak > *bound {
            over.push(format!("{name}: {peak} bytes; the reason for its bound: {because}"));
        }
    }
    println!("{table}");
    assert!(over.is_empty(), "these attacks exceed their bound:\n{}\n{table}", over.join("\n"));
}
