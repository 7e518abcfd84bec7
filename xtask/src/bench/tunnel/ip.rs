//! `cargo xtask bench tunnel --ip`: TCP and latency in an IP tunnel, next to WireGuard in userspace.

use std::time::Duration;

use serde_json::json;

use super::TunnelOptions;
use super::site::{Kind, Programs, Site};
use super::traffic::{self, Latency};
use crate::bench::stacks::{PeerOptions, build, build_peers, clearway};
use crate::bench::{median, round, sorted};

/// Number of echoes per measurement of the latency.
const ECHOES: usize = 500;

/// The conditions of the path between the two ends of the tunnel.
pub(super) struct Case {
    name: &'static str,
    /// The options of `clearway link` between the ends; `None` for a direct path.
    pub(super) link: Option<&'static [&'static str]>,
}

const CASES: [Case; 4] = [
    Case { name: "no impairment", link: None },
    Case { name: "RTT of 10 ms", link: Some(&["--delay", "5ms"]) },
    Case { name: "RTT of 10 ms, 1 % lost", link: Some(&["--delay", "5ms", "--loss", "1%"]) },
    Case {
        name: "RTT of 10 ms, 1 % late by 3 ms",
        link: Some(&["--delay", "5ms", "--reorder", "1%", "--reorder-by", "3ms"]),
    },
];

/// The measurements of one tunnel.
struct Run {
    /// TCP goodput to the client in bytes per second.
    rate: f64,
    /// CPU seconds of both ends per GiB.
    cpu: f64,
    latency: Latency,
}

/// The runs of one kind of tunnel in one case.
struct Cell {
    case: &'static str,
    kind: Kind,
    runs: Vec<Run>,
}

pub(super) fn run(options: &TunnelOptions, json: bool) -> Result<(), String> {
    build()?;
    let peers = build_peers(&PeerOptions { names: vec!["wireguard-go"] })?;
    let wireguard = peers.first().ok_or("wireguard-go was not built")?.program().to_owned();
    let site = Site::new(Programs { clearway: clearway(), wireguard })?;
    let mut cells = Vec::new();
    for case in &CASES {
        for kind in Kind::ALL {
            cells.push(Cell { case: case.name, kind, runs: Vec::new() });
        }
    }
    for index in 0..options.rounds {
        let places = CASES.iter().flat_map(|case| Kind::ALL.map(|kind| (case, kind)));
        for ((case, kind), cell) in places.zip(&mut cells) {
            let run = measure(&site, case, kind, Duration::from_secs(options.seconds))?;
            eprintln!(
                "xtask: round {} of {}: {}, {}: {}",
                index + 1,
                options.rounds,
                case.name,
                kind.name(),
                run.line()
            );
            cell.runs.push(run);
        }
    }
    match json {
        true => cells.iter().for_each(|cell| println!("{}", cell.json())),
        false => print(&cells, options.rounds),
    }
    Ok(())
}

fn measure(site: &Site, case: &Case, kind: Kind, time: Duration) -> Result<Run, String> {
    let tunnel = site.start(kind, case.link)?;
    traffic::await_echo(site)?;
    let latency = traffic::latency(site, ECHOES)?;
    let before = tunnel.cpu_seconds()?;
    let (bytes, seconds) = traffic::download(site, time)?;
    let cpu = tunnel.cpu_seconds()? - before;
    let gibibytes = bytes / (1_u64 << 30) as f64;
    Ok(Run { rate: bytes / seconds, cpu: cpu / gibibytes, latency })
}

impl Run {
    fn line(&self) -> String {
        let Latency { median, slowest, lost } = self.latency;
        format!(
            "{:.1} MB/s, {:.2} s of CPU time per GiB, echo {median:.2} ms (p99 {slowest:.2} ms, {lost} lost)",
            self.rate / 1e6,
            self.cpu
        )
    }
}

impl Cell {
    fn median(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(&sorted(self.runs.iter().map(value).collect()))
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "case": self.case, "tunnel": self.kind.name(),
            "bytes_per_second": round(self.median(|run| run.rate)),
            "cpu_seconds_per_gib": round(self.median(|run| run.cpu)),
            "echo_p50_ms": round(self.median(|run| run.latency.median)),
            "echo_p99_ms": round(self.median(|run| run.latency.slowest)),
            "echoes_lost": self.median(|run| run.latency.lost as f64),
        })
    }
}

fn print(cells: &[Cell], rounds: usize) {
    println!(
        "| path, medians of {rounds} rounds | tunnel | TCP, MB/s | CPU s/GiB | echo p50, ms | echo p99, ms |"
    );
    println!("|---|---|--:|--:|--:|--:|");
    for cell in cells {
        println!(
            "| {} | {} | {:.1} | {:.2} | {:.2} | {:.2} |",
            cell.case,
            cell.kind.name(),
            cell.median(|run| run.rate) / 1e6,
            cell.median(|run| run.cpu),
            cell.median(|run| run.latency.median),
            cell.median(|run| run.latency.slowest),
        );
    }
}
