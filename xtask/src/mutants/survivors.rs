//! Mutants that survive because they do not change observable behavior, with the reason for each.

use std::fs;

use serde::Deserialize;

use super::sample::Mutant;
use crate::command::root;

/// Path of the list of such mutants.
pub(super) const FILE: &str = "xtask/survivors.toml";

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Survivors {
    #[serde(default)]
    survivor: Vec<Survivor>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Survivor {
    /// Name of the mutant, without line and column.
    mutant: String,
    /// Why the mutant does not change observable behavior.
    why: String,
}

impl Survivors {
    /// Returns the listed reason for `mutant`, if there is one.
    pub(super) fn why(&self, mutant: &Mutant) -> Option<&str> {
        let key = mutant.key();
        let found = self.survivor.iter().find(|survivor| survivor.mutant == key);
        found.map(|survivor| survivor.why.as_str())
    }
}

/// Reads [`FILE`].
pub(super) fn read() -> Result<Survivors, String> {
    let text = fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
}
