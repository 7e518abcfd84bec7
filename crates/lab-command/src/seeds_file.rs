//! The results of all seeds, as JSON lines.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clearway_lab::sweep::Swept;
use serde_json::json;

use super::matrix::View;
use clearway_terminal::failure::Failure;
use clearway_terminal::whole_file::{self, WholeFile};

/// A file that gets its final name when it contains the results of all seeds.
pub(super) struct SeedsFile {
    file: WholeFile,
    target: PathBuf,
}

impl SeedsFile {
    /// Creates a file that will become `target`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created.
    pub(super) fn create(target: &Path) -> Result<Self, Failure> {
        let file = WholeFile::create(target).map_err(|error| unwritten(target, &error))?;
        Ok(Self { file, target: target.to_owned() })
    }

    /// Adds a line for each run.
    ///
    /// # Errors
    ///
    /// Returns an error if a line cannot be written.
    pub(super) fn add(&mut self, view: &View<'_>, swept: &Swept) -> Result<(), Failure> {
        for run in &swept.runs {
            let outcome = &run.outcome;
            let line = json!({
                "scenario": view.scenario.name,
                "controller": view.candidate.name,
                "variant": view.variant.name,
                "seed": run.seed,
                "took_s": outcome.took().map(|took| took.as_secs_f64()),
                "floor": outcome.reached_floor(),
                "stop": outcome.stop.to_string(),
            });
            let written = writeln!(self.file, "{line}");
            written.map_err(|error| unwritten(&self.target, &error))?;
        }
        Ok(())
    }

    /// Renames the complete file to its final name.
    ///
    /// # Errors
    ///
    /// Returns an error if the last bytes cannot be written, or the file cannot be renamed.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self { file, target } = self;
        file.finish().map_err(|error| unwritten(&target, &error))
    }
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    whole_file::unwritten(target, error, "--out")
}
