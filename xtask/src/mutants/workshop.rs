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

/// Build profile for mutants: compiles fast, and optimizes enough for tests to take seconds.
const PROFILE: &str = "trial";

/// A test program.
#[derive(Clone, Debug)]
pub(super) struct TestProgram {
    /// Name of the test program, including its package's folder.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) file: PathBuf,
    /// Folder of the package, which is the program's working directory.
    pub(super) folder: PathBuf,
}

/// Mutants by how they can be built, as indices into a list.
#[derive(Default, Debug)]
pub(super) struct Switched {
    /// Mutants that are built together; each is active when its number is selected.
    pub(super) switched: BTreeSet<usize>,
    /// Mutants that do not build: the compiler reports an error in the replacement.
    pub(super) unviable: BTreeSet<usize>,
    /// Mutants that do not build with a switch, but may build without one.
    pub(super) rejected: BTreeSet<usize>,
}

/// A compiler error.
#[derive(Debug)]
struct CompileError {
    code: String,
    /// Last segment of the called function's path, if the error is that the function is not
    /// `const`; otherwise empty.
    function: String,
    spans: Vec<ErrorSpan>,
}

#[derive(Debug)]
struct ErrorSpan {
    file: PathBuf,
    range: Range<usize>,
    is_primary: bool,
}

impl ErrorSpan {
    /// Returns the innermost mutants at the position of this error.
    fn hit(&self, marks: &BTreeMap<PathBuf, Vec<Mark>>) -> Vec<usize> {
        // Syntax errors are often reported at the following token.
        let is_hit =
            |(_, mark): &&Mark| mark.start <= self.range.end && self.range.start <= mark.end;
        let hit: Vec<&Mark> = marks.get(&self.file).into_iter().flatten().filter(is_hit).collect();
        let least = hit.iter().map(|(_, mark)| mark.len()).min();
        let smallest = hit.into_iter().filter(|(_, mark)| Some(mark.len()) == least);
        smallest.map(|(place, _)| *place).collect()
    }
}

impl CompileError {
    fn of(message: &Value) -> Self {
        let spans = message["spans"].as_array().into_iter().flatten();
        let spans = spans.filter_map(|span| {
            let offset = |name: &str| span[name].as_u64().map(|at| at as usize);
            let (start, end) = (offset("byte_start")?, offset("byte_end")?);
            Some(ErrorSpan {
                file: PathBuf::from(span["file_name"].as_str()?),
                range: start..end.max(start + 1),
                is_primary: span["is_primary"] == true,
            })
        });
        let code = message["code"]["code"].as_str().unwrap_or_default().to_owned();
        let text = message["message"].as_str().unwrap_or_default();
        let called = text.split('`').nth(1).filter(|_| code == NOT_CONSTANT).unwrap_or_default();
        let called = called.split(['<', '(']).next().unwrap_or_default();
        let function = called.rsplit("::").next().unwrap_or_default().to_owned();
        Self { code, function, spans: spans.collect() }
    }

    /// Returns whether the error is in the replacement itself, such as a type error, and not only
    /// in its switch.
    fn is_of_mutant(&self) -> bool {
        ["E0004", "E0061", "E0277", "E0308", "E0369", "E0425", "E0433", "E0599", "E0600"]
            .contains(&self.code.as_str())
    }
}

/// Error code for calling a function that is not `const` in a constant context.
const NOT_CONSTANT: &str = "E0015";

/// The copy of the repository in which mutants are built.
pub(super) struct Workshop {
    tree: PathBuf,
    sources: BTreeMap<PathBuf, Source>,
    /// Files in the copy that differ from the repository.
    changed: BTreeSet<PathBuf>,
}

impl Workshop {
    /// Updates the copy and reads `files`.
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
        // Cargo would rebuild a file that is rewritten.
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Restores all changed files except `kept`.
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

    /// Applies only this mutant.
    pub(super) fn apply(&mut self, mutant: &Mutant) -> Result<(), String> {
        self.restore(&BTreeSet::new())?;
        let source = self.sources.get(&mutant.file);
        let text = source.and_then(|source| source.mutated(mutant));
        let text = text.ok_or_else(|| format!("{} was not found in its file", mutant.name))?;
        self.write(&mutant.file, &text)
    }

