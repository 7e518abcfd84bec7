//! The tests that each peer supports, according to its own programs for the public runner (which
//! exit with 127 for unsupported tests), its documentation or its source code.

use std::fmt::Write;

use crate::catalogue::TESTS;
use crate::stack::Stack;

/// The tests that a peer does not support in each role, and where that is documented.
struct Support {
    stack: Stack,
    source: &'static str,
    /// The letters of unsupported tests, each with the reason.
    client: &'static [(&'static str, &'static str)],
    server: &'static [(&'static str, &'static str)],
    /// The tests that the version in `peers/` fails with every other endpoint without exiting with
    /// status 127. As in the public matrix, such tests count as not supported.
    client_fails: &'static [Failure],
    server_fails: &'static [Failure],
}

/// How a peer is known to fail a test.
struct Failure {
    letter: &'static str,
    /// A part of the error message from the check or from the other endpoint. If the message is
    /// different, Clearway is at fault.
    shows: &'static str,
    /// The peer's version, and the reason for the failure.
    reason: &'static str,
}

const fn failure(letter: &'static str, shows: &'static str, reason: &'static str) -> Failure {
    Failure { letter, shows, reason }
}

const NEVER: &[Failure] = &[];
/// The client finishes its downloads, but neither endpoint has used a path other than that of the
/// handshake.
const ONE_PATH: &str = "the server used a single path";
/// The error message of Clearway's client after an incomplete handshake.
const NO_RESPONSE: &str = "no response from server";

const NO_V2: (&str, &str) = ("V2", "version 1 only");
const NO_PREFERRED: (&str, &str) = ("CM", "no preferred address");
const NO_ECN: (&str, &str) = ("E", "its program exits with 127");

/// tokio-quiche as a server stalls after the second rebinding.
const STALLS: &str = "0.20.1 sends to the old address after the second rebinding, with every client, including its \
     own";
/// quinn as a server does not retransmit Initial packets: Connection::poll_transmit skips the
/// Initial space while the congestion window is full, and the probes are sent in the Handshake
/// space, which has packets in flight.
const WINDOW_FULL: &str = "0.11.12 (quinn-proto 0.11.19) does not retransmit the rest of its \
    ServerHello while Handshake packets fill its congestion window, also with quic-go as client";

const SUPPORT: [Support; 5] = [
    Support {
        stack: Stack::Quinn,
        source: "github.com/quinn-rs/quinn-interop (exit 127), quinn::ServerConfig::preferred_address_v4",
        client: &[NO_V2],
        server: &[NO_V2],
        client_fails: &[failure(
            "CM",
            ONE_PATH,
            "0.11.12 (quinn-proto 0.11.19) uses only the connection ID of a preferred address \
             (Connection::set_peer_params)",
        )],
        server_fails: &[
            failure(
                "CM",
                ONE_PATH,
                "0.11.12 (quinn-proto 0.11.19) always sends from the address of the client's \
                 first packet (Connection::local_ip is set once)",
            ),
            failure("L1", NO_RESPONSE, WINDOW_FULL),
            failure("C1", NO_RESPONSE, WINDOW_FULL),
        ],
    },
    Support {
        stack: Stack::TokioQuiche,
        source: "tools/qns/run_endpoint.sh in github.com/cloudflare/quiche (exit 127), QuicSettings::enable_early_data",
        client: &[
            ("C20", "cannot choose cipher suites"),
            ("Z", "0-RTT for servers only"),
            ("U", "cannot start a key update"),
            NO_ECN,
            NO_V2,
        ],
        server: &[NO_ECN, NO_V2, NO_PREFERRED],
        client_fails: &[failure(
            "CM",
            ONE_PATH,
            "0.20.1 (quiche 0.30.0) ignores the transport parameter preferred_address \
             (transport_params.rs)",
        )],
        server_fails: &[
            failure(
                "Z",
                "bytes in 1-RTT packets",
                "0.20.1 discards 0-RTT packets to the client's first connection ID, which it \
                 forgets when it accepts the first of them (quic/io/worker.rs)",
            ),
            failure("BP", "", STALLS),
            failure("BA", "", STALLS),
        ],
    },
    Support {
        stack: Stack::S2nQuic,
        source: "quic/s2n-quic-qns in github.com/aws/s2n-quic (exit 127)",
        client: &[
            ("C20", "cannot choose cipher suites"),
            ("R", "does not store session tickets"),
            ("Z", "no 0-RTT"),
            ("3", "its HTTP/3 adapter is not published"),
            ("U", "cannot start a key update"),
            NO_V2,
        ],
        server: &[("Z", "no 0-RTT"), ("3", "its HTTP/3 adapter is not published"), NO_V2],
        client_fails: &[failure(
            "CM",
            ONE_PATH,
            "1.91.0 (s2n-quic-transport 0.91.0) does not support client migration",
        )],
        server_fails: &[failure(
            "CM",
            ONE_PATH,
            "1.91.0 has no setting for a preferred address (ServerTransportParameters::preferred_address stays empty)",
        )],
    },
    Support {
        stack: Stack::QuicGo,
        source: "interop/client and interop/server of the module github.com/quic-go/quic-go (exit 127)",
        client: &[NO_ECN, ("V2", "its program exits with 127")],
        server: &[NO_ECN, ("V2", "its program exits with 127"), NO_PREFERRED],
        client_fails: &[failure(
            "CM",
            ONE_PATH,
            "0.65.0 uses only the connection ID of a preferred address (connIDManager.AddFromPreferredAddress)",
        )],
        server_fails: NEVER,
    },
    Support {
        stack: Stack::Aioquic,
        source: "github.com/aiortc/aioquic: README (RFC 9000, 9369); its sockets do not use ECN",
        client: &[("E", "no ECN")],
        server: &[("E", "no ECN"), NO_PREFERRED],
        client_fails: NEVER,
        server_fails: NEVER,
    },
];

