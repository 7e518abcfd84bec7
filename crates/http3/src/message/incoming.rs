use bytes::Bytes;
use http::header::{COOKIE, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};

use super::{Exchange, fields};
use crate::qpack::Field;
use crate::{Priority, Protocol, StreamError};

/// The kind of field section being received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectionKind {
    Request,
    Response,
    Trailers,
}

/// Collects a received field section and rejects it at the first malformed field
/// (RFC 9114 §4.1.2, §4.2, §4.3).
#[derive(Debug)]
pub(crate) struct FieldSection {
    kind: SectionKind,
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<AuthorityText>,
    /// The expected value of `:authority`.
    expected_authority: Option<Authority>,
    path: Option<Bytes>,
    protocol: Option<Protocol>,
    status: Option<StatusCode>,
    fields: HeaderMap,
    cookie: Option<(Vec<u8>, bool)>,
    content_length: Option<u64>,
    pseudo_fields_over: bool,
}

/// The value of `:authority`.
#[derive(Debug)]
enum AuthorityText {
    /// The expected authority.
    Expected(Authority),
    Other(Bytes),
}

impl AuthorityText {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Expected(authority) => authority.as_str().as_bytes(),
            Self::Other(text) => text,
        }
    }
}

/// The error for a message with capsules that has a content field (RFC 9297 §3.2).
const CAPSULES: StreamError =
    StreamError::malformed("a message with capsules must not have fields that describe content");

/// Returns, as extensions, the parts of a request for which [`Request`] has no field.
fn protocol_and_priority(protocol: Option<Protocol>, fields: &HeaderMap) -> http::Extensions {
    let mut extensions = http::Extensions::new();
    if let Some(protocol) = protocol {
        extensions.insert(protocol);
    }
    if let Some(priority) = Priority::of_request(fields) {
        extensions.insert(priority);
    }
    extensions
}

impl FieldSection {
    pub(crate) fn new(kind: SectionKind) -> Self {
        Self {
            kind,
            method: None,
            scheme: None,
            authority: None,
            expected_authority: None,
            path: None,
            protocol: None,
            status: None,
            fields: HeaderMap::new(),
            cookie: None,
            content_length: None,
            pseudo_fields_over: false,
        }
    }

    /// Sets an authority that was valid in an earlier request; if this section has the same
    /// authority, the value need not be checked again.
    pub(crate) fn expect_authority(&mut self, authority: Option<&Authority>) {
        if self.kind == SectionKind::Request {
            self.expected_authority = authority.cloned();
        }
    }

    /// Returns the value of content-length.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Adds the next field.
    pub(crate) fn field(&mut self, field: Field<'_>) -> Result<(), StreamError> {
        if !fields::is_valid_value(field.value) {
            return Err(StreamError::malformed("a field value contains an invalid character"));
        }
        if field.name.first() == Some(&b':') {
            return self.pseudo_field(field.name, field.value);
        }
        self.pseudo_fields_over = true;
        self.check_field(field)?;
        // Rejects uppercase letters and other invalid characters.
        let name = HeaderName::from_lowercase(field.name)
            .map_err(|_| StreamError::malformed("a field name contains an invalid character"))?;
        if name == COOKIE && self.kind == SectionKind::Request {
            self.join_cookie(field);
            return Ok(());
        }
        self.append(name, field.value, field.sensitive)
    }

    fn append(
        &mut self,
        name: HeaderName,
        value: &[u8],
        sensitive: bool,
    ) -> Result<(), StreamError> {
        let mut value = HeaderValue::from_bytes(value)
            .map_err(|_| StreamError::malformed("a field value contains an invalid character"))?;
        value.set_sensitive(sensitive);
        self.fields
            .try_append(name, value)
            .map_err(|_| StreamError::malformed("a field section has too many fields"))?;
        Ok(())
    }

    /// Checks fields that affect the framing of the message.
    fn check_field(&mut self, field: Field<'_>) -> Result<(), StreamError> {
        if fields::is_connection_specific(field.name) {
            return Err(StreamError::malformed(
                "a connection-specific field is not allowed in HTTP/3",
            ));
        }
        let is_request = self.kind == SectionKind::Request;
        match field.name {
            b"te" if !is_request || !fields::is_trailers(field.value) => Err(
                StreamError::malformed("te is not allowed here, or its value is not \"trailers\""),
            ),
            b"content-length" if self.kind != SectionKind::Trailers => {
                let length = fields::parse_content_length(field.value)
                    .ok_or(StreamError::malformed("content-length is not a number"))?;
                match self.content_length.replace(length) {
                    None => Ok(()),
                    Some(_) => Err(StreamError::malformed("content-length appears twice")),
                }
            }
            b"host" if is_request && self.fields.contains_key(HOST) => {
                Err(StreamError::malformed("host appears twice"))
            }
            _ => Ok(()),
        }
    }

