//! The same seed gives the same bytes, every time and on every machine.

use std::path::Path;

use clearway_lab::run::{Extras, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

/// Losses, reordering, duplicates and a queue: everything that draws.
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

/// What each controller's run with seed 7 sends. A change of anything that is sent, or when, is to be
/// seen here: it belongs into the same commit as what caused it.
const DIGESTS: [(&str, &str); 3] = [
    ("reno", "95028eb32ff2bd96516180a5737c22a5bb28da9476465932d20acd7d1273d41b"),
    ("cubic", "d9058006f9fa933ed03cffd3e922d025cfc4bcfaed24700b5fd8dab15f4b1aff"),
    ("bbr", "579e248f248620d0fe65b3d467887bdf22e28808f697dbca540f744a4a8ab2b7"),
];

#[test]
fn a_seed_has_its_digest() {
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
