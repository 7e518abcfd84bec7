//! Serving files over HTTP/3.

use std::net::SocketAddr;
use std::time::Instant;

use clearway::http3::{RecvBody, Responder, Server};
use http::Request;

use super::answer::answer;
use super::files::Files;
use super::{AccessLog, cannot_serve};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use clearway::ServerConfig;

/// A server that listens.
pub(super) struct Http3(Server);

impl Http3 {
    pub(super) fn bind(listen: SocketAddr, config: ServerConfig) -> Result<Self, Failure> {
        let server = Server::bind(listen, config);
        server.map(Self).map_err(|error| cannot_serve(listen, error))
    }

    pub(super) fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }

    /// Serves until the program is interrupted, and then answers what has been asked.
    pub(super) async fn run(self, files: Files, log: AccessLog, mut interrupt: Interrupt) {
        let server = &self.0;
        let serving = async {
            while let Some((request, responder)) = server.accept().await {
                tokio::spawn(respond(files.clone(), log, request, responder));
            }
        };
        let ending = async {
            interrupt.heard().await;
            tokio::select! {
                () = server.shutdown() => {}
                // Whoever asks twice does not want to wait.
                _ = interrupt.heard() => {}
            }
        };
        tokio::select! {
            () = ending => {}
            () = serving => {}
        }
    }
}

async fn respond(
    files: Files,
    log: AccessLog,
    request: Request<RecvBody>,
    mut responder: Responder,
) {
    let start = Instant::now();
    let client = responder.remote_address();
    let (parts, _body) = request.into_parts();
    let path = parts.uri.path();
    let answer = tokio::select! {
        answer = answer(&files, &parts.method, path, &parts.headers) => answer,
        _ = responder.cancelled() => return,
    };
    let status = answer.response.status().as_u16();
    let outcome = responder.respond(answer.response).await;
    let outcome = outcome.map(|()| answer.length).map_err(|error| error.to_string());
    log.line(client, parts.method.as_str(), path, status, outcome, start.elapsed());
}
