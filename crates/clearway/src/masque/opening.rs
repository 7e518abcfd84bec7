//! The client's request for a tunnel of any kind.

use clearway_masque::request::{self, Form};
use clearway_masque::target::Values;
use clearway_masque::template::{ExpandError, UriTemplate};
use http::{HeaderMap, Request, Response};

use super::TunnelError;
use crate::http3::{Client, Datagrams, RecvBody, SendBody};

/// The exchange of a tunnel that the proxy has opened.
pub(super) struct Opened {
    pub(super) send: SendBody,
    pub(super) body: RecvBody,
    pub(super) datagrams: Datagrams,
}

/// Requests a tunnel with extended CONNECT (RFC 9220).
pub(super) async fn extended(
    client: &Client,
    template: &UriTemplate,
    values: &Values,
    fields: HeaderMap,
) -> Result<Opened, TunnelError> {
    open(client, Form::Extended, request::extended_connect(template, values), fields).await
}

/// Sends a request, with additional header fields, and waits until the proxy accepts the tunnel.
pub(super) async fn open(
    client: &Client,
    form: Form,
    request: Result<Request<()>, ExpandError>,
    fields: HeaderMap,
) -> Result<Opened, TunnelError> {
    let mut request = request.map_err(TunnelError::Template)?;
    request.headers_mut().extend(fields);
    let (send, pending) = client.open(request)?;
    let datagrams = pending.datagrams();
    let (response, body) = pending.response().await?.into_parts();
    let response = Response::from_parts(response, ());
    request::check_response(form, &response).map_err(TunnelError::Refused)?;
    Ok(Opened { send, body, datagrams })
}
