//! Serving files over HTTP/3.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;

use clearway::http3::{Code, Config, Protocol, RecvBody, Responder, Server, Timeouts};
use http::{Request, Response};

use super::answer::{Content, answer, misdirected};
use super::answering::{AllAnswered, Answering};
use super::authority::Authorities;
use super::files::Files;
use super::metrics::Requests;
use super::restart::Ending;
use super::store::PIECE;
use super::tunnel::{Tunnel, echo};
use super::{AccessLog, cannot_serve};
use crate::failure::Failure;
use clearway::{Endpoint, ServerConfig};

/// A listening HTTP/3 server.
pub(super) struct Http3(Server);

impl Http3 {
    pub(super) fn bind(
        listen: SocketAddr,
        config: ServerConfig,
        http3: Config,
        timeouts: Timeouts,
    ) -> Result<Self, Failure> {
        let server = Server::bind_with(listen, config, http3)
            .map_err(|error| cannot_serve(listen, error))?;
        Ok(Self(server.with_timeouts(timeouts)))
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.0.endpoint()
    }

    /// Serves until the program is interrupted or replaced, and then completes the requests in
    /// progress, within the time limit.
    pub(super) async fn run(self, site: Site, mut ending: Ending, mut all_answered: AllAnswered) {
        let server = &self.0;
        let serving = self.serve(site);
        let mut ending = pin!(async {
            let cause = ending.begin(server.endpoint()).await;
            let shutdown = async {
                server.shutdown().await;
                all_answered.wait().await;
            };
            ending.complete(cause, shutdown).await;
        });
        tokio::select! {
            () = &mut ending => {}
            // When the last connection ends, both futures complete. The output must not depend on
            // which of them is polled first.
            () = serving => if server.endpoint().failure().is_none() {
                ending.await;
            },
        }
    }
}

impl Http3 {
    /// Serves requests while clients can connect.
    pub(super) async fn serve(&self, site: Site) {
        while let Some((request, responder)) = self.0.accept().await {
            tokio::spawn(respond(site.clone(), request, responder));
        }
    }
}

/// The files and settings from which responses are created, and the logs and counters of requests.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) files: Files,
    pub(super) authorities: Authorities,
    pub(super) log: AccessLog,
    pub(super) requests: Requests,
    pub(super) _answering: Answering,
}

async fn respond(site: Site, request: Request<RecvBody>, mut responder: Responder) {
    // The rest of `site` is held until the end.
    let Site { files, authorities, log, requests, .. } = site;
    let counted = requests.begin();
    let start = counted.begun;
    let Some(client) = responder.remote_address() else { return };
    let (parts, body) = request.into_parts();
    let is_ours = authorities.include(&parts.uri, responder.server_name());
    if is_ours && let Some(protocol) = parts.extensions.get::<Protocol>() {
        let Tunnel { status, outcome } = echo(protocol, body, responder).await;
        counted.answered(status);
        let path = parts.uri.path();
        return log.line(Some(client), "CONNECT", path, status, outcome, start.elapsed());
    }
    let answer = match is_ours {
        false => misdirected(),
        true => tokio::select! {
            answer = answer(&files, client, &parts.method, &parts.uri, &parts.headers) => answer,
            _ = responder.cancelled() => return,
        },
    };
    let path = parts.uri.path();
    if let Some(problem) = &answer.problem {
        log.problem(path, problem);
    }
    let status = answer.response.status().as_u16();
    // The request is counted before the response is sent, so that it is already counted when the
    // client receives the response.
    counted.answered(status);
    // Content in the request has no meaning here. The library reads and discards it, since some
    // clients do not read the response earlier.
    drop(body);
    let outcome = send(responder, answer.response, || shortage(log, client, path))
        .await
        .map(|()| answer.length)
        .map_err(|error| error.to_string());
    log.line(Some(client), parts.method.as_str(), path, status, outcome, start.elapsed());
}

/// Returns the callback for a response that is reset because memory is low.
fn shortage(log: AccessLog, client: SocketAddr, path: &str) -> impl FnOnce() + Send + 'static {
    let path = path.to_owned();
    move || log.problem(&path, &format!("reset because memory is low and {client} accepts no data"))
}

