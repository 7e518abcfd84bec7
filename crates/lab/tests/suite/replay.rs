//! Tests that the same seed yields the same bytes, every time and on every machine.

use std::path::Path;

use clearway_lab::run::{Extras, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// A scenario that uses everything that depends on random numbers: loss, reordering, duplicates and
/// a queue.
const SCENARIO: &str = r#"
summary = "A small download over a bad path."
limit = "20s"

[network]
delay = "10ms"
jitter = "2ms"
jitter_reorders = true
rate = "20mbit"
queue = { packets = 20 }
loss = [{ random = "3%" }]
duplicate = "1%"

[[flow]]
name = "download"
traffic = { download = "300kB" }
"#;

/// The digest of the data sent in each controller's run with seed 7. Any change in what is sent, or
/// when, changes a digest; commit the new digest together with the change that causes it.
const DIGESTS: [(&str, &str); 3] = [
    ("reno", "c171180eee2df187282348b88b2f7de05bc3de004407612dd10513a3fb750b72"),
    ("cubic", "aa8187bf74f949e546ba02019f1cda4615b8616dcc00d003b89493215a325eca"),
    ("bbr", "355875192774e3bf820bab48418bc84f9802d9a0a7a8f9c41398a68cd7447616"),
];

#[test]
fn a_seed_gives_the_recorded_digest() {
    let scenario = Scenario::parse("small", SCENARIO, Path::new("")).unwrap();
    let digest = |controller: &str, seed| {
        let extras = Extras { digest: true, ..Extras::default() };
        let candidate = controller.parse().unwrap();
        let outcome = run(&scenario.variants[0].setup, &candidate, seed, extras).unwrap();
        assert_eq!(outcome.stop, Stop::Finished);
        outcome.digest.unwrap()
    };
    let digests = DIGESTS.map(|(controller, _)| (controller, digest(controller, 7)));
    assert_eq!(digests.each_ref().map(|(name, digest)| (*name, digest.as_str())), DIGESTS);
    for (controller, expected) in DIGESTS {
        assert_ne!(digest(controller, 8), expected, "{controller}");
    }
}
