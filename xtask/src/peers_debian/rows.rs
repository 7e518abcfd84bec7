//! The client and server pairs that run the tests.

use super::Bench;
use super::problem::Problem;
use super::servers::Server;
use super::test::{Client, Test};
use super::{browsers, curl, get, library};

/// A client and server pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub(crate) client: Client,
    pub(crate) server: Server,
}

impl Pair {
    /// Returns all pairs: each peer with Clearway in the other role, and curl with the other peers,
    /// which helps to find the endpoint at fault.
    pub(crate) fn all() -> Vec<Self> {
        let with = |clients: &[Client], servers: &[Server]| {
            let pairs = clients
                .iter()
                .flat_map(|&client| servers.iter().map(move |&server| Self { client, server }));
            pairs.collect::<Vec<_>>()
        };
        let peers = [Server::Nginx, Server::Haproxy, Server::Caddy];
        let ours = [Server::Serve, Server::Library];
        let mut pairs = with(&[Client::Curl, Client::Chromium, Client::Firefox], &ours);
        pairs.extend(with(&[Client::Get, Client::Library], &peers));
        pairs.extend(with(&[Client::Curl], &peers));
        pairs
    }

    pub(crate) fn name(self) -> String {
        format!("{}-{}", self.client.name(), self.server.name())
    }

    /// Returns whether neither endpoint is Clearway.
    pub(crate) fn is_control(self) -> bool {
        !self.server.is_ours() && self.client == Client::Curl
    }

    /// Runs a test with this pair.
    pub(crate) fn run(self, test: Test, bench: &Bench) -> Result<(), Problem> {
        bench.files.clear()?;
        match self.client {
            Client::Curl => curl::run(test, self.server, bench),
            Client::Chromium | Client::Firefox => {
                browsers::run(self.client, test, self.server, bench)
            }
            Client::Get => get::run(test, self.server, bench),
            Client::Library => library::run(test, self.server, bench),
        }
    }
}
