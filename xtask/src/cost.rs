//! `cargo xtask cost`: the cost in instructions of operations on an endpoint, with few and with many of the things that
//! a peer can create.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::command::{self, cargo, output, target};

/// Instructions are counted only between a call of this function and its return.
const COUNTED: &str = "--toggle-collect=*counted_operation*";

/// One line of the list that the program prints.
struct Operation {
    place: String,
    name: String,
    of: String,
    counts: [u64; 3],
}

impl Operation {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('\t');
        let mut word = || words.next().map(str::to_owned);
        let (place, name, of) = (word()?, word()?, word()?);
        let mut count = || word()?.parse().ok();
        Some(Self { place, name, of, counts: [count()?, count()?, count()?] })
    }

    /// The number of instructions of one operation while there are `count` of [`Self::of`].
    fn cost(&self, program: &Path, count: u64) -> Result<u64, String> {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED])
            .arg(program)
            .args([&self.place, &count.to_string()]);
        let run = command.output().map_err(|error| {
            format!("valgrind cannot be run ({error}); on Debian install the package valgrind")
        })?;
        let text = String::from_utf8_lossy(&run.stderr);
        if !run.status.success() {
            return Err(format!("{} with {count} {} failed:\n{text}", self.name, self.of));
        }
        let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
        let collected: Option<u64> = collected.and_then(|number| number.trim().parse().ok());
        let repetitions: Option<u64> = String::from_utf8_lossy(&run.stdout).trim().parse().ok();
        match (collected, repetitions) {
            (Some(collected), Some(repetitions)) if collected > 0 && repetitions > 0 => {
                Ok(collected / repetitions)
            }
            _ => Err(format!("valgrind did not report how many instructions it counted:\n{text}")),
        }
    }
}

/// Whether the costs that were measured at `counts` grow no faster than the logarithm of the count. Half of the first
/// cost is allowed on top for what does not depend on the count: chance, and tables that were resized.
fn grows_slowly(counts: [u64; 3], costs: [u64; 3]) -> bool {
    let log = |count: u64| (count.max(1) as f64).ln();
    let [first, second, third] = costs.map(|cost| cost as f64);
    let steps = [log(counts[1]) - log(counts[0]), log(counts[2]) - log(counts[1])];
    let slope = ((second - first) / steps[0]).max(0.0);
    third <= second + 2.0 * slope * steps[1] + first / 2.0
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    if let Some(other) = arguments.first() {
        return Err(format!("unknown argument {other}; cost takes none"));
    }
    let build = ["build", "--profile", "gallery", "--package", "clearway-limits"];
    command::run("building the program whose instructions are counted", &mut cargo(&build))?;
    let program = target().join("gallery/clearway-cost");
    let list = output("listing the operations", &mut Command::new(&program))?;
    let operations: Vec<Operation> = list.lines().filter_map(Operation::parse).collect();
    println!(
        "{:<26} {:<24} {:>30}   instructions at each count",
        "operation", "with many", "how many"
    );
    let mut fast = String::new();
    for operation in operations {
        let mut costs = [0; 3];
        for (cost, count) in costs.iter_mut().zip(operation.counts) {
            *cost = operation.cost(&program, count)?;
        }
        let [a, b, c] = operation.counts;
        let slow = grows_slowly(operation.counts, costs);
        let verdict = if slow { "" } else { "   grows faster than log n" };
        let counts = format!("{a}, {b}, {c}");
        let [few, some, many] = costs;
        let (name, of) = (&operation.name, &operation.of);
        println!("{name:<26} {of:<24} {counts:>30} {few:>9} {some:>9} {many:>9}{verdict}");
        if !slow {
            let _ = writeln!(fast, "{name} with many {of}: {few}, {some}, {many} instructions");
        }
    }
    if fast.is_empty() {
        Ok(())
    } else {
        Err(format!("these costs grow faster than log n:\n{fast}"))
    }
}

#[cfg(test)]
mod tests {
    use super::grows_slowly;

    #[test]
    fn logarithmic_growth_is_slow_and_a_tenth_of_an_instruction_per_item_is_not() {
        let counts = [1, 100, 10_000];
        assert!(grows_slowly(counts, [5_000, 5_000, 5_000]));
        assert!(grows_slowly(counts, [5_000, 6_000, 7_000]));
        assert!(grows_slowly(counts, [5_000, 6_000, 9_000]));
        assert!(!grows_slowly(counts, [1_000, 1_010, 2_000]));
        assert!(!grows_slowly(counts, [5_000, 5_100, 15_000]));
    }
}
