//! The Proxy-Status field (RFC 9209), in which a proxy reports why it refused or lost a tunnel.

mod field;

use core::fmt;

use clearway_units::foreign::Foreign;
use http::{HeaderValue, StatusCode};

use field::{Member, Value, members};

/// Maximum length of the field values that are parsed, in bytes.
const MAX_FIELD: usize = 8192;

/// Maximum length of a `details` parameter that is sent, in bytes.
const MAX_DETAILS: usize = 256;

macro_rules! errors {
    ($($(#[$documentation:meta])* $name:ident = $token:literal, $status:literal, $text:literal;)*) => {
        /// A Proxy Error Type (RFC 9209 §2.3).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum ProxyError {
            $($(#[$documentation])* $name,)*
        }

        impl ProxyError {
            /// All error types that this crate knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name in the registry, such as `dns_error`.
            pub const fn token(self) -> &'static str {
                match self {
                    $(Self::$name => $token,)*
                }
            }

            const fn status_number(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

errors! {
    /// The resolution of the target's name timed out.
    DnsTimeout = "dns_timeout", 504, "timed out resolving the target's name";
    /// The resolution of the target's name failed.
    DnsError = "dns_error", 502, "could not resolve the target's name";
    /// The proxy cannot determine the target.
    DestinationNotFound = "destination_not_found", 500, "does not know this target";
    /// The target is considered unavailable, for example after failed health checks.
    DestinationUnavailable = "destination_unavailable", 503, "considers the target unavailable";
    /// The proxy is configured to refuse this address. The status is 403 instead of the
    /// recommended 502, since a proxy must answer impermissible requests with a status in the 4xx
    /// range (draft-ietf-httpbis-connect-tcp §3.1).
    DestinationIpProhibited = "destination_ip_prohibited", 403, "does not allow the target's address";
    /// The proxy has no route to the address.
    DestinationIpUnroutable = "destination_ip_unroutable", 502, "has no route to the target";
    /// The target refused the connection.
    ConnectionRefused = "connection_refused", 502, "reached the target, which refused the connection";
    /// The connection to the target was closed before the tunnel was complete.
    ConnectionTerminated = "connection_terminated", 502, "lost its connection to the target";
    /// The connection to the target timed out.
    ConnectionTimeout = "connection_timeout", 504, "timed out connecting to the target";
    /// Nothing arrived from the target for too long.
    ConnectionReadTimeout = "connection_read_timeout", 504, "timed out waiting for the target";
    /// Nothing could be sent to the target for too long.
    ConnectionWriteTimeout = "connection_write_timeout", 504, "timed out sending to the target";
    /// A limit on the number of tunnels was reached.
    ConnectionLimitReached = "connection_limit_reached", 503, "reached its limit on connections";
    /// The request is invalid.
    HttpRequestError = "http_request_error", 400, "considers the request invalid";
    /// The request is not permitted, for a reason other than the target's address.
    HttpRequestDenied = "http_request_denied", 403, "does not allow the request";
    /// An error inside the proxy.
    ProxyInternalError = "proxy_internal_error", 500, "had an internal error";
    /// The proxy is misconfigured.
    ProxyConfigurationError = "proxy_configuration_error", 500, "is misconfigured";
    /// The request reached the proxy again.
    ProxyLoopDetected = "proxy_loop_detected", 502, "received its own request: there is a loop";
}

impl ProxyError {
    /// Returns the error type with this name in the registry.
    pub fn from_token(token: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|error| error.token() == token)
    }

    /// Returns the status code of the response that reports this error: the recommended one (RFC
    /// 9209 §2.3), unless the error's documentation states another.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.status_number()).unwrap_or(StatusCode::BAD_GATEWAY)
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.token())
    }
}

/// The report of one proxy in a Proxy-Status field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyStatus {
    /// The proxy's name, such as its host name.
    pub proxy: String,
    /// The error, if there was one, by its name in the registry.
    pub error: Option<String>,
    /// The DNS RCODE, such as `NXDOMAIN`, of a `dns_error`.
    pub rcode: Option<String>,
    /// Human-readable details.
    pub details: Option<String>,
}

impl ProxyStatus {
    /// Creates the status of the proxy named `proxy` with this error.
    pub fn error(proxy: &str, error: ProxyError) -> Self {
        let error = Some(error.token().to_owned());
        Self { proxy: proxy.to_owned(), error, rcode: None, details: None }
    }

    /// Adds human-readable details.
    pub fn with_details(mut self, details: impl fmt::Display) -> Self {
        self.details = Some(details.to_string());
        self
    }

    /// Adds the RCODE of a DNS error.
    pub fn with_rcode(mut self, rcode: &str) -> Self {
        self.rcode = Some(rcode.to_owned());
        self
    }

    /// Returns the field value. Characters that a structured field cannot contain are replaced by
    /// question marks, and long details are truncated.
    pub fn to_value(&self) -> HeaderValue {
        let mut text = field::string(&self.proxy, MAX_DETAILS);
        if let Some(error) = self.error.as_deref().filter(|error| field::is_token(error)) {
            text.push_str("; error=");
            text.push_str(error);
        }
        for (key, value) in [("rcode", &self.rcode), ("details", &self.details)] {
            if let Some(value) = value {
                text.push_str("; ");
                text.push_str(key);
                text.push('=');
                text.push_str(&field::string(value, MAX_DETAILS));
            }
        }
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("proxy"))
    }

    /// Parses all values of the field. The first status is that of the proxy closest to the target,
    /// the last that of the proxy closest to the client (RFC 9209 §2). Values that are not a
    /// structured field are ignored (RFC 8941 §4.2), and so are fields of more than 8 KiB.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Vec<Self> {
        let mut field = Vec::new();
        for value in values {
            if !field.is_empty() {
                field.extend_from_slice(b", ");
            }
            field.extend_from_slice(value.as_bytes());
            if field.len() > MAX_FIELD {
                return Vec::new();
            }
        }
        let members = members(&field).unwrap_or_default();
        members.into_iter().filter_map(Self::from_member).collect()
    }

    fn from_member(member: Member) -> Option<Self> {
        let Value::Text(proxy) = member.value else { return None };
        let mut status = Self { proxy, error: None, rcode: None, details: None };
        for (key, value) in member.parameters {
            let Value::Text(value) = value else { continue };
            match key.as_str() {
                "error" => status.error = Some(value),
                "rcode" => status.rcode = Some(value),
                "details" => status.details = Some(value),
                _ => {}
            }
        }
        Some(status)
    }

    /// Returns the known error type.
    pub fn known_error(&self) -> Option<ProxyError> {
        ProxyError::from_token(self.error.as_deref()?)
    }
}

impl fmt::Display for ProxyStatus {
    /// Writes a human-readable message. Text from the proxy is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proxy {}", Foreign(&self.proxy).within(MAX_DETAILS))?;
        match (self.known_error(), &self.error) {
            (Some(error), _) => write!(f, " {} ({error}", error.text())?,
            (None, Some(error)) => {
                write!(f, " reported an error ({}", Foreign(error).within(MAX_DETAILS))?;
            }
            (None, None) => f.write_str(" reported no error (no error type")?,
        }
        if let Some(rcode) = &self.rcode {
            write!(f, ", {}", Foreign(rcode).within(MAX_DETAILS))?;
        }
        f.write_str(")")?;
        match &self.details {
            Some(details) => write!(f, ": {}", Foreign(details).within(MAX_DETAILS)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "proxy_status_tests.rs"]
mod tests;