    /// Applies as many of these mutants as possible, each behind a switch whose number is the
    /// mutant's index. The tests of `packages` then build.
    pub(super) fn apply_switched(
        &mut self,
        mutants: &[&Mutant],
        packages: &BTreeSet<&str>,
    ) -> Result<Switched, String> {
        let own = mutants.iter().map(|mutant| mutant.package.as_str()).collect();
        let stages = [(&own, &["--lib"][..]), (packages, &["--lib", "--bins", "--tests"])];
        let mut stages = stages.into_iter().peekable();
        let mut edits = BTreeMap::<PathBuf, Vec<Edit>>::new();
        let mut result = Switched::default();
        // Mutants inside `const fn`s, by function name.
        let mut constants = BTreeMap::<String, BTreeSet<usize>>::new();
        for (place, mutant) in mutants.iter().enumerate() {
            let source = self.sources.get(&mutant.file);
            let Some((source, edit)) = source.and_then(|it| Some((it, it.edit(mutant, place)?)))
            else {
                result.rejected.insert(place);
                continue;
            };
            let of_file = edits.entry(mutant.file.clone()).or_default();
            of_file.push(edit);
            of_file.extend(source.further_edits(mutant, place));
            if let Some(name) = source.constant_name(mutant) {
                constants.entry(name.to_owned()).or_default().insert(place);
            }
        }
        while let Some((packages, targets)) = stages.peek() {
            let marks = self.write_all(mutants, &edits)?;
            let errors = self.errors(packages, targets)?;
            if errors.is_empty() {
                stages.next();
                continue;
            }
            eprintln!("xtask: {} errors", errors.len());
            let (mut at_fault, mut files) = (BTreeSet::new(), BTreeSet::new());
            for error in errors {
                let hit = |is_primary: bool| {
                    let spans = error.spans.iter().filter(|span| span.is_primary == is_primary);
                    spans.flat_map(|span| span.hit(&marks)).collect::<BTreeSet<usize>>()
                };
                let (primary, secondary) = (hit(true), hit(false));
                let of_function = constants.get(&error.function).cloned().unwrap_or_default();
                match (primary.len(), secondary.is_empty(), of_function.is_empty()) {
                    (1, _, _) if error.is_of_mutant() => result.unviable.extend(&primary),
                    (0, _, false) => result.rejected.extend(&of_function),
                    (0, false, true) => result.rejected.extend(&secondary),
                    (0, true, true) => {
                        files.extend(error.spans.into_iter().map(|span| span.file));
                        continue;
                    }
                    (_, _, _) => result.rejected.extend(&primary),
                }
                at_fault.extend(primary.iter().chain(&secondary).chain(&of_function).copied());
            }
            if at_fault.is_empty() {
                // None of the errors points to a mutant.
                let concerned = files.iter().filter_map(|file| edits.get(file)).flatten();
                at_fault = concerned.map(|edit| edit.place).collect();
                if at_fault.is_empty() {
                    at_fault = edits.values().flatten().map(|edit| edit.place).collect();
                }
                result.rejected.extend(&at_fault);
            }
            let is_out =
                |place: usize| result.unviable.contains(&place) || result.rejected.contains(&place);
            for of_file in edits.values_mut() {
                of_file.retain(|edit| !is_out(edit.place));
            }
        }
        result.rejected.retain(|place| !result.unviable.contains(place));
        result.switched = edits.into_values().flatten().map(|edit| edit.place).collect();
        Ok(result)
    }

