//! `cargo xtask cost`: the cost in instructions of operations on an endpoint, with few and with
//! many of the objects that a peer can create. Also counts the instructions of a small request with
//! each API of the library (`cost/faces.rs`). The counts are compared with those in
//! `limits/instructions.toml`.

mod bounded;
mod faces;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::command::{self, output, root, target};

/// Instructions are counted only between a call to this function and its return.
const COUNTED: &str = "--toggle-collect=*counted_operation*";

/// Header comment of the file that records the instructions.
const EXPLANATION: &str = "# Instruction counts of single operations, with the smallest number of other objects. `cargo xtask cost` measures them, and\n# fails if one is more than 5 % higher. `cargo xtask cost --write` writes this file.\n\n";

const PANICKED: &str = "a measuring thread panicked";

/// One line of the program's list of operations.
struct Operation {
    place: String,
    name: String,
    /// The kind of object that the endpoint has many of, and the three counts to measure with.
    many: Option<(String, [u64; 3])>,
}

impl Operation {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('\t');
        let mut word = || words.next().map(str::to_owned);
        let (place, name) = (word()?, word()?);
        let Some(of) = word() else { return Some(Self { place, name, many: None }) };
        let mut count = || word()?.parse().ok();
        Some(Self { place, name, many: Some((of, [count()?, count()?, count()?])) })
    }

    /// Returns the operation's name in the file.
    fn key(&self) -> String {
        match &self.many {
            Some((of, _)) => format!("{}, {of}", self.name),
            None => self.name.clone(),
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.many.as_ref().map_or_else(|| vec![1], |(_, counts)| counts.to_vec())
    }

    /// Returns the number of instructions for one operation while the endpoint has `count` of the
    /// objects in [`Self::many`].
    fn cost(&self, program: &Path, count: u64) -> Result<u64, String> {
        let mut command = valgrind(&[COUNTED], program);
        command.args([&self.place, &count.to_string()]);
        let run = command.output().map_err(|error| {
            format!("cannot run valgrind ({error}); on Debian, install the package valgrind")
        })?;
        let text = String::from_utf8_lossy(&run.stderr);
        if !run.status.success() {
            return Err(format!("{} with {count} failed:\n{text}", self.key()));
        }
        let repetitions: Option<u64> = String::from_utf8_lossy(&run.stdout).trim().parse().ok();
        match repetitions {
            Some(repetitions) if repetitions > 0 => Ok(collected(&text)? / repetitions),
            _ => Err(format!("{} did not print its number of repetitions", self.key())),
        }
    }
}

/// Returns a command that runs `program` and counts its instructions.
fn valgrind(options: &[&str], program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(options).arg(program);
    command
}

/// Parses the instruction count from valgrind's output.
fn collected(text: &str) -> Result<u64, String> {
    let number = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let number = number.and_then(|number| number.trim().parse().ok()).filter(|number| *number > 0);
    number
        .ok_or_else(|| format!("valgrind did not report how many instructions it counted:\n{text}"))
}

/// Returns whether the costs at `counts` grow no faster than the logarithm of the count. Half of
/// the first cost is added as a margin for costs that do not depend on the count: randomness, and
/// resized tables.
fn grows_slowly(counts: [u64; 3], costs: [u64; 3]) -> bool {
    let log = |count: u64| (count.max(1) as f64).ln();
    let [first, second, third] = costs.map(|cost| cost as f64);
    let steps = [log(counts[1]) - log(counts[0]), log(counts[2]) - log(counts[1])];
    let slope = ((second - first) / steps[0]).max(0.0);
    third <= second + 2.0 * slope * steps[1] + first / 2.0
}

fn file() -> PathBuf {
    root().join("limits/instructions.toml")
}

/// Returns the recorded instruction count of each operation.
fn known() -> Result<BTreeMap<String, u64>, String> {
    let text = fs::read_to_string(file()).map_err(|error| format!("{}: {error}", file().display()));
    toml::from_str(&text?).map_err(|error| format!("{}: {error}", file().display()))
}

/// Compares a cost with the recorded one, and returns a description of the difference, if there is
/// one.
fn compare(key: &str, cost: u64, known: &BTreeMap<String, u64>) -> Option<String> {
    match known.get(key) {
        None => Some(format!(
            "{key}: {cost} instructions, but the file has no entry for this operation"
        )),
        Some(known) if cost > known + known / 20 => {
            Some(format!("{key}: {cost} instructions instead of {known}"))
        }
        Some(_) => None,
    }
}

