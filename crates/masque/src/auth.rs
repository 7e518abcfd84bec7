//! Authentication of clients (RFC 9110 §11): Basic (RFC 7617), Bearer (RFC 6750), and certificates.

mod file;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    AUTHORIZATION, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

pub use file::{CredentialsError, CredentialsProblem};

/// Maximum length of a field with credentials, in bytes.
const MAX_FIELD: usize = 4096;

/// The kind of CONNECT request, which determines the fields and the status code for authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authority {
    /// An extended CONNECT request: the proxy is the origin server of its URI. Clients use
    /// Authorization (draft-ietf-httpbis-connect-tcp §3.3.2); Proxy-Authorization, which some
    /// clients send, is accepted, too.
    Origin,
    /// A classic CONNECT request: clients use Proxy-Authorization (RFC 9110 §11.7).
    Proxy,
}

/// An authenticated client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The name, for limits and logs. It is not a secret.
    pub name: Arc<str>,
    /// How the client was authenticated.
    pub method: Method,
}

/// An authentication method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Method {
    /// A name and a password.
    Basic,
    /// A token.
    Bearer,
    /// A TLS client certificate.
    Certificate,
}

/// The reason why a client is not authenticated. The proxy responds with a
/// [challenge](Credentials::challenge).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuthError {
    /// The request has no credentials.
    Missing,
    /// The credentials cannot be parsed, or there are several.
    Malformed,
    /// The authentication scheme is neither Basic nor Bearer.
    UnsupportedScheme,
    /// The name, password or token is wrong.
    Rejected,
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request has no credentials; send a name and password, or a token",
            Self::Malformed => "the request's credentials cannot be parsed",
            Self::UnsupportedScheme => {
                "the request's authentication scheme is not supported; use Basic or Bearer"
            }
            Self::Rejected => "the request's credentials are wrong",
        })
    }
}

impl core::error::Error for AuthError {}

/// A response that requests credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The status: 401 or 407.
    pub status: StatusCode,
    /// The field's name.
    pub name: HeaderName,
    /// The field's values, one for each scheme.
    pub values: Vec<HeaderValue>,
}

/// A password or token, which is never printed.
#[derive(Clone, PartialEq, Eq)]
struct Secret(Box<[u8]>);

impl Secret {
    /// Compares in constant time, which does not reveal where a difference is. The length is not
    /// secret.
    fn matches(&self, other: &[u8]) -> Choice {
        self.0.ct_eq(other)
    }
}

/// The credentials of all clients. The default contains none, so nobody is authenticated.
///
/// ```
/// use clearway_masque::auth::{Authority, Credentials};
/// use http::{HeaderMap, header::AUTHORIZATION};
///
/// let credentials = Credentials::parse("basic alice correct horse\nbearer s3cret build-farm")?;
/// let mut headers = HeaderMap::new();
/// headers.insert(AUTHORIZATION, "Bearer s3cret".parse()?);
/// let client = credentials.check(&headers, Authority::Origin, None)?;
/// assert_eq!(&*client.name, "build-farm");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    passwords: BTreeMap<Arc<str>, Secret>,
    tokens: Vec<(Secret, Arc<str>)>,
    certificates: BTreeSet<Arc<str>>,
}

impl Credentials {
    /// Parses a file with one entry per line: `basic NAME PASSWORD`, `bearer TOKEN [NAME]`, or
    /// `certificate NAME`. A password may contain spaces. Empty lines and lines that begin with `#`
    /// are ignored. A token without a name is named `bearer-` and its line number.
    ///
    /// # Errors
    /// The line that is invalid, and the reason.
    pub fn parse(text: &str) -> Result<Self, CredentialsError> {
        file::parse(text)
    }

    /// Returns whether there are no credentials.
    pub fn is_empty(&self) -> bool {
        self.passwords.is_empty() && self.tokens.is_empty() && self.certificates.is_empty()
    }