    /// Joins the cookie field lines that were split for compression (RFC 9114 §4.2.1).
    fn join_cookie(&mut self, field: Field<'_>) {
        let (cookie, sensitive) = self.cookie.get_or_insert_default();
        if !cookie.is_empty() {
            cookie.extend_from_slice(b"; ");
        }
        cookie.extend_from_slice(field.value);
        *sensitive |= field.sensitive;
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), StreamError> {
        if self.pseudo_fields_over {
            return Err(StreamError::malformed("a pseudo-header field follows a regular field"));
        }
        let invalid = StreamError::malformed("a pseudo-header field has an invalid value");
        let is_repeated = match (self.kind, name) {
            (SectionKind::Request, b":method") => {
                let method = Method::from_bytes(value).map_err(|_| invalid)?;
                self.method.replace(method).is_some()
            }
            (SectionKind::Request, b":scheme") => {
                let scheme = Scheme::try_from(value).map_err(|_| invalid)?;
                self.scheme.replace(scheme).is_some()
            }
            (SectionKind::Request, b":authority") => {
                let expected =
                    self.expected_authority.take_if(|it| it.as_str().as_bytes() == value);
                let authority = match expected {
                    Some(authority) => AuthorityText::Expected(authority),
                    None => AuthorityText::Other(Bytes::copy_from_slice(value)),
                };
                self.authority.replace(authority).is_some()
            }
            (SectionKind::Request, b":path") => {
                self.path.replace(Bytes::copy_from_slice(value)).is_some()
            }
            (SectionKind::Request, b":protocol") => {
                let name = core::str::from_utf8(value).map_err(|_| invalid)?;
                self.protocol.replace(Protocol::new(name).ok_or(invalid)?).is_some()
            }
            (SectionKind::Response, b":status") => {
                let status = StatusCode::from_bytes(value).map_err(|_| invalid)?;
                self.status.replace(status).is_some()
            }
            (SectionKind::Trailers, _) => {
                return Err(StreamError::malformed("trailers contain a pseudo-header field"));
            }
            _ => return Err(StreamError::malformed("unknown or misplaced pseudo-header field")),
        };
        if is_repeated {
            return Err(StreamError::malformed("a pseudo-header field appears twice"));
        }
        Ok(())
    }

    /// Returns the fields of a trailer section.
    pub(crate) fn into_trailers(self) -> HeaderMap {
        self.fields
    }

    /// Returns whether this is the header section of a request with `:protocol`.
    pub(crate) fn has_protocol(&self) -> bool {
        self.protocol.is_some()
    }