/// The measured costs, and the differences from the recorded ones.
struct Comparison {
    /// The recorded costs; `None` if the measured costs are going to be recorded.
    known: Option<BTreeMap<String, u64>>,
    measured: BTreeMap<String, u64>,
    wrong: String,
}

impl Comparison {
    fn add(&mut self, key: &str, cost: u64) {
        if let Some(more) = self.known.as_ref().and_then(|known| compare(key, cost, known)) {
            let _ = writeln!(self.wrong, "{more}");
        }
        self.measured.insert(key.to_owned(), cost);
    }
}

pub(crate) fn run(write_down: bool) -> Result<(), String> {
    let known = if write_down { None } else { Some(known()?) };
    let mut comparison = Comparison { known, measured: BTreeMap::new(), wrong: String::new() };
    let mut build = command::build(command::GALLERY, &["clearway-cost", "clearway-bench"]);
    command::run("building the programs whose instructions are counted", &mut build)?;
    measure_operations(&mut comparison)?;
    let place = faces::Place::new()?;
    for face in &faces::ALL {
        let cost = place.cost(face)?;
        println!("{:<81}   {cost}", face.name);
        comparison.add(face.name, cost);
    }
    let Comparison { known, measured, wrong } = comparison;
    if known.is_none() {
        write(&measured)?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("these costs are too high:\n{wrong}")) }
}

/// Measures all operations, as many in parallel as there are cores: the instruction count does not
/// depend on other processes.
fn measure_operations(comparison: &mut Comparison) -> Result<(), String> {
    let program = target().join("gallery/clearway-cost");
    let list = output("listing the operations", &mut Command::new(&program))?;
    println!("{:<50} {:>30}   instructions at each count", "operation, with many", "how many");
    let waiting = Mutex::new(list.lines().filter_map(Operation::parse));
    let comparison = Mutex::new(comparison);
    let work = || -> Result<(), String> {
        loop {
            let next = waiting.lock().map_err(|_| PANICKED)?.next();
            let Some(operation) = next else { return Ok(()) };
            let counts = operation.counts();
            let costs = counts.iter().map(|count| operation.cost(&program, *count));
            let costs = costs.collect::<Result<Vec<_>, _>>()?;
            report(&operation.key(), &counts, &costs, *comparison.lock().map_err(|_| PANICKED)?);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| PANICKED)?)
    })
}

/// Prints the cost of an operation at each count, and compares it with the record.
fn report(key: &str, counts: &[u64], costs: &[u64], comparison: &mut Comparison) {
    let numbers = |all: &[u64]| all.iter().map(u64::to_string).collect::<Vec<_>>();
    let (these, at) = (numbers(costs).join("  "), numbers(counts).join(", "));
    println!("{key:<50} {at:>30}   {these}");
    if let ([a, b, c], [x, y, z]) = (counts, costs)
        && !grows_slowly([*a, *b, *c], [*x, *y, *z])
    {
        let _ = writeln!(
            comparison.wrong,
            "{key}: {these} instructions, which grows faster than log n"
        );
    }
    comparison.add(key, costs.first().copied().unwrap_or_default());
}

fn write(measured: &BTreeMap<String, u64>) -> Result<(), String> {
    let lines = measured.iter().map(|(key, cost)| format!("{key:?} = {cost}\n"));
    fs::write(file(), format!("{EXPLANATION}{}", lines.collect::<String>()))
        .map_err(|error| format!("{}: {error}", file().display()))
}

#[cfg(test)]
mod tests {
    use super::{compare, grows_slowly};

    #[test]
    fn logarithmic_growth_is_slow_and_a_tenth_of_an_instruction_per_item_is_not() {
        let counts = [1, 100, 10_000];
        assert!(grows_slowly(counts, [5_000, 5_000, 5_000]));
        assert!(grows_slowly(counts, [5_000, 6_000, 7_000]));
        assert!(grows_slowly(counts, [5_000, 6_000, 9_000]));
        assert!(!grows_slowly(counts, [1_000, 1_010, 2_000]));
        assert!(!grows_slowly(counts, [5_000, 5_100, 15_000]));
    }

    #[test]
    fn a_twentieth_more_is_tolerated() {
        let known = [("a".to_owned(), 1_000)].into();
        assert_eq!(compare("a", 1_050, &known), None);
        assert_eq!(compare("a", 500, &known), None);
        assert_eq!(
            compare("a", 1_051, &known).as_deref(),
            Some("a: 1051 instructions instead of 1000")
        );
        assert!(compare("b", 1, &known).is_some());
    }
}