/// Sends a response. Its file is read only as fast as the client accepts the data. `shortage`
/// creates the callback for a reset because memory is low.
async fn send<F: FnOnce() + Send + 'static>(
    responder: Responder,
    response: Response<Content>,
    shortage: impl FnOnce() -> F,
) -> Result<(), SendFailure> {
    let (parts, content) = response.into_parts();
    let mut reader = match content {
        Content::Body(body) => {
            return Ok(responder.respond(Response::from_parts(parts, body)).await?);
        }
        Content::File(reader) => reader,
    };
    let mut send = responder.start(Response::from_parts(parts, ()));
    if let Some(abort) = send.abort_handle() {
        let shortage = shortage();
        reader.on_shortage(move || {
            shortage();
            abort.abort(Code::EXCESSIVE_LOAD);
        });
    }
    while !reader.is_at_end() {
        let credit = send.credit(PIECE).await?;
        match reader.next(credit).await {
            Ok(piece) => send.write_chunk(piece).await?,
            Err(error) => {
                // A partial file must not look complete.
                send.reset(Code::INTERNAL_ERROR);
                return Err(SendFailure::File(error));
            }
        }
    }
    Ok(send.finish().await?)
}

/// The reason that a response is incomplete.
#[derive(Debug)]
enum SendFailure {
    File(std::io::Error),
    Http3(clearway::http3::Error),
}

impl From<clearway::http3::Error> for SendFailure {
    fn from(error: clearway::http3::Error) -> Self {
        Self::Http3(error)
    }
}

impl fmt::Display for SendFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(formatter),
            Self::Http3(error) => error.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clearway::http3::{Client, Error, PROTOCOL};
    use clearway::{ClientConfig, Endpoint};
    use http::StatusCode;

    use super::super::answering::answering;
    use super::super::authority::AuthorityOptions;
    use super::super::store::Store;
    use super::*;
    use crate::certificate::Development;

    /// Sends a request with content to a server that does not need it. Returns the result of
    /// sending the content, and the status of the response.
    async fn post(folder: &str, megabytes: usize) -> (Result<(), Error>, StatusCode) {
        let folder = std::env::temp_dir().join(format!("clearway-{folder}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Files::new(&folder, false, Store::new(10, 1 << 20)).unwrap();
        let identity = Development::generate().unwrap().identity;
        let any = "127.0.0.1:0".parse().unwrap();
        let second = std::time::Duration::from_secs(100);
        let timeouts = Timeouts { request: second, send: second };
        let certificates = std::sync::Arc::new(clearway::Certificates::new([identity]).unwrap());
        let authorities = AuthorityOptions::default().authorities(certificates.clone());
        let config = ServerConfig::with_resolver(certificates);
        let server = Http3::bind(any, config, Config::default(), timeouts).unwrap();
        let address = server.endpoint().local_address();
        let log = AccessLog::new(true);
        let site =
            Site { files, authorities, log, requests: Requests::new(), _answering: answering().0 };
        tokio::spawn(async move {
            while let Some((request, responder)) = server.0.accept().await {
                tokio::spawn(respond(site.clone(), request, responder));
            }
        });
        let config = ClientConfig::dangerous_without_certificate_verification();
        let config = config.application_protocols([PROTOCOL]);
        let endpoint = Endpoint::client(any).unwrap();
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        let request = Request::post("https://localhost/").body(()).unwrap();
        let (mut send, response) = client.open(request).unwrap();
        let sending = async {
            for _ in 0..megabytes {
                send.write_chunk(vec![0; 1_000_000]).await?;
            }
            send.finish().await
        };
        let (sent, response) = tokio::join!(sending, response.response());
        fs::remove_dir_all(&folder).unwrap();
        (sent, response.unwrap().status())
    }

    #[test]
    fn a_failure_is_displayed_as_its_cause() {
        let file = SendFailure::File(std::io::Error::other("the file was truncated"));
        assert_eq!(file.to_string(), "the file was truncated");
        let error = Error::Stopped(Code::NO_ERROR);
        assert_eq!(SendFailure::from(error.clone()).to_string(), error.to_string());
    }

    #[tokio::test]
    async fn the_content_of_a_refused_request_is_read() {
        let (sent, status) = post("taken", 1).await;
        assert!(sent.is_ok(), "{sent:?}");
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }

    #[tokio::test]
    async fn a_client_that_sends_too_much_gets_stop_sending_and_the_response() {
        // This is more than all flow control windows allow a client to send before it
        // receives STOP_SENDING.
        let (sent, status) = post("stopped", 100).await;
        assert!(matches!(sent, Err(Error::Stopped(Code::NO_ERROR))), "{sent:?}");
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
}
