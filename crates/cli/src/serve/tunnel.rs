//! Tunnels (extended CONNECT, RFC 9220) that echo what they receive.

use bytes::Bytes;
use clearway::http3::{Body, Datagrams, Error, Protocol, RecvBody, Responder, SendBody};
use http::{Response, StatusCode};

/// The only supported protocol.
const ECHO: &str = "echo";

/// The outcome of a tunnel, for the log.
pub(super) struct Tunnel {
    pub(super) status: u16,
    /// Number of echoed bytes of content and datagrams, or the reason that the tunnel was aborted.
    pub(super) outcome: Result<u64, String>,
}

/// Responds to a request for a tunnel, and serves the tunnel until it ends. Protocols other than
/// "echo" are answered with 501 (RFC 9220 §3).
pub(super) async fn echo(protocol: &Protocol, body: RecvBody, responder: Responder) -> Tunnel {
    if protocol.as_str() != ECHO {
        let status = StatusCode::NOT_IMPLEMENTED;
        let response = Response::builder().status(status).body(Body::empty());
        let sent = match response {
            Ok(response) => responder.respond(response).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        return Tunnel { status: status.as_u16(), outcome: sent.map(|()| 0) };
    }
    let datagrams = body.datagrams();
    let send = responder.start(Response::new(()));
    let (content, datagrams) = tokio::join!(content(body, send), reflect(datagrams));
    let outcome = content.map(|bytes| bytes.saturating_add(datagrams));
    Tunnel { status: StatusCode::OK.as_u16(), outcome: outcome.map_err(|error| error.to_string()) }
}

/// Echoes content until it ends.
async fn content(mut body: RecvBody, mut send: SendBody) -> Result<u64, Error> {
    let mut bytes = 0u64;
    while let Some(chunk) = body.chunk().await {
        let chunk: Bytes = chunk?;
        bytes = bytes.saturating_add(chunk.len() as u64);
        send.write_chunk(chunk).await?;
    }
    send.finish().await?;
    Ok(bytes)
}

/// Echoes datagrams until the client closes its direction of the tunnel. Datagrams that cannot be
/// sent are dropped, which is allowed.
async fn reflect(mut datagrams: Datagrams) -> u64 {
    let mut bytes = 0u64;
    while let Some(Ok(payload)) = datagrams.receive().await {
        bytes = bytes.saturating_add(payload.len() as u64);
        let _ = datagrams.send(payload);
    }
    bytes
}