    /// Authenticates the client of a request. `certificate` is the name in the client certificate
    /// that TLS has verified.
    ///
    /// # Errors
    /// The reason why the client is not authenticated.
    pub fn check(
        &self,
        headers: &HeaderMap,
        authority: Authority,
        certificate: Option<&str>,
    ) -> Result<Client, AuthError> {
        if let Some(name) = certificate.and_then(|name| self.certificates.get(name)) {
            return Ok(Client { name: name.clone(), method: Method::Certificate });
        }
        let (scheme, value) = field(headers, authority)?;
        if scheme.eq_ignore_ascii_case("basic") {
            self.check_basic(value)
        } else if scheme.eq_ignore_ascii_case("bearer") {
            self.check_bearer(value)
        } else {
            Err(AuthError::UnsupportedScheme)
        }
    }

    fn check_basic(&self, value: &str) -> Result<Client, AuthError> {
        let decoded = STANDARD.decode(value).map_err(|_| AuthError::Malformed)?;
        let mut parts = decoded.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(password)) = (parts.next(), parts.next()) else {
            return Err(AuthError::Malformed);
        };
        let name = str::from_utf8(name).map_err(|_| AuthError::Malformed)?;
        // Unknown names take as long as known ones with a password of the same length.
        let Some((name, secret)) = self.passwords.get_key_value(name) else {
            _ = Secret(password.into()).matches(password);
            return Err(AuthError::Rejected);
        };
        match secret.matches(password).into() {
            true => Ok(Client { name: name.clone(), method: Method::Basic }),
            false => Err(AuthError::Rejected),
        }
    }

    fn check_bearer(&self, token: &str) -> Result<Client, AuthError> {
        let mut found = u32::MAX;
        for (index, (secret, _)) in (0u32..).zip(&self.tokens) {
            found.conditional_assign(&index, secret.matches(token.as_bytes()));
        }
        let index = usize::try_from(found).map_err(|_| AuthError::Rejected)?;
        let (_, name) = self.tokens.get(index).ok_or(AuthError::Rejected)?;
        Ok(Client { name: name.clone(), method: Method::Bearer })
    }

    /// Returns the challenge for requests that are not authenticated. It offers the schemes for
    /// which there are credentials.
    pub fn challenge(&self, authority: Authority) -> Challenge {
        let (status, name) = match authority {
            Authority::Origin => (StatusCode::UNAUTHORIZED, WWW_AUTHENTICATE),
            Authority::Proxy => (StatusCode::PROXY_AUTHENTICATION_REQUIRED, PROXY_AUTHENTICATE),
        };
        let basic = HeaderValue::from_static("Basic realm=\"proxy\", charset=\"UTF-8\"");
        let bearer = HeaderValue::from_static("Bearer realm=\"proxy\"");
        let has_basic = !self.passwords.is_empty() || self.tokens.is_empty();
        let values = has_basic.then_some(basic).into_iter();
        let values = values.chain((!self.tokens.is_empty()).then_some(bearer)).collect();
        Challenge { status, name, values }
    }
}

impl fmt::Debug for Credentials {
    /// Writes only the number of credentials of each kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("passwords", &self.passwords.len())
            .field("tokens", &self.tokens.len())
            .field("certificates", &self.certificates.len())
            .finish()
    }
}

/// Returns the scheme and the credentials from the request's authentication field.
fn field(headers: &HeaderMap, authority: Authority) -> Result<(&str, &str), AuthError> {
    let names: &[HeaderName] = match authority {
        Authority::Origin => &[AUTHORIZATION, PROXY_AUTHORIZATION],
        Authority::Proxy => &[PROXY_AUTHORIZATION],
    };
    let name = names.iter().find(|name| headers.contains_key(*name)).ok_or(AuthError::Missing)?;
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(AuthError::Malformed);
    };
    if value.len() > MAX_FIELD {
        return Err(AuthError::Malformed);
    }
    let value = value.to_str().map_err(|_| AuthError::Malformed)?;
    let (scheme, value) = value.trim().split_once(' ').ok_or(AuthError::Malformed)?;
    Ok((scheme, value.trim_start()))
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
