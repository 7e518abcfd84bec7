//! Which tests each peer supports, from its own programs for the public runner, which end with 127 for the others, or
//! from its documentation.

use std::fmt::Write;

use crate::catalogue::TESTS;
use crate::stack::Stack;

/// What a peer does not support, by role, and where that is written.
struct Support {
    stack: Stack,
    source: &'static str,
    /// Letters, each with the reason.
    client: &'static [(&'static str, &'static str)],
    server: &'static [(&'static str, &'static str)],
    /// What its server fails with every client, its own, too. As in the public matrix, that counts as not supported.
    fails: &'static [(&'static str, &'static str)],
}

const NEVER: &[(&str, &str)] = &[];
const STALLS: &str =
    "0.20.1 sends to the old address after the second rebinding, whatever the client, its own, too";

const NO_V2: (&str, &str) = ("V2", "version 1 only");
const NO_MIGRATION: (&str, &str) = ("CM", "does not migrate");
const NO_PREFERRED: (&str, &str) = ("CM", "no preferred address");
const NO_ECN: (&str, &str) = ("E", "its program ends with 127");

const SUPPORT: [Support; 5] = [
    Support {
        stack: Stack::Quinn,
        source: "github.com/quinn-rs/quinn-interop (exit 127), quinn::ServerConfig::preferred_address_v6",
        client: &[NO_V2, NO_MIGRATION],
        server: &[NO_V2],
        fails: NEVER,
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
            NO_MIGRATION,
        ],
        server: &[NO_ECN, NO_V2, NO_PREFERRED],
        fails: &[("BP", STALLS), ("BA", STALLS)],
    },
    Support {
        stack: Stack::S2nQuic,
        source: "quic/s2n-quic-qns in github.com/aws/s2n-quic (exit 127)",
        client: &[
            ("C20", "cannot choose cipher suites"),
            ("R", "does not keep tickets"),
            ("Z", "no 0-RTT"),
            ("3", "its adapter for HTTP/3 is not in a registry"),
            ("U", "cannot start a key update"),
            NO_V2,
            NO_MIGRATION,
        ],
        server: &[("Z", "no 0-RTT"), ("3", "its adapter for HTTP/3 is not in a registry"), NO_V2],
        fails: NEVER,
    },
    Support {
        stack: Stack::QuicGo,
        source: "interop/client and interop/server of the module github.com/quic-go/quic-go (exit 127)",
        client: &[NO_ECN, ("V2", "its program ends with 127"), NO_MIGRATION],
        server: &[NO_ECN, ("V2", "its program ends with 127"), NO_PREFERRED],
        fails: NEVER,
    },
    Support {
        stack: Stack::Aioquic,
        source: "github.com/aiortc/aioquic: README (RFC 9000, 9369), no ECN field on its sockets",
        client: &[("E", "no ECN")],
        server: &[("E", "no ECN"), NO_PREFERRED],
        fails: NEVER,
    },
];

/// Describes the peers.
pub(crate) fn describe(peers: &[Stack]) -> String {
    let mut text = String::new();
    for support in SUPPORT.iter().filter(|it| peers.contains(&it.stack)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{} supports, according to {}:", support.stack, support.source);
        let server = [support.server, support.fails].concat();
        for (role, missing) in [("client", support.client), ("server", &server)] {
            let supported = TESTS.iter().filter(|test| !test.is_measurement()).map(|it| it.letter);
            let supported: Vec<&str> =
                supported.filter(|it| missing.iter().all(|(letter, _)| letter != it)).collect();
            let missing: Vec<String> =
                missing.iter().map(|(letter, why)| format!("{letter}: {why}")).collect();
            let _ = writeln!(text, "  {role} {:>2}  {}", supported.len(), supported.join(" "));
            let _ = writeln!(text, "            not {}", missing.join("; "));
        }
    }
    text
}

/// Why a failure of a server in a test is that of the server with every client, if it is.
pub(crate) fn fails_always(server: Stack, letter: &str) -> Option<&'static str> {
    let support = SUPPORT.iter().find(|support| support.stack == server)?;
    support.fails.iter().find(|(it, _)| *it == letter).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;

    #[test]
    fn only_tests_of_the_catalogue_are_named() {
        for support in &SUPPORT {
            for (letter, why) in support.client.iter().chain(support.server).chain(support.fails) {
                assert!(find(letter).is_some() && !why.is_empty(), "{}: {letter}", support.stack);
            }
        }
    }

    #[test]
    fn every_peer_is_described() {
        let text = describe(&Stack::ALL);
        for stack in Stack::ALL.iter().filter(|stack| **stack != Stack::Clearway) {
            assert!(text.contains(&format!("{stack} supports")), "{text}");
        }
    }
}
