//! The public QUIC interop runner's tests between Clearway and other stacks: `cargo xtask interop`.
//! See README.md. Tests of downloads between `clearway` and the peers are in `tests/`.

#[macro_use(eprintln, println)]
extern crate clearway_terminal;

mod capture;
mod catalogue;
mod cell;
mod certificates;
mod checks;
mod cross_traffic;
mod endpoints;
mod environment;
mod matrix;
mod network;
mod options;
mod process;
mod relay;
mod runner;
mod schedule;
mod show;
mod stack;
mod support;
mod targets;

use std::process::ExitCode;

use cell::Verdict;
use clap::Parser;
use clearway_terminal::output::refusal;
use endpoints::{Clearway, Programs};
use options::{InteropOptions, built};
use runner::Runner;

/// Runs the program according to its arguments. The exit status is 0 only if no cell failed.
pub fn main() -> ExitCode {
    let options = match InteropOptions::try_parse() {
        Ok(options) => options,
        Err(error) => {
            refusal(&error.render().to_string(), || drop(error.print()));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match act(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("interop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(options: &InteropOptions) -> Result<bool, String> {
    if let Some(folder) = &options.show {
        show::print(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    } else if options.list {
        options.cells().iter().for_each(|cell| say(&cell.name()));
    } else if options.list_peers {
        options.peers().iter().for_each(|peer| say(peer.name()));
    } else {
        return run(options);
    }
    Ok(true)
}

/// Runs the selected cells; returns whether none failed.
fn run(options: &InteropOptions) -> Result<bool, String> {
    if !options.loopback {
        clearway_namespaces::become_root();
    }
    watch_signals()?;
    let kind = match (options.loopback, environment::Kind::detect()) {
        (true, _) => environment::Kind::Loopback,
        (false, Ok(kind)) => kind,
        (false, Err(why)) => {
            eprintln!("interop: {why}");
            environment::Kind::Loopback
        }
    };
    if kind == environment::Kind::Loopback {
        say_what_is_left_out();
    }
    let clearway = Clearway::find(options.program()).map_err(|error| error.to_string())?;
    let runner = Runner {
        programs: Programs { clearway, peers: built("peers") },
        kind,
        folder: built("interop"),
        seed: options.seed,
        repeat: options.repeat,
        keep: options.keep,
        qlog: options.qlog,
    };
    for peer in options.peers() {
        runner.programs.check(peer).map_err(|error| error.to_string())?;
    }
    let done = schedule::run(&runner, &options.cells(), options.jobs, |done| match options.json {
        true => say(&matrix::object(done)),
        false => say(&matrix::line(done)),
    });
    if process::is_interrupted() {
        return Err("interrupted".to_owned());
    }
    if !options.json {
        say(&(matrix::table(&done) + &support::describe(&options.peers())));
        say(&matrix::summary(&done));
    }
    Ok(done.iter().all(|(_, outcome)| outcome.result != Verdict::Failed))
}

/// Prints a line. If standard output is closed, the cells still end in order.
fn say(line: &str) {
    println!("{line}");
}

fn say_what_is_left_out() {
    eprintln!("interop: the endpoints run on loopback addresses; these tests are skipped:");
    for test in &catalogue::TESTS {
        if let Some(reason) = environment::Kind::Loopback.leaves_out(test) {
            eprintln!("interop:   {} {}: {reason}", test.letter, test.name);
        }
    }
}

/// Handles Ctrl-C and SIGTERM: stops running cells in order, and removes everything that was
/// created.
fn watch_signals() -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, process::INTERRUPTED.clone())
            .map_err(|error| format!("cannot handle signal {signal}: {error}"))?;
    }
    Ok(())
}
