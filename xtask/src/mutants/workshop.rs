//! Builds mutants in the copy of the repository, and finds the programs that test them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::sample::Mutant;
use super::switched::{Edit, MODULE, Mark, Source};
use super::tree;
use crate::command::root;

/// The build profile, with which the tests of one mutant take seconds.
const PROFILE: &str = "trial";

/// A program with tests.
#[derive(Clone, Debug)]
pub(super) struct TestProgram {
    /// Its package and name.
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// The folder of its package, in which it runs.
    pub(super) folder: PathBuf,
}

/// The copy of the repository.
pub(super) struct Workshop {
    tree: PathBuf,
    sources: BTreeMap<PathBuf, Source>,
    /// Files that differ from the repository's.
    changed: BTreeSet<PathBuf>,
}

impl Workshop {
    /// Updates the copy.
    pub(super) fn open(files: impl IntoIterator<Item = PathBuf>) -> Result<Self, String> {
        let tree = tree::update(PROFILE)?;
        let mut sources = BTreeMap::new();
        for file in files {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = fs::read_to_string(root().join(&file)).map_err(|error| failed(&error))?;
            let source = Source::parse(text).map_err(|error| failed(&error))?;
            sources.insert(file, source);
        }
        Ok(Self { tree, sources, changed: BTreeSet::new() })
    }

