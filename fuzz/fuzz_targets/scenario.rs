//! Fuzzes scenarios: a scenario is either accepted, or rejected with a message.
#![no_main]

use std::path::Path;

use clearway_lab::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Scenario::parse("fuzz", text, Path::new("/nonexistent")) {
        Ok(scenario) => {
            assert!(!scenario.variants.is_empty() && !scenario.controllers.is_empty());
            for variant in &scenario.variants {
                assert!(variant.seeds(scenario.seeds) <= scenario.seeds);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
