//! Scenarios: networks, traffic and expected results, as TOML files.
//!
//! A file (see `crates/lab/scenarios/README.md` for every key) is read into a [`Scenario`]: plain
//! data that, together with a seed and a controller, determines a run completely. This takes two
//! steps:
//!
//! 1. `file`: the keys and their types are read exactly as they are written. Values with units are
//!    parsed here (`value`).
//! 2. `resolve`: each variant's settings override those of the base (`settings`), defaults are
//!    filled in, names are looked up, and settings that make no sense are rejected.
//!
//! Every error is reported as a [`ScenarioError`] with its line and column.

pub mod embedded;
mod error;
mod expectations;
mod file;
mod nearest;
mod resolve;
mod settings;
mod value;

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;

use crate::setup::Setup;

pub use error::ScenarioError;
pub use expectations::{Expectations, ShareBound};
pub use nearest::nearest;

/// The controllers that scenarios may specify.
pub const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr"];

/// Networks and traffic, with the expected results.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario's name: its file name without the extension.
    pub name: String,
    /// The path of the scenario's file as passed by the caller, or the name of an embedded
    /// scenario.
    pub file: String,
    /// A summary in one line.
    pub summary: String,
    /// Published results for comparison.
    pub references: Vec<Reference>,
    /// The number of seeds that `lab run` uses.
    pub seeds: u64,
    /// The controllers to run, at least one.
    pub controllers: Vec<String>,
    /// The variants, at least one. The first is `base`, unless the file excludes its base.
    pub variants: Vec<Variant>,
}

/// A published result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The measured quantity and its value.
    pub figure: String,
    /// The source.
    pub source: String,
    /// The controller that the result applies to; `None` if it applies to all.
    pub controller: Option<String>,
    /// The variant that the result applies to; `None` if it applies to all.
    pub variant: Option<String>,
    /// The duration of a run, if that was measured.
    pub time: Option<Duration>,
}

/// One network with its traffic.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The variant's name, unique in the scenario.
    pub name: String,
    /// The fraction of the scenario's seeds with which this variant is run: above 0 and at most 1.
    pub share: f64,
    /// The network and the traffic.
    pub setup: Setup,
    /// The expectations for each controller of the scenario.
    pub expectations: BTreeMap<String, Expectations>,
}

impl Variant {
    /// Returns the number of seeds, out of `seeds`, with which this variant is run: its share,
    /// rounded up.
    pub fn seeds(&self, seeds: u64) -> u64 {
        let exact = self.share * seeds as f64;
        (exact.ceil() as u64).clamp(u64::from(seeds > 0), seeds)
    }

    /// Returns the expectations for runs with `controller`. Runs with a controller that the
    /// scenario does not list are only expected to finish.
    pub fn expect(&self, controller: &str) -> Expectations {
        self.expectations.get(controller).cloned().unwrap_or_default()
    }
}

impl Scenario {
    /// Reads a file. The scenario is named after the file; paths of recorded traces are relative to the file's folder.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Unreadable`], or the errors of [`parse`](Self::parse).
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |error| ScenarioError::Unreadable { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::from_text(&name, &path.display().to_string(), &text, folder)
    }

    /// Parses `text` as the scenario `name`. Paths in it are relative to `folder`.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Invalid`] if it is not valid TOML, has unknown keys or values of a
    /// wrong type or unit, or is inconsistent.
    pub fn parse(name: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        Self::from_text(name, &format!("{name}.toml"), text, folder)
    }

    fn from_text(name: &str, file: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        let settings = toml::from_str(text).map_err(|error| error::Fault::from_toml(&error));
        settings
            .and_then(|settings| resolve::scenario(name, file, &settings, folder))
            .map_err(|fault| fault.locate(file, text))
    }
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
