//! The instructions of one small HTTP/3 request with each API of the library, including its
//! sockets. They are measured for a whole program that answers or makes requests over loopback,
//! while the other endpoint runs without valgrind.
//!
//! A run with twice as many requests has the same startup, handshake and shutdown, so the
//! difference is due to the requests alone. The client makes requests in rounds
//! (`bench/src/rounds.rs`), so that their division into datagrams does not depend on the speed of
//! either endpoint. Timing-dependent events, such as a probe while a program waits for a CPU, can
//! only add instructions, so the minimum of three runs is used.

use std::path::PathBuf;
use std::process::Command;

use super::bounded::Bounded;
use super::{collected, valgrind};
use crate::command::{self, target};

/// Number of rounds in the shorter of two runs. The longer run has twice as many. The instructions of
/// the startup differ between two runs; over this many rounds, by less than 1 % of a request.
const ROUNDS: u64 = 240;
/// Number of requests per round.
const STREAMS: u64 = 16;
/// Number of repetitions of each run.
const RUNS: usize = 3;

/// The endpoint whose instructions are counted.
#[derive(Clone, Copy)]
enum Counted {
    /// The server, with the named API.
    Server(&'static str),
    Client,
}

/// One API of the library.
pub(super) struct Face {
    /// The name of this API's request in the file.
    pub(super) name: &'static str,
    counted: Counted,
}

/// All APIs whose requests are counted.
pub(super) const ALL: [Face; 3] = [
    Face { name: "answer a request of 1 KiB in the shard", counted: Counted::Server("shard") },
    Face { name: "answer a request of 1 KiB in a task", counted: Counted::Server("async") },
    Face { name: "make a request of 1 KiB", counted: Counted::Client },
];

/// The program that runs as both endpoints, and the server's certificate.
pub(super) struct Place {
    program: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Place {
    /// Creates a certificate.
    pub(super) fn new() -> Result<Self, String> {
        let folder = target().join("cost");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = target().join("gallery/clearway-bench");
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let mut make = Command::new(&program);
        make.arg("certificate").arg(&certificate).arg(&key);
        command::run("making a certificate", &mut make)?;
        Ok(Self { program, certificate, key })
    }

    /// Returns the number of instructions of one request. A short run and a long run are made at
    /// the same time, because most of each run is startup.
    pub(super) fn cost(&self, face: &Face) -> Result<u64, String> {
        let (mut short, mut long) = (u64::MAX, u64::MAX);
        for _ in 0..RUNS {
            let [of_short, of_long] = std::thread::scope(|scope| {
                let started = [ROUNDS, 2 * ROUNDS]
                    .map(|rounds| scope.spawn(move || self.count(face.counted, rounds)));
                started.map(|run| run.join().unwrap_or_else(|_| Err("a run panicked".to_owned())))
            });
            let wrong = |error| format!("{}: {error}", face.name);
            short = short.min(of_short.map_err(wrong)?);
            long = long.min(of_long.map_err(wrong)?);
        }
        Ok(long.saturating_sub(short) / (ROUNDS * STREAMS))
    }

    /// Returns the number of instructions executed by one endpoint of a connection with this many
    /// rounds.
    fn count(&self, counted: Counted, rounds: u64) -> Result<u64, String> {
        let (mut server, mut client) = match counted {
            Counted::Server(_) => (valgrind(&[], &self.program), Command::new(&self.program)),
            Counted::Client => (Command::new(&self.program), valgrind(&[], &self.program)),
        };
        let face = if let Counted::Server(face) = counted { face } else { "shard" };
        server.args(["server", "--attached", "--listen", "127.0.0.1:0", "--face", face]);
        server.arg("--cert").arg(&self.certificate).arg("--key").arg(&self.key);
        let mut server = Bounded::start(&mut server)?;
        let address = server.wait_for("listening")?;
        let (rounds, streams) = (rounds.to_string(), STREAMS.to_string());
        client.args(["rounds", "--connect", &address, "--rounds", &rounds, "--streams", &streams]);
        client.arg("--ca").arg(&self.certificate);
        let client = Bounded::start(&mut client)?.end()?;
        if !client.status.success() {
            return Err(format!("the client failed ({}):\n{}", client.status, client.errors));
        }
        // A server exits with an error status when its standard input closes.
        let server = server.end()?;
        collected(if matches!(counted, Counted::Client) { &client.errors } else { &server.errors })
    }
}
