//! `cargo xtask bench memory`: a server's memory per idle connection after one answered request.

use super::place::{CLIENT_CORE, Place, SERVE_HTTP3};
use super::report::{Ratio, Results, Row};
use super::stacks::{PeerOptions, Stack, Stacks, build, build_peers};
use super::text;
use crate::measure::{Failure, Process};
use crate::options::positive;

/// Number of connections after which the server has made its one-time allocations.
const FIRST: usize = 200;

#[derive(clap::Args)]
pub(super) struct MemoryOptions {
    /// Number of connections
    #[arg(long, default_value_t = 10_000, value_parser = positive::<usize>())]
    pub(super) count: usize,
    #[command(flatten)]
    pub(super) peers: PeerOptions,
}

pub(super) fn results(options: &MemoryOptions) -> Result<Results, String> {
    let ours = build()?;
    let place = Place::new(&ours)?;
    let stacks = Stacks::with_one_client(&ours, &build_peers(&options.peers)?);
    let (mut kept, mut results) = (Vec::new(), Results::default());
    for (index, server) in stacks.servers.iter().enumerate() {
        let left = stacks.servers.len() - index - 1;
        let title = server.title();
        match measure(server, &stacks.servers[0], options.count, &place) {
            Ok(bytes) => {
                let kibibytes = bytes / 1024.0;
                eprintln!(
                    "xtask: {title}: {kibibytes:.1} KiB for each of {} idle connections; {left} runs left",
                    options.count
                );
                kept.push((server, bytes));
            }
            Err(Failure::NotOffered) => eprintln!("xtask: memory: not supported by {title}"),
            Err(Failure::Failed(error)) => {
                results.failures.push(format!("memory, {title}: {error}"))
            }
        }
    }
    results.rows = rows(&kept, options.count);
    Ok(results)
}

/// Returns the server's memory in bytes per idle connection from a Clearway client.
fn measure(server: &Stack, client: &Stack, count: usize, place: &Place) -> Result<f64, Failure> {
    let listening = place.serve(server, &SERVE_HTTP3)?;
    let open = |count: usize| {
        let count = count.to_string();
        let connect = ["--ca", text(&place.authority), "--connect", &listening.address];
        let arguments = [&["idle"], &connect[..], &["--connections", &count]].concat();
        Process::start(&client.program, &arguments, CLIENT_CORE, "open")
    };
    let _first = open(FIRST)?;
    let before = listening.settled_bytes()?;
    let _others = open(count)?;
    let after = listening.settled_bytes()?;
    Ok((after as f64 - before as f64) / count as f64)
}

fn rows(kept: &[(&Stack, f64)], count: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (server, ours) in kept {
        let Some(face) = server.face else { continue };
        for (peer, theirs) in kept.iter().filter(|(stack, _)| !stack.is_ours()) {
            rows.push(Row {
                case: format!("memory per idle connection, with {count} connections"),
                place: String::new(),
                face,
                peer: peer.name,
                unit: "bytes".to_owned(),
                values: [ours.round(), theirs.round()],
                ratio: Ratio::of(&[*ours], &[*theirs]),
                digits: 0,
                notes: Default::default(),
                more: Vec::new(),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::stacks::tests::peer;
    use super::*;

    #[test]
    fn every_face_is_beside_every_peer() {
        let stacks = Stacks::with_one_client(Path::new(""), &[peer("quinn"), peer("quic-go")]);
        // quic-go's server has failed.
        let kept: Vec<_> = stacks.servers.iter().zip([100.0, 200.0, 400.0]).collect();
        let rows = rows(&kept, 5);
        let found: Vec<_> = rows.iter().map(|row| (row.face, row.peer, row.ratio.median)).collect();
        assert_eq!(found, [("in the shard", "quinn", 0.25), ("async", "quinn", 0.5)]);
    }
}
