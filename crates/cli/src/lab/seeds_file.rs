//! What came of every seed, as JSON lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clearway_lab::sweep::Swept;
use serde_json::json;

use super::matrix::View;
use crate::failure::Failure;

/// A file with another name until it is complete. Dropping it before removes it.
pub(super) struct SeedsFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    is_complete: bool,
}

impl SeedsFile {
    /// A file that will be `target`.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(super) fn create(target: &Path) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| unwritten(target, &error).advise("choose another place with --out");
        let name = target.file_name().filter(|_| !target.is_dir()).ok_or_else(|| {
            Failure::new(format!("cannot write {}: it names no file", target.display()))
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = BufWriter::new(file.map_err(failed)?);
        Ok(Self { file, temporary, target: target.to_owned(), is_complete: false })
    }

    /// Adds a line for each run.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
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

    /// All is written: the file gets its name.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        // Only now an error of the last write comes out.
        let flushed = self.file.flush().and_then(|()| fs::rename(&self.temporary, &self.target));
        flushed.map_err(|error| unwritten(&self.target, &error))?;
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for SeedsFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // It is all that can be done.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn unwritten(target: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot write {}: {error}", target.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failure.advise("make room or choose another place with --out")
        }
        _ => failure,
    }
}