    /// Writes the files with these edits applied, and returns the positions of the edits.
    fn write_all(
        &mut self,
        mutants: &[&Mutant],
        edits: &BTreeMap<PathBuf, Vec<Edit>>,
    ) -> Result<BTreeMap<PathBuf, Vec<Mark>>, String> {
        let (mut texts, mut marks) = (BTreeMap::new(), BTreeMap::new());
        for (file, edits) in edits {
            let Some(source) = self.sources.get(file) else { continue };
            let (text, own) = source.with(edits);
            marks.insert(file.clone(), own);
            texts.insert(file.clone(), text);
        }
        // The switch is added to each crate root, which may itself be mutated.
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

    /// Returns a Cargo command that runs in the copy of the repository.
    fn cargo(&self, command: &str, packages: &BTreeSet<&str>, arguments: &[&str]) -> Command {
        let mut cargo = crate::command::cargo(&[command, "--profile", PROFILE]);
        cargo.args(["--quiet", "--message-format=json"]).args(arguments);
        cargo.args(packages.iter().flat_map(|package| ["--package", *package]));
        // Mutants cause warnings such as unused code.
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

    /// Returns the compiler errors in these packages. If the build fails without a compiler error,
    /// returns a single error without spans.
    fn errors(
        &self,
        packages: &BTreeSet<&str>,
        targets: &[&str],
    ) -> Result<Vec<CompileError>, String> {
        let mut check = self.cargo("check", packages, targets);
        check.arg("--keep-going");
        let (is_built, messages) = Self::messages(check)?;
        if is_built {
            return Ok(Vec::new());
        }
        let errors = messages.iter().map(|message| &message["message"]);
        let errors = errors.filter(|message| message["level"] == "error");
        let mut errors: Vec<CompileError> = errors.map(CompileError::of).collect();
        if errors.iter().all(|error| error.spans.is_empty()) {
            errors.push(CompileError {
                code: String::new(),
                function: String::new(),
                spans: vec![],
            });
        }
        Ok(errors)
    }

    /// Returns whether this mutant's package builds in the copy's current state.
    pub(super) fn is_built(&self, mutant: &Mutant) -> Result<bool, String> {
        let package = BTreeSet::from([mutant.package.as_str()]);
        self.errors(&package, &["--lib"]).map(|errors| errors.is_empty())
    }

    /// Builds the test programs of these packages. Returns `None` if the packages do not build.
    pub(super) fn test_programs(
        &self,
        packages: &BTreeSet<&str>,
    ) -> Result<Option<Vec<TestProgram>>, String> {
        let (is_built, messages) = Self::messages(self.cargo("test", packages, &["--no-run"]))?;
        if !is_built {
            return Ok(None);
        }
        let program = |message: &Value| {
            let is_test = message["profile"]["test"] == true;
            let manifest = Path::new(message["manifest_path"].as_str().filter(|_| is_test)?);
            let folder = manifest.parent()?.to_owned();
            let package = package_name(message["package_id"].as_str()?)?.to_owned();
            let short = folder.file_name()?.to_string_lossy();
            let name = format!("{short}/{}", message["target"]["name"].as_str()?);
            Some(TestProgram {
                name,
                package,
                file: message["executable"].as_str()?.into(),
                folder,
            })
        };
        Ok(Some(messages.iter().filter_map(program).collect()))
    }
}

/// Returns the package name from a package ID: `path+file:///FOLDER#NAME@VERSION`, without `NAME@`
/// if the package is named like its folder.
fn package_name(id: &str) -> Option<&str> {
    let (folder, rest) = id.rsplit_once('#')?;
    match rest.split_once('@') {
        Some((name, _)) => Some(name),
        None => folder.rsplit('/').next(),
    }
}

impl Drop for Workshop {
    /// Restores the copy for the next run.
    fn drop(&mut self) {
        let _ = self.restore(&BTreeSet::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_belongs_to_the_smallest_mutants_at_its_primary_place() {
        let message = serde_json::json!({
            "code": { "code": "E0015" },
            "message": "cannot call non-const associated function `a::B::<u8>::new` in constants",
            "spans": [
                { "file_name": "a.rs", "byte_start": 5, "byte_end": 7, "is_primary": true },
                { "file_name": "b.rs", "byte_start": 5, "byte_end": 5, "is_primary": false },
            ],
        });
        let error = CompileError::of(&message);
        assert_eq!((error.code.as_str(), error.is_of_mutant()), ("E0015", false));
        let marks = [("a.rs".into(), vec![(0, 0..20), (1, 4..8), (2, 4..8), (3, 9..10)])].into();
        assert_eq!(error.spans[0].hit(&marks), [1, 2]);
        assert!(error.spans[0].is_primary && error.spans[1].hit(&marks).is_empty());
    }

    #[test]
    fn a_package_id_has_a_name() {
        assert_eq!(
            package_name("path+file:///a/crates/cli#clearway-cli@0.5.0"),
            Some("clearway-cli")
        );
        assert_eq!(package_name("path+file:///a/crates/clearway#0.5.0"), Some("clearway"));
        assert_eq!(package_name("clearway"), None);
    }
}