    fn write(&mut self, file: &Path, text: &str) -> Result<(), String> {
        self.changed.insert(file.to_owned());
        let path = self.tree.join(file);
        // What has not changed is not built again.
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Undoes all changes but those of `kept`.
    fn restore(&mut self, kept: &BTreeSet<PathBuf>) -> Result<(), String> {
        for file in core::mem::take(&mut self.changed) {
            if kept.contains(&file) {
                self.changed.insert(file);
                continue;
            }
            let text = fs::read_to_string(root().join(&file));
            let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
            self.write(&file, &text)?;
            self.changed.remove(&file);
        }
        Ok(())
    }

    /// Makes this change alone.
    pub(super) fn apply(&mut self, mutant: &Mutant) -> Result<(), String> {
        self.restore(&BTreeSet::new())?;
        let source = self.sources.get(&mutant.file);
        let text = source.and_then(|source| source.mutated(mutant));
        let text = text.ok_or_else(|| format!("{} is not in its file", mutant.name))?;
        self.write(&mutant.file, &text)
    }

    /// Makes as many of these changes as possible, each with a switch that has the number of its place in the list. Returns these
    /// places, and those of the changes that cannot be switched.
    pub(super) fn apply_switched(
        &mut self,
        mutants: &[Mutant],
    ) -> Result<(Vec<usize>, Vec<usize>), String> {
        let (mut edits, mut rejected) = (BTreeMap::<PathBuf, Vec<Edit>>::new(), Vec::new());
        for (place, mutant) in mutants.iter().enumerate() {
            let source = self.sources.get(&mutant.file);
            match source.and_then(|source| source.edit(mutant, place)) {
                Some(edit) => edits.entry(mutant.file.clone()).or_default().push(edit),
                None => rejected.push(place),
            }
        }
        loop {
            let marks = self.write_all(mutants, &edits)?;
            let errors = self.errors(mutants)?;
            if errors.is_empty() {
                break;
            }
            let (mut at_fault, mut files) = (BTreeSet::new(), BTreeSet::new());
            for (file, range) in errors {
                files.insert(file.clone());
                let own = marks.get(&file).into_iter().flatten();
                // An error of syntax is often found at the next token.
                let is_hit = |(_, mark): &&Mark| mark.start <= range.end && range.start <= mark.end;
                // The innermost, if one is within another.
                let smallest = own.filter(is_hit).min_by_key(|(_, mark)| mark.len());
                at_fault.extend(smallest.map(|(place, _)| *place));
            }
            if at_fault.is_empty() {
                // The errors do not say which one it is.
                let concerned = files.iter().filter_map(|file| edits.get(file)).flatten();
                at_fault = concerned.map(|edit| edit.place).collect();
            }
            if at_fault.is_empty() {
                at_fault = edits.values().flatten().map(|edit| edit.place).collect();
            }
            for of_file in edits.values_mut() {
                of_file.retain(|edit| !at_fault.contains(&edit.place));
            }
            rejected.extend(at_fault);
        }
        Ok((edits.into_values().flatten().map(|edit| edit.place).collect(), rejected))
    }

    /// Writes the files with these edits. Returns where they are.
    fn write_all(
        &mut self,
        mutants: &[Mutant],
        edits: &BTreeMap<PathBuf, Vec<Edit>>,
    ) -> Result<BTreeMap<PathBuf, Vec<Mark>>, String> {
        let (mut texts, mut marks) = (BTreeMap::new(), BTreeMap::new());
        for (file, edits) in edits {
            let Some(source) = self.sources.get(file) else { continue };
            let (text, own) = source.with(edits);
            marks.insert(file.clone(), own);
            texts.insert(file.clone(), text);
        }
        // Each package has the switch at its root, which may be mutated itself.
        for mutant in mutants {
            let library = mutant.file.components().take(2).collect::<PathBuf>().join("src/lib.rs");
            let text = match texts.get(&library) {
                Some(text) if text.ends_with(MODULE) => continue,
                Some(text) => text.clone(),
                None => fs::read_to_string(root().join(&library))
                    .map_err(|error| format!("{}: {error}", library.display()))?,
            };
            texts.insert(library, text + MODULE);
        }
        self.restore(&texts.keys().cloned().collect())?;
        for (file, text) in &texts {
            self.write(file, text)?;
        }
        Ok(marks)
    }

    /// Cargo in the copy.
    fn cargo(&self, command: &str, packages: &BTreeSet<&str>, arguments: &[&str]) -> Command {
        let mut cargo = crate::command::cargo(&[command, "--profile", PROFILE]);
        cargo.args(["--quiet", "--message-format=json"]).args(arguments);
        cargo.args(packages.iter().flat_map(|package| ["--package", *package]));
        // Mutants have code that is never used.
        cargo.env("RUSTFLAGS", "--cap-lints=allow").env_remove("CARGO_TARGET_DIR");
        cargo.current_dir(&self.tree).stdin(Stdio::null()).stderr(Stdio::null());
        cargo
    }

    fn messages(mut cargo: Command) -> Result<(bool, Vec<Value>), String> {
        let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((output.status.success(), messages))
    }

    /// Where the compiler finds errors in the packages of `mutants`; one that is nowhere is in no file.
    fn errors(&self, mutants: &[Mutant]) -> Result<Vec<(PathBuf, Range<usize>)>, String> {
        let packages = mutants.iter().map(|mutant| mutant.package.as_str()).collect();
        let (is_built, messages) = Self::messages(self.cargo("check", &packages, &["--lib"]))?;
        if is_built {
            return Ok(Vec::new());
        }
        let mut errors = Vec::new();
        for message in messages.iter().map(|message| &message["message"]) {
            if message["level"] != "error" {
                continue;
            }
            for span in message["spans"].as_array().into_iter().flatten() {
                let offset = |name: &str| span[name].as_u64().map(|at| at as usize);
                if let Some(file) = span["file_name"].as_str()
                    && let (Some(start), Some(end)) = (offset("byte_start"), offset("byte_end"))
                {
                    errors.push((PathBuf::from(file), start..end.max(start + 1)));
                }
            }
        }
        if errors.is_empty() {
            errors.push((PathBuf::new(), 0..0));
        }
        Ok(errors)
    }

    /// Whether the package of this mutant builds as it is now.
    pub(super) fn is_built(&self, mutant: &Mutant) -> Result<bool, String> {
        self.errors(core::slice::from_ref(mutant)).map(|errors| errors.is_empty())
    }

    /// Builds the test programs of these packages. `None` if they do not build.
    pub(super) fn test_programs(
        &self,
        packages: &[&str],
    ) -> Result<Option<Vec<TestProgram>>, String> {
        let packages = packages.iter().copied().collect();
        let (is_built, messages) = Self::messages(self.cargo("test", &packages, &["--no-run"]))?;
        if !is_built {
            return Ok(None);
        }
        let program = |message: &Value| {
            let is_test = message["profile"]["test"] == true;
            let manifest = Path::new(message["manifest_path"].as_str().filter(|_| is_test)?);
            let folder = manifest.parent()?.to_owned();
            let package = folder.file_name()?.to_string_lossy().into_owned();
            let name = format!("{package}/{}", message["target"]["name"].as_str()?);
            Some(TestProgram { name, file: message["executable"].as_str()?.into(), folder })
        };
        Ok(Some(messages.iter().filter_map(program).collect()))
    }
}

impl Drop for Workshop {
    /// The copy is as the repository, for the next run.
    fn drop(&mut self) {
        let _ = self.restore(&BTreeSet::new());
    }
}
