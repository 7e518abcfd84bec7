//! Failures that have been investigated, and the endpoint at fault for each.

use super::rows::Pair;
use super::servers::Server;
use super::test::{Client, Test};

/// The endpoint at fault for a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Ours,
    Peers,
    Unknown,
}

impl Owner {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peers => "the peer's",
            Self::Unknown => "unknown",
        }
    }
}

/// A known failure, recognized by a part of its text.
struct Known {
    pairs: &'static [(Client, Server)],
    test: Test,
    text: &'static str,
    owner: Owner,
    why: &'static str,
}

const KNOWN: [Known; 6] = [
    Known {
        pairs: &[(Client::Chromium, Server::Serve), (Client::Chromium, Server::Library)],
        test: Test::EarlyAnswer,
        text: "no answer in",
        owner: Owner::Peers,
        why: "Chromium ignores a response that arrives with STOP_SENDING (NO_ERROR) before the \
            request is complete, contrary to RFC 9114 section 4.1; the servers here send it after \
            8 MiB",
    },
    Known {
        pairs: &[(Client::Get, Server::Caddy)],
        test: Test::Version2,
        text: "idle timeout",
        owner: Owner::Peers,
        why: "quic-go updates its keys after 100 packets, and in version 2 derives the next keys \
            with the label of version 1, contrary to RFC 9369 section 3.3.2",
    },
    Known {
        pairs: &[(Client::Library, Server::Haproxy)],
        test: Test::MtuDrop,
        text: "Reset(0x0)",
        owner: Owner::Peers,
        why: "HAProxy never sends datagrams of less than 1,252 bytes when it has more to send",
    },
    Known {
        pairs: &[(Client::Get, Server::Haproxy), (Client::Library, Server::Haproxy)],
        test: Test::MtuDrop,
        text: "not finished",
        owner: Owner::Peers,
        why: "HAProxy never sends datagrams of less than 1,252 bytes when it has more to send",
    },
    Known {
        pairs: &[(Client::Get, Server::Caddy), (Client::Library, Server::Caddy)],
        test: Test::MtuDrop,
        text: "not finished",
        owner: Owner::Peers,
        why: "quic-go never sends datagrams of less than 1,280 bytes when it has more to send",
    },
    Known {
        pairs: &[(Client::Get, Server::Haproxy), (Client::Library, Server::Haproxy)],
        test: Test::EarlyData,
        text: "early data",
        owner: Owner::Peers,
        why: "HAProxy does not accept early data from curl either",
    },
];

/// Returns which endpoint is at fault for a failure that has been investigated, and why.
pub(crate) fn known(pair: Pair, test: Test, text: &str) -> Option<(Owner, &'static str)> {
    let known = KNOWN.iter().find(|known| {
        let is_pair = known.pairs.contains(&(pair.client, pair.server));
        is_pair && known.test == test && text.contains(known.text)
    })?;
    Some((known.owner, known.why))
}
