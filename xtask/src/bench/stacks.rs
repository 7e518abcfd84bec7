//! The programs to compare.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, root, run as show, target};
use crate::options::positive;

/// The peers, in the order of the table columns.
pub(super) const PEERS: [&str; 4] = ["quinn", "tokio-quiche", "s2n-quic", "quic-go"];

/// Peers to compare Clearway with.
#[derive(clap::Args, Clone)]
pub(super) struct PeerOptions {
    /// Compare only with this peer; can be repeated
    #[arg(long = "peer", value_name = "NAME", value_parser = peer_named, default_values = PEERS)]
    pub(super) names: Vec<&'static str>,
}

/// Options of commands that compare pairs.
#[derive(clap::Args, Clone)]
pub(super) struct PairOptions {
    #[command(flatten)]
    pub(super) peers: PeerOptions,
    /// Number of runs of each case per pair
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = positive::<usize>())]
    pub(super) rounds: usize,
}

/// A program that can be a server or a client, with the arguments that select the role.
pub(super) struct Stack {
    pub(super) name: &'static str,
    /// The Clearway API that is used; `None` for a peer.
    pub(super) face: Option<&'static str>,
    pub(super) program: PathBuf,
    pub(super) arguments: &'static [&'static str],
}

impl Stack {
    /// Returns Clearway's stack.
    pub(super) fn ours(
        program: &Path,
        face: &'static str,
        arguments: &'static [&'static str],
    ) -> Self {
        Self { name: "clearway", face: Some(face), program: program.to_owned(), arguments }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.face.is_some()
    }

    /// Returns the stack's name, with the API if it has one.
    pub(super) fn title(&self) -> String {
        match self.face {
            Some(face) => format!("{}, {face}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// Clearway's program with each of its APIs, and the peers' programs.
pub(super) struct Stacks {
    pub(super) servers: Vec<Stack>,
    pub(super) clients: Vec<Stack>,
}

/// A Clearway API with the arguments that select it.
type Face = (&'static str, &'static [&'static str]);

const IN_THE_SHARD: Face = ("in the shard", &["--face", "shard"]);
const ASYNC: Face = ("async", &["--face", "async"]);

/// Busy polling time before each sleep, in microseconds, for the requests benchmark.
pub(super) const BUSY_POLL: &str = "100";

impl Stacks {
    /// Returns the stacks for commands that have only one Clearway client, which runs in tasks on
    /// its shard.
    pub(super) fn with_one_client(ours: &Path, peers: &[Peer]) -> Self {
        Self::new(ours, peers, [IN_THE_SHARD, ASYNC], &[("async", &[])])
    }

    /// Returns the stacks for commands with one Clearway client, with busy polling in Clearway's
    /// servers and clients.
    pub(super) fn with_busy_poll(ours: &Path, peers: &[Peer]) -> Self {
        let servers = [
            ("in the shard", ["--face", "shard", "--busy-poll", BUSY_POLL].as_slice()),
            ("async", &["--face", "async", "--busy-poll", BUSY_POLL]),
        ];
        Self::new(ours, peers, servers, &[("async", &["--busy-poll", BUSY_POLL])])
    }

    /// Returns the stacks for bulk transfers over HTTP/3.
    pub(super) fn http3(ours: &Path, peers: &[Peer]) -> Self {
        Self::new(ours, peers, [IN_THE_SHARD, ASYNC], &[ASYNC])
    }

    /// Returns the stacks for raw streams.
    pub(super) fn raw(ours: &Path, peers: &[Peer]) -> Self {
        Self::new(ours, peers, [IN_THE_SHARD, ASYNC], &[IN_THE_SHARD, ASYNC])
    }

    fn new(ours: &Path, peers: &[Peer], servers: [Face; 2], clients: &[Face]) -> Self {
        let all = |faces: &[Face]| {
            let ours = faces.iter().map(|(face, arguments)| Stack::ours(ours, face, arguments));
            let peers = peers.iter().map(|peer| Stack {
                name: peer.name,
                face: None,
                program: peer.program.clone(),
                arguments: &[],
            });
            ours.chain(peers).collect()
        };
        Self { servers: all(&servers), clients: all(clients) }
    }

    /// Returns whether to run this pair: Clearway with itself, a peer with itself, or Clearway with
    /// a peer. Two different APIs of Clearway are paired only if no client has the server's API, or
    /// if there is only one Clearway client.
    pub(super) fn is_pair(&self, server: &Stack, client: &Stack) -> bool {
        match (server.is_ours(), client.is_ours()) {
            (true, true) => {
                let has_same = self.clients.iter().any(|other| other.face == server.face);
                let are_all_met = self.clients.iter().filter(|other| other.is_ours()).count() > 1;
                client.face == server.face || !has_same || !are_all_met
            }
            (false, false) => server.name == client.name,
            _ => true,
        }
    }
}

/// A peer's program.
pub(super) struct Peer {
    pub(super) name: &'static str,
    program: PathBuf,
}

impl Peer {
    pub(super) fn program(&self) -> &Path {
        &self.program
    }
}

/// Builds Clearway's programs, and returns the path of the benchmark program.
pub(super) fn build() -> Result<PathBuf, String> {
    let mut build = command::build("dist", &["clearway-bench", "clearway"]);
    show("building the programs", &mut build)?;
    Ok(benchmark())
}

/// Returns the path of the benchmark program built by [`build`].
pub(super) fn benchmark() -> PathBuf {
    target().join("dist/clearway-bench")
}

/// Returns the path of the `clearway` program built by [`build`].
pub(super) fn clearway() -> PathBuf {
    target().join("dist/clearway")
}

/// Builds the programs of these peers. Peers whose tools are missing are skipped.
///
/// # Errors
/// Returns an error if no peer remains.
pub(super) fn build_peers(PeerOptions { names }: &PeerOptions) -> Result<Vec<Peer>, String> {
    let folder =
        std::env::var_os("PEERS_OUT").map_or_else(|| target().join("peers"), PathBuf::from);
    let mut build = Command::new("sh");
    build.arg(root().join("interop/peers/build.sh")).args(names).env("PEERS_OUT", &folder);
    // Standard output is reserved for results.
    build.stdout(std::io::stderr());
    show(&format!("building {}", names.join(", ")), &mut build)?;
    let built: Vec<Peer> = names
        .iter()
        .map(|name| Peer { name, program: folder.join(name) })
        .filter(|peer| peer.program.exists())
        .collect();
    if built.is_empty() {
        return Err("no peer was built; the reasons are shown above".to_owned());
    }
    Ok(built)
}

/// Returns the peer with this name.
fn peer_named(name: &str) -> Result<&'static str, String> {
    let peer = PEERS.into_iter().find(|peer| *peer == name);
    peer.ok_or_else(|| format!("unknown peer {name}: expected one of {}", PEERS.join(", ")))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a peer without a program.
    pub(in super::super) fn peer(name: &'static str) -> Peer {
        Peer { name, program: PathBuf::new() }
    }

    fn pairs(stacks: &Stacks) -> Vec<String> {
        let all = stacks.servers.iter().flat_map(|server| {
            let clients = stacks.clients.iter().filter(|client| stacks.is_pair(server, client));
            clients.map(|client| format!("{} > {}", client.title(), server.title()))
        });
        all.collect()
    }

    #[test]
    fn peers_do_not_meet_each_other() {
        let peers = [peer("quinn"), peer("quic-go")];
        let expected = [
            "clearway, async > clearway, in the shard",
            "quinn > clearway, in the shard",
            "quic-go > clearway, in the shard",
            "clearway, async > clearway, async",
            "quinn > clearway, async",
            "quic-go > clearway, async",
            "clearway, async > quinn",
            "quinn > quinn",
            "clearway, async > quic-go",
            "quic-go > quic-go",
        ];
        assert_eq!(pairs(&Stacks::http3(Path::new(""), &peers)), expected);
    }

    #[test]
    fn faces_of_raw_streams_meet_themselves() {
        let expected = [
            "clearway, in the shard > clearway, in the shard",
            "quinn > clearway, in the shard",
            "clearway, async > clearway, async",
            "quinn > clearway, async",
            "clearway, in the shard > quinn",
            "clearway, async > quinn",
            "quinn > quinn",
        ];
        assert_eq!(pairs(&Stacks::raw(Path::new(""), &[peer("quinn")])), expected);
    }
}
