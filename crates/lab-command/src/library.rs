//! The folder of scenarios.

use std::path::{Path, PathBuf};

use clap::Args;
use clearway_lab::scenario::{Scenario, ScenarioError, embedded};

use clearway_terminal::failure::Failure;

/// The folder in which scenarios are looked up.
#[derive(Args, Debug)]
pub(super) struct Library {
    /// Folder of the scenarios [default: scenarios, otherwise the built-in ones].
    #[arg(long = "scenarios", value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The folder of scenarios in a checkout of the project.
const DEFAULT: &str = "scenarios";
const EXTENSION: &str = "toml";

impl Library {
    /// Loads all scenarios, ordered by name.
    ///
    /// # Errors
    ///
    /// If the folder does not exist or contains no scenario, or one of them is invalid.
    pub(super) fn all(&self) -> Result<Vec<Scenario>, Failure> {
        let Some(path) = self.folder() else {
            return embedded::names().map(load_embedded).collect();
        };
        let folder = path.display();
        let unreadable = |error: std::io::Error| {
            Failure::new(format!("cannot read the scenarios in {folder}: {error}"))
                .advise("run this in the project's folder, or specify the folder with --scenarios")
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Failure::new(format!("there are no scenarios in {folder}"))
                .advise("specify another folder with --scenarios"));
        }
        paths.sort();
        paths.iter().map(|path| load(path)).collect()
    }

    /// Loads the scenario in the file `name`, or the one with that name in the folder.
    ///
    /// # Errors
    ///
    /// If there is none, or it is invalid.
    pub(super) fn find(&self, name: &str) -> Result<Scenario, Failure> {
        let file = Path::new(name);
        if file.is_file() {
            return load(file);
        }
        let is_name = file.components().count() == 1 && file.extension().is_none();
        let what = match self.folder() {
            _ if !is_name => format!("there is no scenario file {name:?}"),
            None if embedded::names().any(|it| it == name) => return load_embedded(name),
            None => format!("there is no scenario {name:?}"),
            Some(folder) => {
                let path = folder.join(name).with_extension(EXTENSION);
                if path.is_file() {
                    return load(&path);
                }
                format!("there is no scenario {name:?}: {} does not exist", path.display())
            }
        };
        Err(Failure::new(what).advise("clearway lab list shows all scenarios"))
    }

    /// Returns the folder that was specified, or that of a checkout if it exists.
    fn folder(&self) -> Option<&Path> {
        let default = Some(Path::new(DEFAULT)).filter(|folder| folder.is_dir());
        self.folder.as_deref().or(default)
    }
}

fn load(path: &Path) -> Result<Scenario, Failure> {
    explained(Scenario::load(path))
}

fn load_embedded(name: &str) -> Result<Scenario, Failure> {
    explained(embedded::load(name))
}

fn explained(loaded: Result<Scenario, ScenarioError>) -> Result<Scenario, Failure> {
    loaded.map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ScenarioError::Invalid { .. } => failure.advise("scenarios/README.md lists all keys"),
            _ => failure,
        }
    })
}
