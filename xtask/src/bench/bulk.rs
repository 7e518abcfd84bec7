//! `cargo xtask bench bulk`: a large download over one connection, Clearway and quinn in turn.

use std::path::Path;

use serde_json::json;

use super::{
    CLIENT_CORE, SERVER_CORE, build, certificate, median, number, peer, round, sorted, text,
};
use crate::measure::{Server, client};

struct Options {
    cases: Vec<&'static str>,
    size: u64,
    pairs: usize,
    /// The same for both stacks; `None` for what each of them discovers.
    datagram_size: Option<u32>,
    json: bool,
}

/// The result of one download.
#[derive(Clone, Copy)]
struct Run {
    gbps: f64,
    /// CPU seconds per GiB: of the server, and of the client.
    cpu: [f64; 2],
}

/// A case, with the subcommands of both programs that run it.
struct Case {
    name: &'static str,
    server: &'static str,
    client: &'static str,
}

const CASES: [Case; 2] = [
    Case { name: "h3", server: "server", client: "client" },
    Case { name: "raw", server: "raw-server", client: "raw-client" },
];

const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = parse(arguments)?;
    let ours = build()?;
    let theirs = peer("quinn")?;
    let (certificate, key) = certificate(&ours)?;
    for case in CASES.iter().filter(|case| options.cases.contains(&case.name)) {
        let mut pairs = Vec::new();
        for pair in 0..options.pairs {
            let setting = Setting { case, options: &options, certificate: &certificate, key: &key };
            // The first run of a pair has the cooler machine, so the two programs take turns.
            let (first, second) = if pair % 2 == 0 { (&ours, &theirs) } else { (&theirs, &ours) };
            let (a, b) = (setting.download(first)?, setting.download(second)?);
            let (mine, other) = if pair % 2 == 0 { (a, b) } else { (b, a) };
            eprintln!(
                "xtask: {} {}/{}: clearway {:.2} Gbit/s, quinn {:.2} Gbit/s, ratio {:.2}",
                case.name,
                pair + 1,
                options.pairs,
                mine.gbps,
                other.gbps,
                mine.gbps / other.gbps
            );
            pairs.push((mine, other));
        }
        report(case, &pairs, options.json);
    }
    Ok(())
}

struct Setting<'a> {
    case: &'a Case,
    options: &'a Options,
    certificate: &'a Path,
    key: &'a Path,
}

impl Setting<'_> {
    fn download(&self, program: &Path) -> Result<Run, String> {
        let size = self.options.size.to_string();
        let mtu = mtu_arguments(self.options.datagram_size, program.ends_with("clearway-bench"));
        let mtu: Vec<&str> = mtu.iter().map(String::as_str).collect();
        let (certificate, key) = (text(self.certificate), text(self.key));
        let listen = [self.case.server, "--listen", "127.0.0.1:0", "--cert", certificate];
        let mut arguments = listen.to_vec();
        arguments.extend(["--key", key]);
        arguments.extend(&mtu);
        if self.case.name == "h3" {
            arguments.extend(["--root", "."]);
        }
        let server = Server::start(program, &arguments, SERVER_CORE)?;
        let before = server.cpu_seconds()?;
        let url = format!("https://localhost/zero/{size}");
        let mut arguments = vec![self.case.client, "--ca", certificate];
        arguments.extend(&mtu);
        match self.case.name {
            "raw" => arguments.extend(["--bytes", &size, &server.address]),
            _ => arguments.extend(["--discard", "--connect", &server.address, &url]),
        }
        let (result, client_cpu) = client(program, &arguments, CLIENT_CORE)?;
        let server_cpu = server.cpu_seconds()? - before;
        let bytes = result["bytes"].as_u64().unwrap_or(0);
        if bytes != self.options.size {
            return Err(format!("only {bytes} of {size} bytes were received: {result}"));
        }
        let seconds = result["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
        let seconds = seconds.ok_or_else(|| format!("the client printed no duration: {result}"))?;
        let gib = bytes as f64 / GIB;
        Ok(Run {
            gbps: bytes as f64 * 8.0 / seconds / 1e9,
            cpu: [server_cpu / gib, client_cpu / gib],
        })
    }
}

/// The options for the size of datagrams. quinn discovers it unless it is given a size; its default is no more than 1452
/// bytes.
fn mtu_arguments(size: Option<u32>, is_ours: bool) -> Vec<String> {
    let value = match size {
        Some(size) => size.to_string(),
        None if is_ours => "discover".to_owned(),
        None => return Vec::new(),
    };
    vec!["--mtu".to_owned(), value]
}

fn report(case: &Case, pairs: &[(Run, Run)], as_json: bool) {
    let of = |metric: fn(&(Run, Run)) -> f64| sorted(pairs.iter().map(metric).collect());
    let ours = of(|(ours, _)| ours.gbps);
    let theirs = of(|(_, theirs)| theirs.gbps);
    let ratios = of(|(ours, theirs)| ours.gbps / theirs.gbps);
    let cpu = |metric: fn(&(Run, Run)) -> f64| median(&of(metric));
    let ours_cpu = [cpu(|(run, _)| run.cpu[0]), cpu(|(run, _)| run.cpu[1])];
    let theirs_cpu = [cpu(|(_, run)| run.cpu[0]), cpu(|(_, run)| run.cpu[1])];
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    if as_json {
        let object = json!({
            "case": case.name,
            "clearway_gbps": round(median(&ours)),
            "peer": "quinn",
            "peer_gbps": round(median(&theirs)),
            "ratio": round(median(&ratios)),
            "ratio_min": round(least),
            "ratio_max": round(most),
            "clearway_cpu_s_per_gib": ours_cpu.map(round),
            "peer_cpu_s_per_gib": theirs_cpu.map(round),
        });
        println!("{object}");
    } else {
        println!(
            "{:3}  clearway {:5.2} Gbit/s (CPU s/GiB: server {:.2}, client {:.2})   quinn {:5.2} Gbit/s ({:.2}, {:.2})   ratio {:.2} ({least:.2} to {most:.2})",
            case.name,
            median(&ours),
            ours_cpu[0],
            ours_cpu[1],
            median(&theirs),
            theirs_cpu[0],
            theirs_cpu[1],
            median(&ratios),
        );
    }
}

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        cases: vec!["h3", "raw"],
        size: 1 << 30,
        pairs: 5,
        datagram_size: Some(1452),
        json: false,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().copied().ok_or(format!("{argument} needs a value"));
        match *argument {
            "--json" => options.json = true,
            "--size" => options.size = number(value()?)?,
            "--pairs" => options.pairs = number(value()?)?.max(1) as usize,
            "--datagram-size" => {
                options.datagram_size = match value()? {
                    "discover" => None,
                    size => Some(number(size)?.clamp(1200, 65_527) as u32),
                }
            }
            "--case" => {
                let name = value()?;
                let case = CASES.iter().find(|case| case.name == name);
                options.cases =
                    vec![case.ok_or(format!("the cases are h3 and raw, not {name}"))?.name];
            }
            other => return Err(format!("bench bulk has no option {other}")),
        }
    }
    Ok(options)
}
