//! `cargo xtask test`: everything that has to hold.

use std::process::Command;
use std::time::Instant;

use crate::command::{self, cargo, root, target};
use crate::{cost, fuzz, gallery, viewer};

/// The tests against other stacks live in this package; they need the peers.
const INTEROP: &str = "clearway-interop";
/// With it quinn can be either end in the lab. Lints and tests have it on, so that nothing is compiled twice; that it
/// compiles without is what building the documentation shows.
const QUINN: &str = "clearway-lab/quinn";

/// What is done besides, as it takes long.
#[derive(Default)]
struct Options {
    peers: bool,
    /// The patches of the gallery are tried, those that are marked; without it they only have to apply.
    gallery: bool,
    /// The viewer's page is the one that its source makes, and a browser can use it.
    viewer: bool,
    /// No operation costs more the more a peer has made of something; needs valgrind.
    cost: bool,
    /// Each fuzz target runs for a short while.
    fuzz: bool,
}

fn run_all(options: &Options) -> Result<(), String> {
    command::run("checking the format", &mut cargo(&["fmt", "--all", "--check"]))?;
    fuzz::check_lock_file()?;
    let lint = ["clippy", "--workspace", "--all-targets", "--features", QUINN, "--quiet"];
    command::run("linting", &mut cargo(&[&lint[..], &["--", "-D", "warnings"]].concat()))?;
    let mut documentation = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command::run("building the documentation", documentation.env("RUSTDOCFLAGS", "-D warnings"))?;
    let tests = ["test", "--workspace", "--exclude", INTEROP, "--features", QUINN];
    command::run("testing", &mut cargo(&[&tests[..], &["--no-fail-fast"]].concat()))?;
    gallery::run(&[if options.gallery { "--marked" } else { "--check" }])?;
    if options.viewer {
        viewer::run()?;
    }
    if options.cost {
        cost::run(&[])?;
    }
    if options.fuzz {
        fuzz::run(&[])?;
    }
    if options.peers { run_peers() } else { Ok(()) }
}

fn run_peers() -> Result<(), String> {
    let peers = target().join("peers");
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).env("PEERS_OUT", &peers);
    command::run("building the peers", &mut build)?;
    let program = command::program()?;
    let mut tests = cargo(&["test", "--package", INTEROP, "--", "--test-threads", "2"]);
    tests.env("PEERS_OUT", &peers).env("CLEARWAY", program);
    command::run("testing against the peers", &mut tests)
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let mut options = Options::default();
    for argument in arguments {
        match *argument {
            "--peers" => options.peers = true,
            "--gallery" => options.gallery = true,
            "--viewer" => options.viewer = true,
            "--cost" => options.cost = true,
            "--fuzz" => options.fuzz = true,
            other => {
                return Err(format!(
                    "test takes --peers, --gallery, --viewer, --cost and --fuzz, not {other}"
                ));
            }
        }
    }
    let start = Instant::now();
    run_all(&options)?;
    eprintln!("xtask: all of it holds ({} s)", start.elapsed().as_secs());
    Ok(())
}
