//! The mutants that change nothing that anybody could notice, and why.

use std::fs;

use serde::Deserialize;

use super::sample::Mutant;
use crate::command::root;

/// Where they are listed.
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
    /// The mutant's name without the place within its file.
    mutant: String,
    why: String,
}

impl Survivors {
    /// Why `mutant` changes nothing, if that is known.
    pub(super) fn why(&self, mutant: &Mutant) -> Option<&str> {
        let key = mutant.key();
        let found = self.survivor.iter().find(|survivor| survivor.mutant == key);
        found.map(|survivor| survivor.why.as_str())
    }
}

/// What [`FILE`] lists.
pub(super) fn read() -> Result<Survivors, String> {
    let text = fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))
}
