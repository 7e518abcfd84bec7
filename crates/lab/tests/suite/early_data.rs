//! Early data in the lab (`scenarios/early-data.toml`), with every controller and under the checker.

use std::path::Path;
use std::time::Duration;

use clearway_lab::run::{Extras, Outcome, run};
use clearway_lab::scenario::{Scenario, Variant};
use clearway_lab::world::Stop;

fn variants() -> Vec<Variant> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/early-data.toml");
    Scenario::load(&path).unwrap_or_else(|error| panic!("{error}")).variants
}

fn perform(variant: &Variant, controller: &str, seed: u64) -> Outcome {
    let extras = Extras { check: true, ..Extras::default() };
    let outcome = run(&variant.setup, &controller.parse().unwrap(), seed, extras).unwrap();
    let what = format!("{}, {controller}, seed {seed}", variant.name);
    assert!(outcome.violation.is_none(), "{what}: {:?}", outcome.violation);
    assert_eq!(outcome.stop, Stop::Finished, "{what}");
    outcome
}

#[test]
fn early_data_arrives_whatever_is_lost_or_rejected() {
    for variant in variants() {
        for controller in ["reno", "cubic", "bbr"] {
            let took: Vec<Duration> = (0..10)
                .map(|seed| {
                    let outcome = perform(&variant, controller, seed);
                    assert_eq!(outcome.flows[0].received, 8000, "{}, seed {seed}", variant.name);
                    outcome.flows[0].took.unwrap()
                })
                .collect();
            let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
            println!("{:40} {controller:6} {least:?} to {most:?}", variant.name);
        }
    }
}

/// The first flight is answered after one round trip, or after two if the server rejects the early
/// data.
#[test]
fn a_round_trip_is_saved() {
    let variants = variants();
    let took = |name: &str| {
        let variant = variants.iter().find(|variant| variant.name == name).unwrap();
        perform(variant, "cubic", 0).flows[0].took.unwrap()
    };
    assert_eq!(took("base"), Duration::from_millis(50));
    assert_eq!(took("rejected"), Duration::from_millis(100));
}
