//! The proxy side: checks of requests, and responses.

use clearway_http3::Protocol;
use http::{Method, Request, Response, StatusCode};

use super::{CAPSULE_PROTOCOL, PROXY_STATUS, RequestError, TRUE, forbidden_field};
use crate::auth::Challenge;
use crate::kind::TunnelKind;
use crate::proxy_status::ProxyStatus;
use crate::target::{Target, Values};
use crate::template::UriTemplate;

/// The form of a CONNECT request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// CONNECT with only an authority (RFC 9114 §4.4). The content is a byte stream.
    Classic,
    /// Extended CONNECT (RFC 9220). The content is a sequence of capsules.
    Extended,
}

/// A valid request for a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelRequest {
    /// The kind of the tunnel.
    pub kind: TunnelKind,
    /// The form of the request.
    pub form: Form,
    /// The target or scope.
    pub destination: Values,
}

impl TunnelRequest {
    /// Checks a request and reads its destination. Extended CONNECT requests must match one of the
    /// proxy's templates; their authority is not compared.
    ///
    /// # Errors
    /// The reason why the request is not for a tunnel of this proxy.
    pub fn parse<'a>(
        request: &Request<()>,
        templates: impl IntoIterator<Item = &'a UriTemplate>,
    ) -> Result<Self, RequestError> {
        if request.method() != Method::CONNECT {
            return Err(RequestError::NotConnect);
        }
        let uri = request.uri();
        let Some(protocol) = request.extensions().get::<Protocol>() else {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            let destination = Values::Target(Target::from_authority(authority)?);
            return Ok(Self { kind: TunnelKind::Tcp, form: Form::Classic, destination });
        };
        let kind = TunnelKind::from_upgrade_token(protocol.as_str());
        let kind = kind.ok_or(RequestError::UnknownProtocol)?;
        if let Some(name) = forbidden_field(request.headers()) {
            return Err(RequestError::ForbiddenField(name));
        }
        if uri.scheme_str() != Some("https") {
            return Err(RequestError::UnsupportedScheme);
        }
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let mut templates = templates.into_iter().filter(|template| template.kind() == kind);
        let destination = templates.find_map(|template| template.matches(path));
        let destination = destination.ok_or(RequestError::NoTemplate)??;
        Ok(Self { kind, form: Form::Extended, destination })
    }
}

/// Returns the response that opens a tunnel.
pub fn accept(form: Form) -> Response<()> {
    let mut response = Response::new(());
    if form == Form::Extended {
        response.headers_mut().insert(CAPSULE_PROTOCOL, TRUE);
    }
    response
}

/// Returns the response that refuses a tunnel. For many errors, `status` is that of the
/// [`ProxyError`](crate::proxy_status::ProxyError).
pub fn refuse(status: StatusCode, reason: &ProxyStatus) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    response.headers_mut().insert(PROXY_STATUS, reason.to_value());
    response
}

/// Returns the response that requests credentials.
pub fn challenge(challenge: Challenge) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = challenge.status;
    for value in challenge.values {
        response.headers_mut().append(challenge.name.clone(), value);
    }
    response
}
