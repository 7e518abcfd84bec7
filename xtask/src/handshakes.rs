//! `cargo xtask handshakes`: post-quantum handshakes between Clearway and other stacks, over real
//! sockets and a lossy link.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, root, target};
use crate::running::Running;

/// The peers that support the commands `handshakes` and `handshakes-server`.
const PEERS: [&str; 2] = ["quinn", "quic-go"];
/// The one-way delay of the link.
const DELAY: &str = "25ms";
/// Maximum packet loss, in percent, at which no handshake may fail.
const NONE_FAILS: u32 = 15;

#[derive(clap::Args)]
pub(crate) struct HandshakesOptions {
    /// Number of handshakes for each pair and loss
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    count: usize,
    /// Loss rates in percent
    #[arg(long = "loss", value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [0_u32, 2, 8, 15])]
    losses: Vec<u32>,
    /// Run only with these peers
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = PEERS, default_values = PEERS)]
    peers: Vec<String>,
    /// Seed of the link
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A program and its name in the table.
struct Stack {
    name: String,
    program: PathBuf,
}

/// The results of one table row: the number of failed handshakes, and the durations of the
/// successful ones in seconds, in ascending order.
struct Row {
    failed: usize,
    seconds: Vec<f64>,
}

/// Runs the handshakes of each pair, with Clearway in both roles, and prints a table.
pub(crate) fn run(options: &HandshakesOptions) -> Result<(), String> {
    let link = command::program()?;
    let mut build = command::build("release", &["clearway-bench"]);
    command::run("building Clearway's client and server", &mut build)?;
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).args(&options.peers);
    command::run("building the peers", build.env("PEERS_OUT", target().join("peers")))?;
    let clearway =
        Stack { name: "clearway".to_owned(), program: target().join("release/clearway-bench") };
    let [certificate, key] = certificate(&clearway.program)?;
    let peer =
        |name: &String| Stack { name: name.clone(), program: target().join("peers").join(name) };
    let peers: Vec<_> =
        options.peers.iter().map(peer).filter(|peer| peer.program.exists()).collect();
    if peers.len() < options.peers.len() {
        eprintln!("xtask: peers that could not be built are skipped");
    }
    let mut failed = 0;
    println!(
        "{:<10} {:<10} {:>5} {:>7} {:>7} {:>7} {:>7}",
        "client", "server", "loss", "failed", "p50 s", "p99 s", "max s"
    );
    for &loss in &options.losses {
        let pairs = core::iter::once((&clearway, &clearway))
            .chain(peers.iter().flat_map(|peer| [(&clearway, peer), (peer, &clearway)]));
        for (client, server) in pairs {
            let row = handshakes(options, loss, client, server, &link, [&certificate, &key])?;
            println!("{}", line(client, server, loss, &row));
            failed += if loss <= NONE_FAILS { row.failed } else { 0 };
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} handshakes failed at {NONE_FAILS} % loss or less")),
    }
}

fn line(client: &Stack, server: &Stack, loss: u32, row: &Row) -> String {
    let at = |part: f64| {
        let index = (part * row.seconds.len() as f64).ceil() as usize;
        row.seconds.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    };
    let times = [0.5, 0.99, 1.0].map(|part| format!("{:>7.3}", at(part)));
    let (client, server) = (&client.name, &server.name);
    format!("{client:<10} {server:<10} {loss:>3} % {:>7} {}", row.failed, times.join(" "))
}

/// Runs the handshakes of one client with one server.
fn handshakes(
    options: &HandshakesOptions,
    loss: u32,
    client: &Stack,
    server: &Stack,
    link: &Path,
    [certificate, key]: [&str; 2],
) -> Result<Row, String> {
    let root = target().join("handshakes");
    let root = root.to_string_lossy();
    let server = Running::start(
        &server.program,
        &[
            "handshakes-server",
            "--listen",
            "127.0.0.1:0",
            "--root",
            &root,
            "--cert",
            certificate,
            "--key",
            key,
        ],
    )?;
    let link = Running::start(
        link,
        &[
            "link",
            "--listen",
            "127.0.0.1:0",
            "--to",
            &server.address,
            "--delay",
            DELAY,
            "--loss",
            &format!("{loss}%"),
            "--seed",
            &options.seed.to_string(),
        ],
    )?;
    let mut command = Command::new(&client.program);
    command.args(["handshakes", "--ca", certificate, "--connect", &link.address]);
    let output =
        command::output(&client.name, command.args(["--count", &options.count.to_string()]))?;
    let parsed: serde_json::Value =
        serde_json::from_str(output.trim()).map_err(|error| format!("{output:?}: {error}"))?;
    let seconds = parsed["seconds"].as_array().ok_or(format!("no durations in {output:?}"))?;
    let seconds: Vec<_> = seconds.iter().filter_map(serde_json::Value::as_f64).collect();
    let failed = parsed["failed"].as_u64().unwrap_or(u64::MAX) as usize;
    match seconds.len() + failed == options.count {
        true => Ok(Row { failed, seconds }),
        false => {
            Err(format!("{} made an unexpected number of handshakes: {output:?}", client.name))
        }
    }
}

fn certificate(program: &Path) -> Result<[String; 2], String> {
    let folder = target().join("handshakes");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files =
        ["cert.pem", "key.pem"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let mut make = Command::new(program);
    command::run("making a certificate", make.arg("certificate").args(&files))?;
    Ok(files)
}