    /// Converts a header section to a response for the given `exchange`.
    pub(crate) fn into_response(self, exchange: Exchange) -> Result<Response<()>, StreamError> {
        let status = self.status.ok_or(StreamError::malformed("a response has no :status"))?;
        // HTTP/3 has no upgrade mechanism, so 101 is invalid (RFC 9114 §4.5).
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(StreamError::malformed("status 101 is not allowed in HTTP/3"));
        }
        // Neither fields nor a status that describe content are allowed (RFC 9297 §3.2).
        if exchange == Exchange::ExtendedConnect
            && status.is_success()
            && fields::uses_capsules(&self.fields)
            && (fields::describes_content(&self.fields) || matches!(status.as_u16(), 204..=206))
        {
            return Err(CAPSULES);
        }
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.version_mut() = Version::HTTP_3;
        *response.headers_mut() = self.fields;
        Ok(response)
    }

    /// Converts a header section to a request.
    pub(crate) fn into_request(mut self) -> Result<Request<()>, StreamError> {
        if let Some((cookie, sensitive)) = self.cookie.take() {
            self.append(COOKIE, &cookie, sensitive)?;
        }
        let method =
            self.method.take().ok_or(StreamError::malformed("a request has no :method"))?;
        let (has_authority, authority) = (self.authority.is_some(), self.authority()?);
        let protocol = self.protocol.take();
        let uri = match (method == Method::CONNECT, &protocol) {
            (true, None) => self.connect_uri(has_authority, authority)?,
            (true, Some(_)) => self.extended_connect_uri(&method, has_authority, authority)?,
            (false, None) => self.uri(&method, authority)?,
            (false, Some(_)) => {
                return Err(StreamError::malformed("a request other than CONNECT has :protocol"));
            }
        };
        let mut request = Request::new(());
        request.extensions_mut().extend(protocol_and_priority(protocol, &self.fields));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_3;
        *request.headers_mut() = self.fields;
        Ok(request)
    }

    /// Returns the authority, on which `:authority` and `host` must agree (RFC 9114 §4.3.1).
    fn authority(&mut self) -> Result<Option<Authority>, StreamError> {
        let host = self.fields.get(HOST).map(HeaderValue::as_bytes);
        if let (Some(host), Some(authority)) = (host, &self.authority)
            && host != authority.as_bytes()
        {
            return Err(StreamError::malformed(":authority and host differ"));
        }
        let value = match (self.authority.take(), host) {
            (Some(AuthorityText::Expected(authority)), _) => return Ok(Some(authority)),
            (Some(AuthorityText::Other(text)), _) => text,
            (None, Some(host)) => Bytes::copy_from_slice(host),
            (None, None) => return Ok(None),
        };
        if value.is_empty() {
            return Err(StreamError::malformed("the authority is empty"));
        }
        if value.contains(&b'@') {
            return Err(StreamError::malformed("the authority contains user information"));
        }
        let authority = Authority::from_maybe_shared(value)
            .map_err(|_| StreamError::malformed("the authority is invalid"))?;
        Ok(Some(authority))
    }

    /// Builds the URI of a CONNECT request, which has only `:method` and `:authority` with host and
    /// port (RFC 9114 §4.4).
    fn connect_uri(
        &self,
        has_authority: bool,
        authority: Option<Authority>,
    ) -> Result<Uri, StreamError> {
        if self.scheme.is_some() || self.path.is_some() {
            return Err(StreamError::malformed("CONNECT has :scheme or :path"));
        }
        if !has_authority {
            return Err(StreamError::malformed("CONNECT has no :authority"));
        }
        let authority = authority
            .filter(|authority| authority.port_u16().is_some() && !authority.host().is_empty())
            .ok_or(StreamError::malformed("CONNECT requires a host and a port"))?;
        Ok(Uri::from(authority))
    }

    /// Builds the URI of an extended CONNECT request in the same way as for other methods (RFC 9220
    /// §3, RFC 8441 §4).
    fn extended_connect_uri(
        &mut self,
        method: &Method,
        has_authority: bool,
        authority: Option<Authority>,
    ) -> Result<Uri, StreamError> {
        if fields::uses_capsules(&self.fields) && fields::describes_content(&self.fields) {
            return Err(CAPSULES);
        }
        if !has_authority {
            return Err(StreamError::malformed("extended CONNECT has no :authority"));
        }
        self.uri(method, authority)
    }

    fn uri(&mut self, method: &Method, authority: Option<Authority>) -> Result<Uri, StreamError> {
        let scheme =
            self.scheme.take().ok_or(StreamError::malformed("a request has no :scheme"))?;
        let path = self.path.take().ok_or(StreamError::malformed("a request has no :path"))?;
        let is_http = scheme == Scheme::HTTP || scheme == Scheme::HTTPS;
        if is_http && authority.is_none() {
            return Err(StreamError::malformed("a request has neither :authority nor host"));
        }
        let is_asterisk = *path == *b"*" && *method == Method::OPTIONS;
        let is_absolute = path.first() == Some(&b'/');
        if is_http && !is_asterisk && !is_absolute || !fields::is_valid_path(&path) {
            return Err(StreamError::malformed(":path is invalid"));
        }
        let path = PathAndQuery::from_maybe_shared(path)
            .map_err(|_| StreamError::malformed(":path is invalid"))?;
        let mut parts = http::uri::Parts::default();
        // A `Uri` cannot have a scheme without an authority, nor with the path "*".
        if authority.is_some() && !is_asterisk {
            parts.scheme = Some(scheme);
            parts.authority = authority;
        }
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| StreamError::malformed("the target is not a valid URI"))
    }
}
