//! Lists mutants and draws the sample to test.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::areas::{self, Area};
use crate::command::{self, root};

/// A change to the code, as listed by cargo-mutants.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Mutant {
    /// The mutant's name as printed by cargo-mutants: `FILE:LINE:COLUMN: CHANGE`.
    pub(super) name: String,
    /// Package that contains the file.
    pub(super) package: String,
    /// Path of the file, relative to the repository.
    pub(super) file: PathBuf,
    pub(super) genre: Genre,
    /// The part of the file that is replaced.
    pub(super) span: Span,
    /// Text that replaces this part of the file.
    pub(super) replacement: String,
}

/// Kind of syntax that a mutant changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) enum Genre {
    /// The body of a function is replaced.
    FnValue,
    /// A binary operator is replaced.
    BinaryOperator,
    /// A unary operator is removed or replaced.
    UnaryOperator,
    /// An arm of a match expression is deleted.
    MatchArm,
    /// The guard of a match arm is replaced.
    MatchArmGuard,
    /// A field of a struct expression with a base is deleted.
    StructField,
}

/// Range of text in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Span {
    pub(super) start: Place,
    pub(super) end: Place,
}

/// Line and column in characters, both counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Mutant {
    /// Returns the mutant's name without line and column, which change with every edit above it.
    pub(super) fn key(&self) -> String {
        let mut parts = self.name.splitn(4, ':');
        let (file, _line, _column, what) = (parts.next(), parts.next(), parts.next(), parts.next());
        match (file, what) {
            (Some(file), Some(what)) => format!("{file}:{what}"),
            _ => self.name.clone(),
        }
    }
}

/// Returns the arguments that select the files of `area`.
pub(super) fn files(area: &Area) -> impl Iterator<Item = &'static str> {
    let excluded = areas::EXCLUDED.iter().flat_map(|file| ["--exclude", *file]);
    area.files.iter().flat_map(|file| ["--file", *file]).chain(excluded)
}

/// Lists all mutants in `area`.
pub(super) fn list(tool: &Path, area: &Area) -> Result<Vec<Mutant>, String> {
    let mut command = std::process::Command::new(tool);
    command
        .args(["mutants", "--workspace", "--list", "--json"])
        .args(files(area))
        .current_dir(root());
    let text = command::output("listing the mutants", &mut command)?;
    serde_json::from_str(&text).map_err(|error| format!("cannot read the list of mutants: {error}"))
}

/// Draws `count` mutants without changing their order. The draw depends only on each mutant's name,
/// so changes elsewhere in the code hardly affect the sample.
pub(super) fn choose(all: &[Mutant], seed: u64, count: usize) -> Vec<Mutant> {
    let mut drawn: Vec<(u64, usize)> =
        all.iter().enumerate().map(|(index, mutant)| (draw(seed, &mutant.key()), index)).collect();
    drawn.sort_unstable();
    let mut chosen: Vec<usize> = drawn.into_iter().take(count).map(|(_, index)| index).collect();
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|index| all.get(index).cloned()).collect()
}

/// Hashes with FNV-1a and the finalizer of SplitMix64, so that the high bits depend on the whole text.
fn draw(seed: u64, text: &str) -> u64 {
    let basis = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = text
        .bytes()
        .fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(count: usize) -> Vec<Mutant> {
        let mutant = |line| Mutant {
            name: format!("crates/a/src/b.rs:{line}:5: replace f{line} with ()"),
            package: "a".to_owned(),
            file: "crates/a/src/b.rs".into(),
            genre: Genre::FnValue,
            span: Span { start: Place { line, column: 5 }, end: Place { line, column: 9 } },
            replacement: "()".to_owned(),
        };
        (0..count).map(mutant).collect()
    }

    #[test]
    fn a_sample_depends_on_its_seed_and_little_on_changes_elsewhere() {
        let all = mutants(1000);
        let chosen = choose(&all, 1, 100);
        assert_eq!(chosen.len(), 100);
        assert_eq!(choose(&all, 1, 100), chosen);
        assert_ne!(choose(&all, 2, 100), chosen);
        let fewer: Vec<Mutant> = all.iter().skip(10).cloned().collect();
        let again = choose(&fewer, 1, 100);
        let same = again.iter().filter(|mutant| chosen.contains(mutant)).count();
        assert!(same >= 90, "{same}");
    }

    #[test]
    fn a_key_has_no_line_number() {
        assert_eq!(mutants(1)[0].key(), "crates/a/src/b.rs: replace f0 with ()");
    }
}
