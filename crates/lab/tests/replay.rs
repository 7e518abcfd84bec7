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
    ("reno", "9ae877c5224225444eef37b69ada65ae0847c4b9e742ce20321374bffe3b5c07"),
    ("cubic", "f7240d9602b027a5c16004686d26e33e18cdedf85ffc28a213745e5605602cd2"),
    ("bbr", "d021895ffe37fa7aad4cf9d34b0b8020870ca32fb590e712fc341683ea46a09a"),
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
