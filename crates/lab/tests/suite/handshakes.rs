//! Handshakes with real TLS under loss (`scenarios/handshakes.toml`): a subset of the runs of
//! `clearway lab sweep handshakes`.

use std::path::Path;

use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::{Scenario, Variant};
use clearway_lab::world::Stop;

fn scenario() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/handshakes.toml");
    Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn perform(variant: &Variant, seed: u64) -> Outcome {
    let extras = Extras { check: true, digest: true, ..Extras::default() };
    let outcome = run(&variant.setup, &"cubic".parse().unwrap(), seed, extras).unwrap();
    assert!(outcome.violation.is_none(), "{}, seed {seed}: {:?}", variant.name, outcome.violation);
    outcome
}

#[test]
fn all_sizes_and_key_exchanges_complete_up_to_15_percent_loss() {
    let scenario = scenario();
    assert_eq!(scenario.variants.len(), 30, "two key exchanges, three sizes, five losses");
    for variant in &scenario.variants {
        for seed in 0..32 {
            let outcome = perform(variant, seed);
            let may_fail = !variant.expect("cubic").finished;
            assert!(may_fail || outcome.stop == Stop::Finished, "{}, seed {seed}", variant.name);
        }
    }
}

/// The seed determines all times and sizes, because certificates and signatures have constant
/// sizes.
#[test]
fn a_handshake_is_repeatable() {
    for variant in scenario().variants.iter().filter(|variant| variant.name.contains("15 %")) {
        let [first, second] = [3, 3].map(|seed| perform(variant, seed));
        assert_eq!(first, second, "{}", variant.name);
        assert_ne!(first.digest, perform(variant, 4).digest, "{}", variant.name);
    }
}

/// Seeds that once failed:
///
/// - 1113, 1693, 1281: the last bytes of the ServerHello were lost, and waited for room in a window
///   full of Handshake packets. The client could not acknowledge the Handshake packets without
///   those bytes, and probes did not carry them.
/// - 942: when the server discarded the handshake keys, it forgot that its packets had been
///   acknowledged, detected persistent congestion, and set its window to the minimum (S4).
/// - 694: the timer of a lost ClientHello kept running for a padded ACK that was sent later (S21).
#[test]
fn handshakes_that_failed_once_complete() {
    let scenario = scenario();
    for (name, seed) in [
        ("ML-KEM, 16 kB, 15 %", 1113),
        ("ML-KEM, 16 kB, 15 %", 1693),
        ("ML-KEM, 4 kB, 15 %", 1281),
        ("ML-KEM, 16 kB, 15 %", 942),
        ("ML-KEM, 4 kB, 15 %", 694),
    ] {
        let variant = scenario.variants.iter().find(|variant| variant.name == name).unwrap();
        assert_eq!(perform(variant, seed).stop, Stop::Finished, "{name}, seed {seed}");
    }
}
