//! `cargo xtask live`: reproduces two scenarios of the lab over real sockets and `clearway link`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, target};
use crate::running::Running;

/// The link options of the scenario `reordering-adapts`.
const REORDERING: [&str; 7] =
    ["--delay", "10ms", "--jitter", "20ms", "--jitter-reorders", "--mtu", "1472"];
const REORDERING_BYTES: u64 = 2_000_000;
const REORDERING_SEEDS: u64 = 5;
/// Time limit of the download in seconds.
const REORDERING_WITHIN: f64 = 3.3;

/// The link options of the scenario `long-fat-defaults`. Datagrams have the maximum size of the
/// loopback interface, because with small ones, three programs at this rate would need more CPU
/// time than a small machine has.
const LONG_FAT: [&str; 6] = ["--delay", "50ms", "--rate", "1gbit", "--queue-bytes", "12500kB"];
const LONG_FAT_BYTES: u64 = 400_000_000;
/// The duration of the handshake and slow start in seconds, and the number of bytes transferred
/// during that time.
const SLOW_START: (f64, f64) = (1.2, 12.5e6);
/// The link's rate, in bytes per second.
const RATE: f64 = 125e6;
/// Minimum fraction of the link's rate that must be used after slow start.
const LEAST_USE: f64 = 0.8;

const CONTROLLERS: [&str; 3] = ["reno", "cubic", "bbr"];

/// Downloads files through links, and fails if a download takes longer than its scenario allows.
pub(crate) fn run() -> Result<(), String> {
    let program = command::program()?;
    let folder = target().join("live");
    for (name, size) in [("reordering", REORDERING_BYTES), ("long-fat", LONG_FAT_BYTES)] {
        make_file(&folder, name, size)?;
    }
    let mut failures = 0;
    for controller in CONTROLLERS {
        for seed in 1..=REORDERING_SEEDS {
            let seed = seed.to_string();
            let conditions = [&REORDERING[..], &["--seed", &seed]].concat();
            let seconds = download(&program, &folder, controller, &conditions, "reordering")?;
            let is_met = seconds <= REORDERING_WITHIN;
            println!(
                "reordering, {controller}, seed {seed}: 2 MB in {seconds:.2} s{}",
                mark(is_met)
            );
            failures += u32::from(!is_met);
        }
        let seconds = download(&program, &folder, controller, &LONG_FAT, "long-fat")?;
        let used = (LONG_FAT_BYTES as f64 - SLOW_START.1) / (seconds - SLOW_START.0) / RATE;
        let is_met = used >= LEAST_USE;
        println!(
            "1 Gbit/s and 100 ms, {controller}: 400 MB in {seconds:.2} s, {:.0} % of the link after slow start{}",
            used * 100.0,
            mark(is_met)
        );
        failures += u32::from(!is_met);
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} downloads took too long")) }
}

fn mark(is_met: bool) -> &'static str {
    if is_met { "" } else { ": TOO SLOW" }
}

/// Creates a sparse file of zeros.
fn make_file(folder: &Path, name: &str, size: u64) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| File::create(&path)?.set_len(size))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Downloads a file through a link. Returns the download time in seconds, including the handshake.
fn download(
    program: &PathBuf,
    folder: &Path,
    controller: &str,
    conditions: &[&str],
    name: &str,
) -> Result<f64, String> {
    let folder = folder.to_string_lossy();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--controller", controller, &folder];
    let server = Running::start(program, &serve)?;
    let link = ["link", "--listen", "127.0.0.1:0", "--to", &server.address];
    let link = Running::start(program, &[&link[..], conditions].concat())?;
    let url = format!("https://{}/{name}", server.address);
    let mut get = Command::new(program);
    get.args(["get", "--insecure", "--quiet", "--json", "--output", "/dev/null"]);
    let output = command::output("the download", get.args(["--connect", &link.address, &url]))?;
    let result: serde_json::Value =
        serde_json::from_str(output.trim()).map_err(|error| format!("{output:?}: {error}"))?;
    result["seconds"].as_f64().ok_or_else(|| format!("no duration in {output:?}"))
}
