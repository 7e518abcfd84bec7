//! The scenarios that can be selected by name: the built-in ones, or those in a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use clearway_lab::scenario::{Scenario, ScenarioError, embedded, nearest};

use clearway_terminal::failure::Failure;

/// The option that replaces the built-in scenarios.
#[derive(Args, Debug)]
pub(super) struct Library {
    /// Use the scenarios in this folder instead of the built-in ones.
    #[arg(long = "scenarios", value_name = "DIR")]
    folder: Option<PathBuf>,
}

const EXTENSION: &str = "toml";

impl Library {
    /// Loads all scenarios, ordered by name.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder does not exist or contains no scenario, or one of its
    /// scenarios is invalid.
    pub(super) fn all(&self) -> Result<Vec<Scenario>, Failure> {
        self.names()?.iter().map(|name| self.load(name)).collect()
    }

    /// Loads the scenario in the file `argument`, or the one with that name. An argument that has
    /// neither a folder nor an extension is a name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such scenario, or it is invalid.
    pub(super) fn find(&self, argument: &str) -> Result<Scenario, Failure> {
        let path = Path::new(argument);
        let is_name = path.components().count() == 1
            && path.extension().is_none()
            && !argument.contains(std::path::is_separator);
        match is_name {
            false if path.exists() => explained(Scenario::load(path)),
            false => Err(self.missing_file(path)),
            true if self.names()?.iter().any(|name| name == argument) => self.load(argument),
            true => Err(self.missing_name(argument)),
        }
    }

    /// Returns the names of all scenarios, in order.
    fn names(&self) -> Result<Vec<String>, Failure> {
        let Some(path) = &self.folder else {
            return Ok(embedded::names().map(str::to_owned).collect());
        };
        let folder = path.display();
        let unreadable = |error: std::io::Error| {
            Failure::new(format!("cannot read the scenarios in {folder}: {error}"))
                .advise("specify another folder with --scenarios, or omit the option to use the built-in ones")
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        if names.is_empty() {
            return Err(Failure::new(format!("no scenarios found in {folder}")).advise(
                "specify another folder with --scenarios, or omit the option to use the built-in ones",
            ));
        }
        names.sort();
        Ok(names)
    }

    fn load(&self, name: &str) -> Result<Scenario, Failure> {
        explained(match &self.folder {
            Some(folder) => Scenario::load(&folder.join(format!("{name}.{EXTENSION}"))),
            None => embedded::load(name),
        })
    }

    fn missing_name(&self, name: &str) -> Failure {
        let place = self.folder.as_ref().map(|folder| format!(" in {}", folder.display()));
        let what = format!("unknown scenario {name:?}{}", place.unwrap_or_default());
        let files = [name.to_owned(), format!("{name}.{EXTENSION}")];
        let file = files.iter().find(|file| Path::new(file).is_file());
        let names = self.names().unwrap_or_default();
        let near = nearest(name, names.iter().map(String::as_str));
        Failure::new(what).advise(match (file, near) {
            (Some(file), _) => format!("./{file} is a file; to run it, include the ./"),
            (None, Some(near)) => {
                format!("did you mean {near}? run `clearway lab list` to list all scenarios")
            }
            (None, None) => "run `clearway lab list` to list all scenarios".to_owned(),
        })
    }

    fn missing_file(&self, path: &Path) -> Failure {
        let failure = Failure::new(format!("the scenario file {path:?} does not exist"));
        let stem = path.file_stem().unwrap_or_default();
        match self.names().unwrap_or_default().iter().find(|name| name.as_str() == stem) {
            Some(name) => failure.advise(format!("did you mean the scenario {name}?")),
            None => failure.advise("run `clearway lab list` to list all scenarios"),
        }
    }
}

fn explained(loaded: Result<Scenario, ScenarioError>) -> Result<Scenario, Failure> {
    loaded.map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ScenarioError::Invalid { .. } => {
                failure.advise("see crates/lab/scenarios/README.md for all keys")
            }
            _ => failure,
        }
    })
}
