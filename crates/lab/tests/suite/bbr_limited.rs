//! BBR when the application, not the path, limits the rate.

use core::time::Duration;
use std::path::Path;

use clearway_lab::run::{Extras, run};
use clearway_lab::scenario::Scenario;
use clearway_lab::world::Stop;

fn scenario(name: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    Scenario::load(&folder.join(format!("{name}.toml"))).unwrap()
}

/// Small requests reveal nothing about the path, so BBR stays in Startup and later data is sent as
/// fast as on a new connection.
#[test]
fn small_requests_do_not_end_startup() {
    let scenario = scenario("requests-then-bulk");
    let took = |name: &str, seed| {
        let variant = scenario.variants.iter().find(|variant| variant.name == name).unwrap();
        let extras = Extras { check: true, ..Extras::default() };
        let outcome = run(&variant.setup, &"bbr".parse().unwrap(), seed, extras).unwrap();
        assert_eq!(outcome.stop, Stop::Finished, "{name}, {seed}: {:?}", outcome.violation);
        outcome.took().unwrap()
    };
    for seed in 0..5 {
        // The last of 300 requests, one every 50 ms, is answered after 14.97 s.
        let after = took("base", seed) - Duration::from_millis(14_970);
        let alone = took("a new connection", seed);
        println!("seed {seed}: {after:?} after requests, {alone:?} on a new connection");
        assert!(after <= alone * 11 / 10, "seed {seed}: {after:?}, {alone:?}");
    }
}
