//! URI templates (RFC 6570), with which a client is configured to use a proxy (RFC 9298 §2, RFC
//! 9484 §3, draft-ietf-httpbis-connect-tcp §3).

mod error;
mod parse;

use core::fmt;

use http::Uri;
use http::uri::{Authority, Scheme};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::kind::TunnelKind;
use crate::target::{IpScope, ScopeTarget, Target, TargetError, Values};
pub use error::{ExpandError, TemplateError};

/// The characters to percent-encode in a value: all except the unreserved ones (RFC 6570 §3.2.1).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A URI template of level 3 that meets the requirements of its tunnel kind.
///
/// A client [expands](Self::expand) it for a destination; a server [matches](Self::matches) it
/// against the path and query of a request.
///
/// ```
/// use clearway_masque::target::{Target, Values};
/// use clearway_masque::{TunnelKind, UriTemplate};
///
/// let text = "https://proxy.example.org:4443/masque{?target_host,target_port}";
/// let template = UriTemplate::parse(TunnelKind::Udp, text)?;
/// let target = Target::from_authority("[2001:db8::42]:443")?;
/// let uri = template.expand(&Values::Target(target.clone()))?;
/// let expected = "/masque?target_host=2001%3Adb8%3A%3A42&target_port=443";
/// assert_eq!(uri.path_and_query().unwrap(), expected);
/// assert_eq!(template.matches(expected), Some(Ok(Values::Target(target))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UriTemplate {
    kind: TunnelKind,
    authority: Authority,
    parts: Vec<Part>,
    /// Whether every value is followed by a character that cannot occur in a value.
    is_delimited: bool,
}

/// A part of the path and query.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Literal(String),
    /// Simple string expansion, `{a,b}` (RFC 6570 §3.2.2).
    Simple(Vec<Variable>),
    /// Form-style query expansion or continuation, `{?a,b}` or `{&a,b}` (RFC 6570 §3.2.8, §3.2.9).
    Form {
        first: char,
        variables: Vec<Variable>,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Variable {
    name: String,
    role: Role,
}

/// The meaning of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    TargetHost,
    TargetPort,
    Target,
    Protocol,
    /// A variable that no specification defines. It is never set.
    Other,
}

impl UriTemplate {
    /// Parses a template for tunnels of this kind.
    ///
    /// # Errors
    /// If the template does not meet a requirement of RFC 9298 §2 or RFC 9484 §3.
    pub fn parse(kind: TunnelKind, text: &str) -> Result<Self, TemplateError> {
        parse::template(kind, text)
    }

    /// Parses a template that a server [matches](Self::matches): the values of all variables must
    /// be unambiguous in a request.
    ///
    /// # Errors
    /// In addition to the errors of [`UriTemplate::parse`],
    /// [`TemplateError::Undelimited`] if a variable is followed by another one or by a character
    /// that its value can contain.
    pub fn parse_for_server(kind: TunnelKind, text: &str) -> Result<Self, TemplateError> {
        let template = Self::parse(kind, text)?;
        if template.is_delimited { Ok(template) } else { Err(TemplateError::Undelimited) }
    }

    /// Creates the default template of a proxy that is configured by host and port (RFC 9298 §2,
    /// RFC 9484 §3, draft-ietf-httpbis-connect-tcp §5.2).
    pub fn well_known(kind: TunnelKind, proxy: Authority) -> Self {
        let parts = parse::well_known(kind);
        Self { kind, authority: proxy, parts, is_delimited: true }
    }

    /// Returns the kind of the tunnels.
    pub const fn kind(&self) -> TunnelKind {
        self.kind
    }

    /// Returns the authority of the proxy.
    pub const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the URI of the request for a tunnel to `values`. Variables that no specification
    /// defines are omitted. The wildcard `*` is not percent-encoded, as in the examples of RFC
    /// 9484.
    ///
    /// # Errors
    /// If `values` belong to another kind of tunnel, or the template has no variable for a part of
    /// the scope, so that the request would have a wider scope.
    pub fn expand(&self, values: &Values) -> Result<Uri, ExpandError> {
        self.check(values)?;
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Simple(variables) => {
                    let defined: Vec<String> =
                        variables.iter().filter_map(|it| value(it.role, values)).collect();
                    text.push_str(&defined.join(","));
                }
                Part::Form { first, variables } => {
                    let mut separator = *first;
                    for variable in variables {
                        if let Some(value) = value(variable.role, values) {
                            text.push(separator);
                            text.push_str(&variable.name);
                            text.push('=');
                            text.push_str(&value);
                            separator = '&';
                        }
                    }
                }
            }
        }
        let uri = Uri::builder().scheme(Scheme::HTTPS).authority(self.authority.clone());
        uri.path_and_query(text).build().map_err(|_| ExpandError::InvalidUri)
    }

    fn check(&self, values: &Values) -> Result<(), ExpandError> {
        match (self.kind, values) {
            (TunnelKind::Udp | TunnelKind::Tcp, Values::Target(_)) => Ok(()),
            (TunnelKind::Ip, Values::Scope(scope)) => {
                if scope.target != ScopeTarget::Any && !self.has(Role::Target) {
                    return Err(ExpandError::NoVariable("target"));
                }
                if scope.protocol.is_some() && !self.has(Role::Protocol) {
                    return Err(ExpandError::NoVariable("ipproto"));
                }
                Ok(())
            }
            _ => Err(ExpandError::WrongKind),
        }
    }

    fn has(&self, role: Role) -> bool {
        self.parts.iter().any(|part| part.variables().iter().any(|it| it.role == role))
    }

    /// Returns the destination of a request with this path and query; `None` if the template does
    /// not match. The variables must appear in the template's order, as in an expanded template.
    ///
    /// Templates that only [`UriTemplate::parse`] accepts, and not
    /// [`UriTemplate::parse_for_server`], match nothing.
    pub fn matches(&self, path_and_query: &str) -> Option<Result<Values, TargetError>> {
        if !self.is_delimited {
            return None;
        }
        let mut captured = Captured::default();
        let mut rest = path_and_query;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            rest = match part {
                Part::Literal(literal) => rest.strip_prefix(literal.as_str())?,
                Part::Simple(variables) => {
                    captured.simple(variables, rest, parts.peek().copied())?
                }
                Part::Form { first, variables } => captured.form(*first, variables, rest)?,
            };
        }
        rest.is_empty().then(|| captured.values(self.kind))
    }
}

