//! The mutants that survive because they change no observable behavior, each with the reason.

use std::fs;

use serde::Deserialize;

use super::sample::Mutant;
use crate::command::root;

/// The file that lists them.
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
    /// The mutant's name without line and column.
    mutant: String,
    /// The reason why it changes no observable behavior.
    why: String,
}

impl Survivors {
    /// The reason why `mutant` changes no observable behavior, if it is listed.
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
