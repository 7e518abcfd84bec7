//! `cargo xtask test`: all checks that have to pass.

use std::process::Command;
use std::time::Instant;

use crate::command::{self, QUINN, cargo, root, target};
use crate::{cost, doctor, features, fuzz, gallery, interop, viewer};

/// With this feature there are the tests that need the peers.
const PEERS: &str = "clearway-interop/peers";

/// The checks that run only on request, because they take long.
#[derive(Default)]
struct Options {
    peers: bool,
    /// Build and run the marked patches of the gallery; without this they only have to apply.
    gallery: bool,
    /// Check that the viewer's committed page matches its source, and test it in a browser.
    viewer: bool,
    /// Check that no operation becomes more expensive in proportion to the number of things that a peer created; needs
    /// valgrind.
    cost: bool,
    /// Compile the library with each set of its features, and look for unused dependencies.
    features: bool,
    /// Run each fuzz target for a short time.
    fuzz: bool,
    /// Let each fault of a host happen once, and compare what the doctor says; needs root.
    doctor: bool,
}

pub(crate) fn check_format() -> Result<(), String> {
    command::run("checking the format", &mut cargo(&["fmt", "--all", "--check"]))
}

pub(crate) fn lint() -> Result<(), String> {
    let all = [QUINN, PEERS].join(",");
    let lint = ["clippy", "--workspace", "--all-targets", "--features", &all, "--quiet"];
    command::run("linting", &mut cargo(&[&lint[..], &["--", "-D", "warnings"]].concat()))
}

fn run_all(options: &Options) -> Result<(), String> {
    check_format()?;
    lint()?;
    let mut documentation = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command::run("building the documentation", documentation.env("RUSTDOCFLAGS", "-D warnings"))?;
    let tests = ["test", "--workspace", "--features", QUINN, "--no-fail-fast"];
    command::run("testing", &mut cargo(&tests))?;
    gallery::run(&[if options.gallery { "--marked" } else { "--check" }])?;
    if options.viewer {
        viewer::run()?;
    }
    if options.cost {
        cost::run(&[])?;
    }
    if options.features {
        features::run(&[])?;
    }
    if options.fuzz {
        fuzz::run(&[])?;
    }
    if options.doctor {
        doctor::run(&["--runs", "1"])?;
    }
    if options.peers { run_peers() } else { Ok(()) }
}

fn run_peers() -> Result<(), String> {
    let peers = target().join("peers");
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).env("PEERS_OUT", &peers);
    command::run("building the peers", &mut build)?;
    let program = command::tested("clearway")?;
    let all = [QUINN, PEERS].join(",");
    let mut tests = cargo(&["test", "--workspace", "--features", &all, "--test", "peers"]);
    tests.args(["--", "--test-threads", "2"]).env("PEERS_OUT", &peers).env("CLEARWAY", &program);
    command::run("testing against the peers", &mut tests)?;
    let etcd = ["test", "--workspace", "--features", QUINN, "--lib", "keys_of_etcd_itself"];
    let mut etcd = cargo(&[&etcd[..], &["--", "--ignored"]].concat());
    command::run("testing servers from etcd", &mut etcd)?;
    interop::run_few(&program)
}

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let mut options = Options::default();
    for argument in arguments {
        match *argument {
            "--peers" => options.peers = true,
            "--gallery" => options.gallery = true,
            "--viewer" => options.viewer = true,
            "--cost" => options.cost = true,
            "--features" => options.features = true,
            "--fuzz" => options.fuzz = true,
            "--doctor" => options.doctor = true,
            other => {
                return Err(format!(
                    "unknown option {other}; test takes --peers, --gallery, --viewer, --cost, --features, --fuzz and \
                     --doctor"
                ));
            }
        }
    }
    let start = Instant::now();
    run_all(&options)?;
    eprintln!("xtask: all checks passed ({} s)", start.elapsed().as_secs());
    Ok(())
}
