//! A patch of the gallery: a header that describes it, and a diff.

use std::fs;
use std::path::{Path, PathBuf};

/// A published bug, expressed as a diff against Clearway's code.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// The name of the patch file, without `.patch`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The bug's row number in the list of published bugs.
    pub(super) row: u32,
    /// Whether the bug was described in full. `cargo xtask test --gallery` tries the patches of
    /// such rows.
    pub(super) is_marked: bool,
    /// A short description of what goes wrong.
    pub(super) bug: String,
    /// The stack that had the bug, and where the bug was published.
    pub(super) whose: String,
    /// The properties, at least one of which must be violated; empty if a test must fail instead.
    pub(super) properties: Vec<String>,
    /// The judges, each of which must detect the bug.
    pub(super) judges: Vec<Judge>,
    /// The reason why no judge detects the bug yet, if none does.
    pub(super) open: Option<String>,
}

/// A check that must detect the bug.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Judge {
    /// A scenario of the lab.
    Scenario { name: String, variant: String, controller: String, seeds: u32 },
    /// A property that compares several runs.
    Across { property: String, controller: String },
    /// An exhaustive search of all sequences of at most `depth` moves.
    Explore { controller: String, depth: u8 },
    /// Simulated fleets behind load balancers, with this many seeds.
    Fleet { seeds: u32 },
    /// A test, for bugs that no property of a simulation run detects.
    Test { package: String, target: TestTarget, name: String },
}

/// The target that contains a test. Only this target is built.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TestTarget {
    /// The package's library.
    Library,
    /// This file in the package's `tests/`.
    File(String),
}

impl Patch {
    /// Returns a description of the judges for the reader.
    pub(super) fn describe_judges(&self) -> String {
        self.judges.iter().map(Judge::describe).collect::<Vec<_>>().join("; ")
    }
}

impl Judge {
    /// Returns a description of the judge for the reader.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Scenario { name, variant, controller, .. } if variant == "base" => {
                format!("{name}, {controller}")
            }
            Self::Scenario { name, variant, controller, .. } => {
                format!("{name}, {variant}, {controller}")
            }
            Self::Across { property, controller } => format!("across: {property}, {controller}"),
            Self::Explore { controller, depth: 1 } => format!("explore: {controller}, 1 move"),
            Self::Explore { controller, depth } => format!("explore: {controller}, {depth} moves"),
            Self::Fleet { seeds } => format!("fleet: {seeds} seeds"),
            Self::Test { name, .. } => format!("test: {name}"),
        }
    }
}

const DEFAULT_SEEDS: u32 = 20;

/// Reads all patches in `folder`, sorted by name.
pub(super) fn read_all(folder: &Path) -> Result<Vec<Patch>, String> {
    let unreadable = |error| format!("{}: {error}", folder.display());
    let mut patches = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            let text = fs::read_to_string(&path);
            let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
            patches.push(parse(&path, &text)?);
        }
    }
    patches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(patches)
}

/// Parses a patch. All lines before the diff form the header, as `Key: value`; indented lines
/// continue the previous one.
fn parse(path: &Path, text: &str) -> Result<Patch, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fields = fields(&name, text)?;
    let optional = |key: &str| {
        let found = fields.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone())
    };
    let required =
        |key: &str| optional(key).ok_or_else(|| format!("{name}: the header lacks {key}"));
    let row = required("Row")?;
    let (number, mark) = row.split_once(' ').map_or((row.as_str(), ""), |parts| parts);
    let row = number.parse().map_err(|_| format!("{name}: Row must be a number, not {number}"))?;
    required("Does")?;
    let judges = judges(&name, &optional)?;
    let properties = match judges.as_slice() {
        [Judge::Test { .. }] => Vec::new(),
        _ => required("Property")?.split(',').map(|id| id.trim().to_owned()).collect(),
    };
    let (bug, whose) = (required("Bug")?, required("Whose")?);
    Ok(Patch {
        path: path.to_owned(),
        row,
        is_marked: mark == "[S]",
        bug,
        whose,
        properties,
        judges,
        open: optional("Open"),
        name,
    })
}

/// Returns the judges named in a header: either one, or a scenario and the exhaustive search.
fn judges(name: &str, optional: &impl Fn(&str) -> Option<String>) -> Result<Vec<Judge>, String> {
    let controller = optional("Controller").unwrap_or_else(|| "all".to_owned());
    let named = ["Scenario", "Across", "Fleet", "Test"].map(optional);
    let judge = match named {
        [Some(scenario), None, None, None] => Some(Judge::Scenario {
            name: scenario,
            variant: optional("Variant").unwrap_or_else(|| "base".to_owned()),
            controller: controller.clone(),
            seeds: optional("Seeds").map_or(Ok(DEFAULT_SEEDS), |seeds| {
                seeds.parse().map_err(|_| format!("{name}: Seeds must be a number, not {seeds}"))
            })?,
        }),
        [None, Some(property), None, None] => {
            Some(Judge::Across { property, controller: controller.clone() })
        }
        [None, None, Some(seeds), None] => {
            let seeds = seeds.parse();
            let seeds = seeds.map_err(|_| format!("{name}: Fleet must be a number of seeds"))?;
            Some(Judge::Fleet { seeds })
        }
        [None, None, None, Some(test)] => {
            let (package, test) = test
                .split_once(' ')
                .ok_or_else(|| format!("{name}: Test must be a package and a name"))?;
            let (package, target) = match package.split_once('/') {
                Some((package, file)) => (package, TestTarget::File(file.to_owned())),
                None => (package, TestTarget::Library),
            };
            Some(Judge::Test { package: package.to_owned(), target, name: test.to_owned() })
        }
        [None, None, None, None] => None,
        _ => {
            return Err(format!("{name}: Scenario, Across, Fleet and Test are mutually exclusive"));
        }
    };
    let explore = optional("Explore").map(|depth| {
        let depth = depth.parse();
        let depth = depth.map_err(|_| format!("{name}: Explore must have a number of moves"))?;
        Ok::<_, String>(Judge::Explore { controller, depth })
    });
    match (judge, explore.transpose()?) {
        (None, None) => Err(format!(
            "{name}: the header needs one of Scenario, Across, Explore, Fleet and Test"
        )),
        (Some(Judge::Test { .. } | Judge::Across { .. } | Judge::Fleet { .. }), Some(_)) => {
            Err(format!("{name}: Explore cannot be combined with Test, Fleet or Across"))
        }
        (judge, explore) => Ok(judge.into_iter().chain(explore).collect()),
    }
}

const KEYS: [&str; 14] = [
    "Row",
    "Bug",
    "Whose",
    "Does",
    "Property",
    "Scenario",
    "Variant",
    "Controller",
    "Seeds",
    "Across",
    "Explore",
    "Fleet",
    "Test",
    "Open",
];

fn fields(name: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let mut fields: Vec<(String, String)> = Vec::new();
    let is_header = |line: &&str| !line.starts_with("--- ") && !line.starts_with("diff ");
    for line in text.lines().take_while(is_header) {
        if line.trim().is_empty() {
            continue;
        }
        if let (true, Some((_, value))) = (line.starts_with(' '), fields.last_mut()) {
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (key, value) = line
            .split_once(':')
            .filter(|(key, _)| KEYS.contains(key))
            .ok_or_else(|| format!("{name}: the header has a line without a known key: {line}"))?;
        fields.push((key.to_owned(), value.trim().to_owned()));
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
