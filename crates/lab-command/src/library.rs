//! The folder of scenarios.

use std::path::{Path, PathBuf};

use clap::Args;
use clearway_lab::scenario::{Scenario, ScenarioError};

use clearway_terminal::failure::Failure;

/// The folder in which scenarios are looked up.
#[derive(Args, Debug)]
pub(super) struct Library {
    /// Folder of the scenarios.
    #[arg(long = "scenarios", value_name = "DIR", default_value = "scenarios")]
    folder: PathBuf,
}

const EXTENSION: &str = "toml";

impl Library {
    /// All scenarios, in the order of their names.
    ///
    /// # Errors
    ///
    /// If the folder does not exist or contains no scenario, or one of them is invalid.
    pub(super) fn all(&self) -> Result<Vec<Scenario>, Failure> {
        let folder = self.folder.display();
        let unreadable = |error: std::io::Error| {
            Failure::new(format!("cannot read the scenarios in {folder}: {error}")).advise(
                "run this in the folder of the project, or give the folder with --scenarios",
            )
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Failure::new(format!("there are no scenarios in {folder}"))
                .advise("name another folder with --scenarios"));
        }
        paths.sort();
        paths.iter().map(|path| load(path)).collect()
    }

    /// The scenario in the file `name`, or the one of that name in the folder.
    ///
    /// # Errors
    ///
    /// If there is none, or it is invalid.
    pub(super) fn find(&self, name: &str) -> Result<Scenario, Failure> {
        let file = Path::new(name);
        if file.is_file() {
            return load(file);
        }
        let path = self.folder.join(name).with_extension(EXTENSION);
        let is_name = file.components().count() == 1 && file.extension().is_none();
        if is_name && path.is_file() {
            return load(&path);
        }
        let what = match is_name {
            true => format!("there is no scenario {name:?}: {} does not exist", path.display()),
            false => format!("there is no scenario file {name:?}"),
        };
        Err(Failure::new(what).advise("clearway lab list shows all scenarios"))
    }
}

fn load(path: &Path) -> Result<Scenario, Failure> {
    Scenario::load(path).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ScenarioError::Invalid { .. } => failure.advise("scenarios/README.md lists all keys"),
            _ => failure,
        }
    })
}
