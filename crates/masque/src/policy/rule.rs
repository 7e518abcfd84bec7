use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU16;
use core::ops::RangeInclusive;
use core::str::FromStr;

use ipnet::IpNet;

use super::Refusal;
use crate::target::Name;

/// The effect of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Targets that match are permitted.
    Allow,
    /// Targets that match are refused.
    Deny,
}

/// A rule of a [`Policy`](super::Policy).
///
/// Its text is an action, a subject, and optionally a port or a range of ports: `deny *
/// 6881-6889`, `allow 10.1.0.0/16`, `allow .example.org 443`. The subject is `*` for all targets, a
/// network, an address, or a domain, which stands for itself and all names below it; a leading dot
/// is ignored.
///
/// A rule for a network is evaluated for addresses, and one for a domain before the resolution of a
/// name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    action: Action,
    subject: Subject,
    ports: Option<RangeInclusive<u16>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Subject {
    Any,
    Network(IpNet),
    Domain(Name),
}

impl Rule {
    /// Creates a rule for all targets.
    pub const fn any(action: Action) -> Self {
        Self { action, subject: Subject::Any, ports: None }
    }

    /// Creates a rule for the addresses in a network.
    pub const fn network(action: Action, network: IpNet) -> Self {
        Self { action, subject: Subject::Network(network), ports: None }
    }

    /// Creates a rule for a domain: the name and all names below it.
    pub const fn domain(action: Action, domain: Name) -> Self {
        Self { action, subject: Subject::Domain(domain), ports: None }
    }

    /// Restricts the rule to these ports.
    #[must_use]
    pub fn with_ports(mut self, ports: RangeInclusive<u16>) -> Self {
        self.ports = Some(ports);
        self
    }

    /// Returns the effect of the rule.
    pub const fn action(&self) -> Action {
        self.action
    }

    pub(super) const fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(super) const fn names_ports(&self) -> bool {
        self.ports.is_some()
    }

    /// Returns whether the rule applies to this port. Without a port, rules that name ports do not
    /// match.
    pub(super) fn matches_port(&self, port: Option<NonZeroU16>) -> bool {
        let matches =
            |ports: &RangeInclusive<u16>| port.is_some_and(|port| ports.contains(&port.get()));
        self.ports.as_ref().is_none_or(matches)
    }

    pub(super) fn matches_name(&self, name: &Name) -> bool {
        match &self.subject {
            Subject::Any => true,
            Subject::Network(_) => false,
            Subject::Domain(domain) => name.is_within(domain),
        }
    }

    pub(super) fn matches_address(&self, address: IpAddr) -> bool {
        match &self.subject {
            Subject::Any => true,
            Subject::Network(network) => network.contains(&address),
            Subject::Domain(_) => false,
        }
    }

    /// Returns whether the rule is for a network within `range`.
    pub(super) fn is_inside(&self, range: IpNet) -> bool {
        matches!(&self.subject, Subject::Network(network) if range.contains(network))
    }

    /// Returns whether the rule is for a single address.
    pub(super) fn is_for_one_address(&self) -> bool {
        let Subject::Network(network) = &self.subject else { return false };
        network.prefix_len() == network.max_prefix_len()
    }

    /// Returns the reason why this rule refuses a target.
    pub(super) fn refusal(&self, subject: Refusal) -> Refusal {
        match (&self.subject, &self.ports) {
            (Subject::Any, Some(_)) => Refusal::DeniedPort,
            (Subject::Any, None) => Refusal::NotAllowed,
            _ => subject,
        }
    }
}

/// The reason why a rule cannot be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// The rule does not begin with `allow` or `deny`.
    Action,
    /// The subject is missing, or is not `*`, a network, an address or a domain.
    Subject,
    /// The network has nonzero bits after its prefix length.
    HostBits,
    /// The ports are neither a port number nor an ascending range.
    Ports,
    /// There is text after the ports.
    Excess,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Action => "the rule has no action; begin it with allow or deny",
            Self::Subject => "the rule has no valid subject; use *, a network, or a domain",
            Self::HostBits => "the rule's network has host bits set; set them to zero",
            Self::Ports => "the rule's ports are invalid; use a port such as 443, or 8000-8999",
            Self::Excess => "the rule has text after its ports; write one rule per line",
        })
    }
}

impl core::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut words = text.split_whitespace();
        let action = match words.next() {
            Some("allow") => Action::Allow,
            Some("deny") => Action::Deny,
            _ => return Err(RuleError::Action),
        };
        let subject = parse_subject(words.next().ok_or(RuleError::Subject)?)?;
        let ports = words.next().map(parse_ports).transpose()?;
        if words.next().is_some() {
            return Err(RuleError::Excess);
        }
        Ok(Self { action, subject, ports })
    }
}

fn parse_subject(text: &str) -> Result<Subject, RuleError> {
    if text == "*" {
        return Ok(Subject::Any);
    }
    let network = text.parse::<IpNet>().ok();
    let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    if let Some(network) = network {
        return match network.trunc() == network {
            true => Ok(Subject::Network(network)),
            false => Err(RuleError::HostBits),
        };
    }
    let domain = text.strip_prefix('.').unwrap_or(text);
    Name::parse(domain).map(Subject::Domain).map_err(|_| RuleError::Subject)
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, RuleError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map_err(|_| RuleError::Ports);
    let (first, last) = (port(first)?, port(last)?);
    if first <= last { Ok(first..=last) } else { Err(RuleError::Ports) }
}
