//! The explanations in notes.toml.

use serde::Deserialize;

const FILE: &str = "interop/tests/conformance/notes.toml";

/// Explanations of the results.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notes {
    #[serde(rename = "group")]
    pub(super) groups: Vec<Group>,
    pub(super) varies: Vec<Varying>,
}

/// Checks with a common explanation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) title: String,
    /// The names of the checks; `*` at the beginning or the end stands for any characters.
    checks: Vec<String>,
    pub(super) text: String,
}

/// A check whose result varies from run to run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Varying {
    pub(super) server: String,
    pub(super) check: String,
    pub(super) reason: String,
}

impl Notes {
    pub(super) fn read() -> Self {
        toml::from_str(&super::read(FILE)).expect("notes.toml can be parsed")
    }

    pub(super) fn varies(&self, server: &str, check: &str) -> bool {
        self.varies.iter().any(|it| it.server == server && it.check == check)
    }
}

impl Group {
    pub(super) fn has(&self, check: &str) -> bool {
        self.checks.iter().any(|pattern| {
            match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
                (Some(end), _) => check.ends_with(end),
                (_, Some(start)) => check.starts_with(start),
                _ => check == pattern,
            }
        })
    }
}
