//! Checks that every `cargo` command in the contributors' documents, the book, `.ci/run` and the
//! workflows exists, and that CONTRIBUTING.md says what to run after a change in each folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn run(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().expect("a program that can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A package of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
    /// Kind and name of each target.
    targets: BTreeSet<(String, String)>,
}

fn packages() -> Vec<Package> {
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let metadata: Value =
        serde_json::from_str(&run(Command::new(env!("CARGO")).args(metadata))).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let target = |target: &Value| (text(&target["kind"][0]), text(&target["name"]));
    let package = |package: &Value| Package {
        name: text(&package["name"]),
        folder: Path::new(&text(&package["manifest_path"])).parent().expect("a folder").to_owned(),
        targets: package["targets"].as_array().expect("targets").iter().map(target).collect(),
    };
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

/// Returns whether a Rust file below `folder` has a function or module whose name contains `part`.
fn has_test(folder: &Path, part: &str) -> bool {
    std::fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return has_test(&path, part);
        }
        let text = || std::fs::read_to_string(&path).expect("a source");
        let named = |line: &str| {
            let (before, _) = line.split_once(part).unwrap_or_default();
            before.contains("fn ") || before.contains("mod ")
        };
        path.extension().is_some_and(|it| it == "rs") && text().lines().any(named)
    })
}

/// Returns the commands that begin with `cargo` in a document's code blocks and code spans.
fn commands_of_document(text: &str) -> Vec<String> {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.starts_with("```");
        if is_fenced || line.starts_with("    ") {
            blocks.push(line.trim().trim_start_matches("$ ").to_owned());
        } else {
            prose.push_str(line.trim());
            prose.push(' ');
            // A code span ends with its paragraph.
            if line.is_empty() && prose.matches('`').count() % 2 == 1 {
                prose.push('`');
            }
        }
    }
    blocks.extend(prose.split('`').map(str::to_owned));
    commands(blocks.iter().map(String::as_str))
}

/// Returns the commands that begin with `cargo` in a script or workflow.
fn commands_of_script(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    commands(lines.map(|line| line.find("cargo ").map_or("", |at| &line[at..])))
}

fn commands<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines = lines.filter(|line| line.starts_with("cargo ") && !line.contains('…'));
    lines.map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned()).collect()
}

/// The packages and tasks that the commands are checked against.
struct Project {
    packages: Vec<Package>,
    help: String,
}

impl Project {
    fn here() -> Self {
        let help = run(Command::new(env!("CARGO_BIN_EXE_xtask")).arg("--help"));
        Self { packages: packages(), help }
    }

    /// Returns a description of the error in a command, if there is one.
    fn fault(&self, command: &str) -> Option<String> {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.retain(|word| !word.starts_with('+'));
        match words.get(1..)? {
            // The workflow inserts this value.
            ["xtask", name, ..] if name.contains("${{") => None,
            ["xtask", name, rest @ ..] => self.fault_of_task(name, rest),
            ["test" | "check" | "clippy" | "run" | "build", rest @ ..] => {
                let mut parts = rest.splitn(2, |word| *word == "--");
                let (cargo, after) = (parts.next()?, parts.next().unwrap_or_default());
                self.fault_of_cargo(cargo).or_else(|| match words.get(1) {
                    Some(&"run") if !cargo.contains(&"--example") => {
                        self.fault_of_run(cargo, after)
                    }
                    _ => None,
                })
            }
            [
                "fmt" | "doc" | "deny" | "metadata" | "package" | "publish" | "install" | "update"
                | "add" | "semver-checks",
                ..,
            ] => None,
            _ => Some("is not a command that this test knows".to_owned()),
        }
    }

    fn fault_of_task(&self, name: &str, rest: &[&str]) -> Option<String> {
        let is_named = |line: &str| {
            let line = line.trim_start();
            let line = line.strip_prefix("cargo xtask ").unwrap_or(line);
            line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        if !self.help.lines().any(is_named) {
            return Some(format!("has no task {name}"));
        }
        // The runner would have to be built before it could print its options.
        if name == "interop" {
            return None;
        }
        let group = rest.first().filter(|word| name == "bench" && !word.starts_with('-'));
        let mut help = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let help = run(help.arg(name).args(group).arg("--help"));
        let options = rest.iter().filter(|word| word.starts_with("--"));
        let mut missing = options.filter(|option| !help.contains(*option));
        missing.next().map(|option| format!("has no option {option}"))
    }

    /// Returns the word that follows one of the options.
    fn after<'a>(words: &[&'a str], options: &[&str]) -> Option<&'a str> {
        let at = words.iter().position(|word| options.contains(word))?;
        words.get(at + 1).copied()
    }

    fn fault_of_cargo(&self, words: &[&str]) -> Option<String> {
        let named = Self::after(words, &["-p", "--package"])?;
        let Some(package) = self.packages.iter().find(|package| package.name == named) else {
            return Some(format!("has no package {named}"));
        };
        for kind in ["test", "example", "bin"] {
            let target = Self::after(words, &[&format!("--{kind}")]);
            let known = |name: &&str| package.targets.contains(&(kind.into(), (*name).into()));
            if let Some(name) = target.filter(|name| !known(name)) {
                return Some(format!("has no {kind} {name} of {named}"));
            }
        }
        let takes_a_value = [
            "-p",
            "--package",
            "--test",
            "--example",
            "--bin",
            "--features",
            "--target",
            "--profile",
        ];
        let filter = words.iter().enumerate().rev().find(|(at, word)| {
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            !word.starts_with('-') && !before.is_some_and(|word| takes_a_value.contains(word))
        });
        let (_, filter) = filter?;
        let name = filter.rsplit("::").next()?;
        (!has_test(&package.folder, name)).then(|| format!("has no test {filter} in {named}"))
    }

    fn fault_of_run(&self, cargo: &[&str], words: &[&str]) -> Option<String> {
        let words = match Self::after(cargo, &["-p", "--package"]) {
            None => words,
            Some("clearway-lab-command") => &[&["lab"], words].concat()[..],
            Some(_) => return None,
        };
        let has = |path: String| root().join(path).exists();
        match words {
            ["lab", name, rest @ ..] => {
                let scenario =
                    rest.first().filter(|word| !word.starts_with('-') && **word != "NAME");
                let scenario = scenario.filter(|_| ["run", "replay"].contains(name));
                let is_known = has(format!("crates/lab-command/src/{name}.rs"))
                    && scenario.is_none_or(|it| has(format!("crates/lab/scenarios/{it}.toml")));
                (!is_known).then(|| format!("has no {name} {scenario:?} in the lab"))
            }
            [name, ..] if !name.starts_with('-') => (!has(format!("crates/cli/src/{name}.rs")))
                .then(|| format!("has no command {name} of the program")),
            _ => None,
        }
    }
}

