//! `cargo xtask test`: all checks that must pass.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::command::{self, QUINN, cargo, root, target};
use crate::doctor::DoctorTestOptions;
use crate::gallery::GalleryOptions;
use crate::options::defaults;
use crate::{cost, doctor, failures, features, fuzz, gallery, interop, viewer};

/// The features that enable tests with other QUIC stacks, and with kdig.
const PEERS: &str = "clearway-interop/peers,clearway-dns/peers";

/// The crates whose threads wait for sockets.
const WAITING: [&str; 2] = ["crates/io", "crates/clearway"];

/// Checks that run only on request, because they take a long time.
#[derive(clap::Args)]
pub(crate) struct TestOptions {
    /// Also test against other QUIC stacks (builds them; see interop/peers)
    #[arg(long)]
    peers: bool,
    /// Also build and run the marked patches of the gallery
    #[arg(long)]
    gallery: bool,
    /// Also check that the viewer's committed page matches its source, and test the page and HTTP/3
    /// in a browser
    #[arg(long)]
    viewer: bool,
    /// Also run `cargo xtask cost`
    #[arg(long)]
    cost: bool,
    /// Also run `cargo xtask features`
    #[arg(long)]
    features: bool,
    /// Also run `cargo xtask fuzz`
    #[arg(long)]
    fuzz: bool,
    /// Also run `cargo xtask doctor-test` with one run of each fault (needs root)
    #[arg(long)]
    doctor: bool,
}

fn check_format() -> Result<(), String> {
    command::run("checking the formatting", &mut cargo(&["fmt", "--all", "--check"]))
}

fn lint() -> Result<(), String> {
    let all = [QUINN, PEERS].join(",");
    let lint = ["clippy", "--workspace", "--all-targets", "--features", &all, "--quiet"];
    command::run("linting", &mut cargo(&[&lint[..], &["--", "-D", "warnings"]].concat()))
}

/// Checks the formatting, and that lints and documentation produce no warnings.
pub(crate) fn lint_all() -> Result<(), String> {
    check_format()?;
    lint()?;
    let mut documentation = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    command::run("building the documentation", documentation.env("RUSTDOCFLAGS", "-D warnings"))
}

fn run_all(options: &TestOptions) -> Result<(), String> {
    lint_all()?;
    let tests = ["test", "--workspace", "--features", QUINN, "--no-fail-fast"];
    failures::run("testing", &mut cargo(&tests))?;
    test_with_portable_poller()?;
    let (marked, check) = (options.gallery, !options.gallery);
    gallery::run(&GalleryOptions { marked, check, ..defaults() })?;
    if options.viewer {
        viewer::run()?;
    }
    if options.cost {
        cost::run(false)?;
    }
    if options.features {
        features::run()?;
    }
    if options.fuzz {
        fuzz::run(&defaults())?;
    }
    if options.doctor {
        doctor::run(&DoctorTestOptions { runs: 1, ..defaults() })?;
    }
    if options.peers { run_peers() } else { Ok(()) }
}

/// Runs the tests of the crates with threads again, with the poller that systems other than Linux
/// use. The test programs are already built.
fn test_with_portable_poller() -> Result<(), String> {
    let build = ["test", "--workspace", "--features", QUINN, "--no-run"];
    let mut build = cargo(&[&build[..], &["--message-format", "json-render-diagnostics"]].concat());
    let messages = command::output("looking for the test programs", &mut build)?;
    let began = Instant::now();
    let mut count = 0;
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let folder = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent());
        let (Some(program), Some(folder), Some(name)) =
            (message["executable"].as_str(), folder, message["target"]["name"].as_str())
        else {
            continue;
        };
        let is_test = message["profile"]["test"] == true;
        if is_test && WAITING.iter().any(|waiting| root().join(waiting) == folder) {
            count += 1;
            let mut tests = Command::new(program);
            tests.arg("--quiet").current_dir(folder).env("CLEARWAY_POLLER", "portable");
            failures::run(&format!("testing {name} with the portable poller"), &mut tests)?;
        }
    }
    eprintln!("xtask: {count} test programs ({} s)", began.elapsed().as_secs());
    if count < WAITING.len() {
        return Err("a crate has no tests to run with the portable poller".to_owned());
    }
    Ok(())
}

/// Builds the other QUIC stacks, and runs the tests that need these stacks.
pub(crate) fn run_peers() -> Result<(), String> {
    let peers = target().join("peers");
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).env("PEERS_OUT", &peers);
    command::run("building the peers", &mut build)?;
    let program = command::tested("clearway")?;
    let all = [QUINN, PEERS].join(",");
    let mut tests = cargo(&["test", "--workspace", "--features", &all, "--test", "peers"]);
    tests.args(["--", "--test-threads", "2"]).env("PEERS_OUT", &peers).env("CLEARWAY", &program);
    failures::run("testing against the peers", &mut tests)?;
    let etcd = ["test", "--workspace", "--features", QUINN, "--lib", "keys_of_etcd_itself"];
    let mut etcd = cargo(&[&etcd[..], &["--", "--ignored"]].concat());
    command::run("testing servers from etcd", &mut etcd)?;
    interop::run_few(&program)
}

pub(crate) fn run(options: &TestOptions) -> Result<(), String> {
    let start = Instant::now();
    run_all(options)?;
    eprintln!("xtask: all checks passed ({} s)", start.elapsed().as_secs());
    Ok(())
}