/// Describes the tests that the peers support.
pub(crate) fn describe(peers: &[Stack]) -> String {
    let mut text = String::new();
    for support in SUPPORT.iter().filter(|it| peers.contains(&it.stack)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{} supports, according to {}:", support.stack, support.source);
        let roles = [
            ("client", support.client, support.client_fails),
            ("server", support.server, support.server_fails),
        ];
        for (role, missing, fails) in roles {
            let fails = fails.iter().map(|it| (it.letter, it.reason));
            let missing: Vec<(&str, &str)> = missing.iter().copied().chain(fails).collect();
            let supported = TESTS.iter().filter(|test| !test.is_measurement()).map(|it| it.letter);
            let supported: Vec<&str> =
                supported.filter(|it| missing.iter().all(|(letter, _)| *letter != *it)).collect();
            let missing: Vec<String> =
                missing.iter().map(|(letter, why)| format!("{letter}: {why}")).collect();
            let _ = writeln!(text, "  {role} {:>2}  {}", supported.len(), supported.join(" "));
            let _ = writeln!(text, "            not {}", missing.join("; "));
        }
    }
    text
}

/// Returns why the peer is at fault for the failure described by `detail`, if the peer is known to
/// fail this test in the same way with every other endpoint.
pub(crate) fn known_failure(
    client: Stack,
    server: Stack,
    letter: &str,
    detail: &str,
) -> Option<String> {
    let of = |stack: Stack| SUPPORT.iter().find(move |support| support.stack == stack);
    let client = of(client).map(|support| (support.stack, support.client_fails));
    let server = of(server).map(|support| (support.stack, support.server_fails));
    client.into_iter().chain(server).find_map(|(stack, fails)| {
        let known = fails.iter().find(|it| it.letter == letter && detail.contains(it.shows))?;
        Some(format!("{stack} {}", known.reason))
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::catalogue::find;

    #[test]
    fn only_tests_of_the_catalogue_are_named() {
        for support in &SUPPORT {
            let fails = support.client_fails.iter().chain(support.server_fails);
            let fails = fails.map(|it| (it.letter, it.reason));
            let missing = support.client.iter().chain(support.server).copied();
            for (letter, why) in missing.chain(fails) {
                assert!(find(letter).is_some() && !why.is_empty(), "{}: {letter}", support.stack);
            }
        }
    }

    /// The reason for a known failure states the failing version, which must be the one in
    /// `peers/`.
    #[test]
    fn known_failures_are_those_of_the_versions_in_use() {
        let peers = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for support in &SUPPORT {
            let name = support.stack.name();
            let read = |file: &str| std::fs::read_to_string(peers.join(name).join(file));
            let lock = ["Cargo.lock", "go.mod", "requirements.txt"].map(read);
            let lock: String = lock.into_iter().flatten().collect();
            for failure in support.client_fails.iter().chain(support.server_fails) {
                let version = failure.reason.split_whitespace().next().unwrap();
                let pinned = [
                    format!("name = \"{name}\"\nversion = \"{version}\""),
                    format!("/{name} v{version}\n"),
                    format!("{name}=={version}\n"),
                ];
                assert!(pinned.iter().any(|it| lock.contains(it)), "{name} {version}");
            }
        }
    }

    #[test]
    fn a_failure_is_the_peer_s_only_if_it_looks_like_it() {
        let (ours, quinn) = (Stack::Clearway, Stack::Quinn);
        let known =
            known_failure(ours, quinn, "CM", "the server used a single path (records in x)");
        assert!(known.is_some_and(|why| why.starts_with("quinn 0.11.12")), "server");
        let known = known_failure(quinn, ours, "CM", "the server used a single path");
        assert!(known.is_some_and(|why| why.contains("set_peer_params")), "client");
        for (client, letter, detail) in [
            (ours, "CM", "the client of clearway ended with exit status: 1: idle timeout"),
            (ours, "BP", "the server used a single path"),
            (Stack::Aioquic, "L1", "49 handshakes instead of 50"),
        ] {
            assert_eq!(known_failure(client, quinn, letter, detail), None, "{client} {letter}");
        }
        assert_eq!(known_failure(ours, ours, "CM", "the server used a single path"), None);
    }

    #[test]
    fn every_peer_is_described() {
        let text = describe(Stack::value_variants());
        for stack in Stack::value_variants().iter().filter(|stack| **stack != Stack::Clearway) {
            assert!(text.contains(&format!("{stack} supports")), "{text}");
        }
    }
}