/// Returns the paths of the book's pages.
fn pages_of_the_book() -> Vec<String> {
    let files = run(Command::new("git").args(["ls-files", "docs/book/src"]));
    files.lines().filter(|file| file.ends_with(".md")).map(str::to_owned).collect()
}

#[test]
fn every_command_of_the_documents_and_of_continuous_integration_exists() {
    let project = Project::here();
    let mut faults = Vec::new();
    let mut judge = |file: &str, commands: Vec<String>, least: usize| {
        assert!(commands.len() >= least, "{file}: {commands:?}");
        let faults_of_file = commands.iter().filter_map(|command| {
            project.fault(command).map(|fault| format!("{file}: `{command}` {fault}"))
        });
        faults.extend(faults_of_file);
    };
    for (document, least) in [("CONTRIBUTING.md", 60), ("README.md", 4), ("docs/release.md", 5)] {
        judge(document, commands_of_document(&read(document)), least);
    }
    let book = pages_of_the_book();
    let in_book = book.iter().flat_map(|page| commands_of_document(&read(page))).collect();
    judge("docs/book/src", in_book, 12);
    for (script, least) in
        [(".ci/run", 2), (".github/workflows/test.yml", 8), (".github/workflows/nightly.yml", 8)]
    {
        judge(script, commands_of_script(&read(script)), least);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_that_do_not_exist_are_noticed() {
    let project = Project::here();
    for good in [
        "cargo xtask check --base HEAD",
        "cargo test -p clearway-transport --test suite masks -- --ignored",
        "cargo test -p clearway-congestion --lib cubic",
        "cargo run --release -- lab run collapse",
        "cargo run --release -- demo",
    ] {
        assert_eq!(project.fault(good), None, "{good}");
    }
    for bad in [
        "cargo xtask chock",
        "cargo xtask check --bass HEAD",
        "cargo test -p clearway-transports",
        "cargo test -p clearway-transport --test masques",
        "cargo test -p clearway-congestion --lib qubic",
        "cargo run --release -- lab run collapsed",
        "cargo run --release -- lab ran",
        "cargo run --release -- dema",
        "cargo tset",
    ] {
        assert!(project.fault(bad).is_some(), "{bad}");
    }
    let document = "Run `cargo\ntest -p a`, or\n\n    cargo xtask b    # a comment\n";
    assert_eq!(commands_of_document(document), ["cargo xtask b", "cargo test -p a"]);
    assert_eq!(commands_of_script("# cargo a\n  - run: cargo b --c\n"), ["cargo b --c"]);
}

/// Returns the folders that need a row: those in the repository's root and, instead of `crates/`,
/// the folders in it.
fn folders() -> BTreeSet<String> {
    let files = run(Command::new("git").args(["ls-files"]));
    let folder = |file: &str| {
        let mut parts = file.split('/');
        let first = parts.next().filter(|first| !first.starts_with('.'))?;
        let second = parts.next()?;
        parts.next().filter(|_| first == "crates").map_or_else(
            || (first != "crates").then(|| format!("{first}/")),
            |_| Some(format!("{first}/{second}/")),
        )
    };
    files.lines().filter_map(folder).collect()
}

#[test]
fn every_folder_has_a_row_with_what_to_run_after_a_change() {
    let document = read("CONTRIBUTING.md");
    let (_, table) = document.split_once("## After a change\n").expect("the section of the table");
    let (table, _) = table.split_once("\n## ").expect("a next section");
    let mut rows = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        let [_, folders, commands, _, _] = cells.as_slice() else { panic!("{row}") };
        assert!(!commands_of_document(commands).is_empty(), "no command: {row}");
        let names = folders.split('`').skip(1).step_by(2).map(str::to_owned);
        rows.extend(names.filter(|name| !name.starts_with('.')));
    }
    assert_eq!(rows, folders());
}
