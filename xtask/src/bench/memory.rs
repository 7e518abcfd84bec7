//! `cargo xtask bench memory`: what a server keeps in memory for each idle connection, on which one request was answered.

use serde_json::json;

use super::{CLIENT_CORE, Place, build, certificate, number, round, stacks, text};
use crate::measure::Process;

/// Before these are open, a server has not yet allocated what it needs only once.
const FIRST: usize = 200;

/// The memory of a server for one idle connection.
struct Kept {
    server: &'static str,
    bytes: f64,
}

pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let (mut count, mut as_json) = (10_000, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--json" => as_json = true,
            "--count" => {
                let value = rest.next().ok_or("--count needs a value")?;
                count = number(value)?.max(1) as usize;
            }
            other => return Err(format!("bench memory has no option {other}")),
        }
    }
    let ours = build()?;
    let place = Place::new(certificate(&ours)?);
    let mut all = Vec::new();
    for server in stacks(&ours, &super::PEERS)?.servers {
        let listening = place.serve(&server)?;
        let open = |count: usize| {
            let count = count.to_string();
            let connect = ["--ca", text(&place.certificate), "--connect", &listening.address];
            let arguments = [&["idle"], &connect[..], &["--connections", &count]].concat();
            Process::start(&ours, &arguments, CLIENT_CORE, "open")
        };
        let _first = open(FIRST)?;
        let before = listening.resident_bytes()?;
        let _others = open(count)?;
        let after = listening.resident_bytes()?;
        let bytes = (after as f64 - before as f64) / count as f64;
        eprintln!(
            "xtask: {}: {:.1} KiB for each of {count} idle connections",
            server.name,
            bytes / 1024.0
        );
        all.push(Kept { server: server.name, bytes });
    }
    report(&all, count, as_json);
    Ok(())
}

fn report(all: &[Kept], count: usize, as_json: bool) {
    let is_ours = |kept: &&Kept| kept.server.starts_with("clearway");
    for ours in all.iter().filter(is_ours) {
        for theirs in all.iter().filter(|kept| !is_ours(kept)) {
            let ratio = ours.bytes / theirs.bytes;
            let face = ours.server.strip_prefix("clearway, ").unwrap_or_default();
            if as_json {
                let object = json!({
                    "case": format!("memory of an idle connection of {count}"),
                    "face": face,
                    "clearway": ours.bytes.round(),
                    "peer": theirs.server,
                    "peer_value": theirs.bytes.round(),
                    "unit": "bytes",
                    "ratio": round(ratio),
                    "ratio_min": round(ratio),
                    "ratio_max": round(ratio),
                });
                println!("{object}");
            } else {
                println!(
                    "idle connection, {face}: clearway {:.1} KiB, {} {:.1} KiB, ratio {ratio:.2}",
                    ours.bytes / 1024.0,
                    theirs.server,
                    theirs.bytes / 1024.0,
                );
            }
        }
    }
}
