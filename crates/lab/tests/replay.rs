//! The same seed gives the same bytes, every time and on every machine.

use std::path::Path;

use clearway_lab::run::{Extras, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// Loss, reordering, duplicates and a queue: everything that uses random numbers.
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

/// The digest of what each controller's run with seed 7 sends. Any change in what is sent, or when, changes a
/// digest: the new one belongs in the commit that causes it.
const DIGESTS: [(&str, &str); 3] = [
    ("reno", "63b429c0d1894ded4bda14d9fa6b6299c00aaac1942d6236e003b6cc178fee33"),
    ("cubic", "79db2795eb379f22454c10399a013fde40de5aa033052e24c7e4fe0efbb6c52a"),
    ("bbr", "a586e09e7d0adcad4398862d31abdbc85fc0834163d0d9df54dfd9ff1c314313"),
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
