//! Runs congestion controllers inside the real stack, over simulated networks and in virtual time,
//! while a checker verifies properties of every run.
//!
//! A [`setup::Setup`] describes networks, endpoints and traffic; [`run::run`] simulates it with a
//! controller and a seed, using the real transport and HTTP/3 at both endpoints. The same seed
//! yields the same datagrams, byte for byte.
//!
//! ```
//! use clearway_lab::run::{Extras, run};
//! use clearway_lab::scenario::Scenario;
//! use std::path::Path;
//!
//! let text = r#"
//!     summary = "One download"
//!     [network]
//!     rate = "20mbit"
//!     delay = "10ms"
//!     [[flow]]
//!     name = "download"
//!     traffic = { download = "100kB" }
//! "#;
//! let scenario = Scenario::parse("example", text, Path::new(""))?;
//! let extras = Extras { check: true, ..Extras::default() };
//! let outcome = run(&scenario.variants[0].setup, &"cubic".parse()?, 1, extras)?;
//! assert!(outcome.flows[0].took.is_some() && outcome.violation.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod across;
pub mod application;
pub mod checker;
mod digest;
pub mod disturb;
pub mod end;
pub mod explore;
pub mod fleet;
pub mod log;
pub mod report;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod setup;
pub mod stack;
pub mod sweep;
pub mod world;
