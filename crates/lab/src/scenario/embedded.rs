//! The project's scenarios, for programs that run outside of a checkout.

use std::path::Path;

use super::{Scenario, ScenarioError};

/// The paths and contents of the files in the scenarios folder.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// A placeholder for the folder of the embedded scenarios. It is not a path: no path contains this
/// character.
const FOLDER: &str = "\0";

/// Returns the names of all embedded scenarios, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().filter_map(|(path, _)| path.strip_suffix(".toml"))
}

/// Parses the embedded scenario with this name.
///
/// # Errors
///
/// Returns [`ScenarioError::Unreadable`] if there is no such scenario, or the errors of
/// [`Scenario::parse`].
pub fn load(name: &str) -> Result<Scenario, ScenarioError> {
    let file = format!("{name}.toml");
    match content(&file) {
        Some(text) => Scenario::from_text(name, name, text, Path::new(FOLDER)),
        None => Err(ScenarioError::Unreadable {
            path: file.into(),
            error: std::io::ErrorKind::NotFound.into(),
        }),
    }
}

/// Returns the content of an embedded file, if `folder` is the placeholder for the embedded
/// scenarios.
pub(super) fn content_in(folder: &Path, path: &str) -> Option<&'static str> {
    if folder == Path::new(FOLDER) { content(path) } else { None }
}

fn content(path: &str) -> Option<&'static str> {
    FILES.iter().find_map(|(file, text)| (*file == path).then_some(*text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_scenarios_are_those_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut count = 0;
        for name in names() {
            let path = folder.join(name).with_extension("toml");
            let (embedded, mut loaded) = (load(name).unwrap(), Scenario::load(&path).unwrap());
            assert_eq!(embedded.file, name);
            loaded.file.clone_from(&embedded.file);
            assert_eq!(format!("{embedded:?}"), format!("{loaded:?}"), "{name}");
            count += 1;
        }
        assert!(count > 50, "{count}");
        assert!(load("no-such-scenario").is_err());
    }
}