impl Part {
    fn variables(&self) -> &[Variable] {
        match self {
            Self::Literal(_) => &[],
            Self::Simple(variables) | Self::Form { variables, .. } => variables,
        }
    }
}

/// Returns the percent-encoded value of a variable; `None` if it is undefined.
fn value(role: Role, values: &Values) -> Option<String> {
    let encode = |text: String| match text.as_str() {
        "*" => text,
        _ => utf8_percent_encode(&text, ENCODED).to_string(),
    };
    match (role, values) {
        (Role::TargetHost, Values::Target(target)) => Some(encode(target.host.to_string())),
        (Role::TargetPort, Values::Target(target)) => Some(target.port.to_string()),
        (Role::Target, Values::Scope(scope)) => Some(encode(scope.target.to_string())),
        (Role::Protocol, Values::Scope(scope)) => {
            Some(scope.protocol.map_or("*".to_owned(), |protocol| protocol.to_string()))
        }
        _ => None,
    }
}

/// The percent-encoded values in a request.
#[derive(Default)]
struct Captured<'a> {
    host: Option<&'a str>,
    port: Option<&'a str>,
    target: Option<&'a str>,
    protocol: Option<&'a str>,
}

impl<'a> Captured<'a> {
    fn set(&mut self, role: Role, value: &'a str) {
        match role {
            Role::TargetHost => self.host = Some(value),
            Role::TargetPort => self.port = Some(value),
            Role::Target => self.target = Some(value),
            Role::Protocol => self.protocol = Some(value),
            Role::Other => {}
        }
    }

    /// Captures the values at the start of `rest`, and returns the text after them.
    fn simple(
        &mut self,
        variables: &[Variable],
        rest: &'a str,
        next: Option<&Part>,
    ) -> Option<&'a str> {
        let delimiter = match next {
            Some(Part::Literal(literal)) => literal.chars().next(),
            _ => None,
        };
        let is_end = |c: char| "/?#&".contains(c) || Some(c) == delimiter;
        let end = rest.find(is_end).unwrap_or(rest.len());
        let (values, after) = rest.split_at_checked(end)?;
        if let [variable] = variables {
            self.set(variable.role, values);
            return Some(after);
        }
        let mut values = values.split(',');
        for variable in variables {
            self.set(variable.role, values.next()?);
        }
        values.next().is_none().then_some(after)
    }

    /// Captures the `name=value` pairs at the start of `rest`, and returns the text after them.
    fn form(&mut self, first: char, variables: &[Variable], mut rest: &'a str) -> Option<&'a str> {
        let mut separator = first;
        for variable in variables {
            let named = rest.strip_prefix(separator);
            let named = named.and_then(|rest| rest.strip_prefix(variable.name.as_str()));
            if let Some(after) = named.and_then(|rest| rest.strip_prefix('=')) {
                let end = after.find(['&', '#']).unwrap_or(after.len());
                let (value, after) = after.split_at_checked(end)?;
                self.set(variable.role, value);
                (rest, separator) = (after, '&');
            }
        }
        Some(rest)
    }

    fn values(&self, kind: TunnelKind) -> Result<Values, TargetError> {
        match kind {
            TunnelKind::Udp | TunnelKind::Tcp => {
                let (host, port) = (self.host.unwrap_or_default(), self.port.unwrap_or_default());
                Target::from_variables(host, port).map(Values::Target)
            }
            TunnelKind::Ip => {
                IpScope::from_variables(self.target, self.protocol).map(Values::Scope)
            }
        }
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |variables: &[Variable]| {
            let names: Vec<&str> = variables.iter().map(|it| it.name.as_str()).collect();
            names.join(",")
        };
        write!(f, "https://{}", self.authority)?;
        for part in &self.parts {
            match part {
                Part::Literal(literal) => f.write_str(literal)?,
                Part::Simple(variables) => write!(f, "{{{}}}", names(variables))?,
                Part::Form { first, variables } => write!(f, "{{{first}{}}}", names(variables))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
