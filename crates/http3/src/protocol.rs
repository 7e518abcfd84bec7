use core::fmt;
use std::sync::Arc;

/// The protocol of an extended CONNECT request (RFC 9220): the value of `:protocol`. It is one of
/// the request's [extensions](http::Request::extensions). A CONNECT request with this extension has
/// a full URI.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Protocol(Arc<str>);

impl Protocol {
    /// Creates the protocol with this name; `None` if it is not an Upgrade Token (RFC 9110 §7.8),
    /// which is one token, or two separated by a slash.
    pub fn new(name: &str) -> Option<Self> {
        let is_token = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        let is_valid = match name.split_once('/') {
            Some((protocol, version)) => is_token(protocol) && is_token(version),
            None => is_token(name),
        };
        is_valid.then(|| Self(name.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
