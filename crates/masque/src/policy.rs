//! The policy for targets: which hosts and ports clients may reach (RFC 9298 §7).
//!
//! A proxy's address can have privileges that its clients must not have: to reach services on the
//! same host, in a private network, or behind a filter for source addresses. By default, a policy
//! therefore permits only globally reachable unicast addresses.

mod embedded;
mod refusal;
mod rule;
mod special;

use core::net::IpAddr;
use core::num::NonZeroU16;
use std::collections::BTreeSet;

use crate::target::Name;
pub use refusal::Refusal;
use rule::Subject;
pub use rule::{Action, Rule, RuleError};

/// Ports that are denied unless a rule allows them by number, with the protocol that is abused on
/// each.
///
/// Most are services whose responses are much larger than requests, without a handshake, so that a
/// UDP tunnel would be a means for reflection attacks on the proxy's own network; and services for
/// local networks only. Port 25 would make the proxy a source of spam.
pub const DENIED_PORTS: [(u16, &str); 22] = [
    (7, "echo: loops between two services"),
    (9, "discard"),
    (13, "daytime"),
    (17, "quote of the day"),
    (19, "chargen: unlimited amplification"),
    (25, "SMTP: spam"),
    (69, "TFTP"),
    (111, "portmapper"),
    (135, "Windows RPC"),
    (137, "NetBIOS name service"),
    (138, "NetBIOS datagrams"),
    (139, "NetBIOS sessions"),
    (161, "SNMP"),
    (162, "SNMP traps"),
    (445, "SMB"),
    (520, "RIP: route injection"),
    (623, "IPMI: remote control of hosts"),
    (1900, "SSDP"),
    (3702, "WS-Discovery"),
    (5353, "multicast DNS"),
    (5355, "LLMNR"),
    (11211, "memcached: amplification by 50,000"),
];

/// The policy for targets.
///
/// Rules are evaluated in order, and the first one that matches decides. A target that matches no
/// rule is permitted, unless the policy is [closed](Self::closed), or the address or the port is
/// denied by default:
///
/// * Addresses that are not globally reachable are denied: loopback, unspecified, link-local,
///   private, shared (100.64.0.0/10), unique-local, multicast, broadcast, documentation,
///   benchmarking and reserved ones. A rule allows such an address only if its network is in the
///   range that is denied: `allow 10.1.0.0/16` does, `allow 0.0.0.0/0` does not.
/// * [`DENIED_PORTS`] are denied. A rule allows such a port only if it names ports.
///
/// An IPv6 address that contains an IPv4 address (IPv4-mapped, NAT64, 6to4, Teredo) is permitted
/// only if both addresses are. Addresses of the proxy's own host are denied unless a rule allows
/// exactly this address ([`Policy::check_own_address`]).
///
/// A name is checked before its resolution, with [`Policy::check_name`], and each resolved address
/// with [`Policy::check_address`]; only the addresses that pass may be used. A name in the DNS of
/// an attacker, which resolves to another address every time, is therefore of no use.
///
/// ```
/// use clearway_masque::policy::{Policy, Refusal};
///
/// let policy = Policy::default().with_rule("allow 10.1.0.0/16 8080-8090".parse()?);
/// let port = |port: u16| port.try_into().unwrap();
/// let check = |address: &str, number| policy.check_literal(address.parse().unwrap(), port(number));
/// assert_eq!(check("93.184.216.34", 443), Ok(()));
/// assert_eq!(check("10.1.2.3", 8080), Ok(()));
/// assert_eq!(check("10.1.2.3", 443), Err(Refusal::Private));
/// assert_eq!(check("64:ff9b::7f00:1", 443), Err(Refusal::Loopback));
/// # Ok::<(), clearway_masque::policy::RuleError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    is_closed: bool,
    own: BTreeSet<IpAddr>,
}

/// The result of [`Policy::check_name`], which [`Policy::check_address`] needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NameAdmission {
    /// Whether a rule allows the name.
    is_listed: bool,
    /// Whether that rule names ports.
    names_port: bool,
}

impl Policy {
    /// Creates a policy that permits only what rules allow.
    pub fn closed() -> Self {
        Self { is_closed: true, ..Self::default() }
    }

    /// Appends a rule.
    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds addresses of the proxy's own host, which [`check_own_address`](Self::check_own_address)
    /// is applied to in all other checks.
    #[must_use]
    pub fn with_own_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.own.extend(addresses.into_iter().map(|address| address.to_canonical()));
        self
    }

    /// Checks a name before it is resolved.
    ///
    /// # Errors
    /// The reason why no address of this name may be reached. No DNS query should be sent.
    pub fn check_name(&self, name: &Name, port: NonZeroU16) -> Result<NameAdmission, Refusal> {
        self.check_named(name, Some(port))
    }

    /// Checks the name in the scope of an IP tunnel (RFC 9484 §4.6) before it is resolved. Rules
    /// that name ports do not apply.
    ///
    /// # Errors
    /// The reason why no address of this name may be reached. No DNS query should be sent.
    pub fn check_scope_name(&self, name: &Name) -> Result<NameAdmission, Refusal> {
        self.check_named(name, None)
    }

    /// Checks an address to which the name in the scope of an IP tunnel has resolved. Rules that
    /// name ports do not apply.
    ///
    /// # Errors
    /// The reason why the address may not be reached.
    pub fn check_scope_address(
        &self,
        address: IpAddr,
        by_name: NameAdmission,
    ) -> Result<(), Refusal> {
        self.check_both(address, None, by_name)
    }

    fn check_named(&self, name: &Name, port: Option<NonZeroU16>) -> Result<NameAdmission, Refusal> {
        let matching = |rule: &&Rule| rule.matches_name(name) && rule.matches_port(port);
        let rule = self.rules.iter().find(matching);
        let (is_listed, names_port) = match rule.map(|rule| (rule, rule.action())) {
            Some((rule, Action::Deny)) => return Err(rule.refusal(Refusal::DeniedName)),
            Some((rule, Action::Allow)) => (true, rule.names_ports()),
            None => (false, false),
        };
        if let Some(refusal) = special::name(name)
            && !rule.is_some_and(|rule| matches!(rule.subject(), Subject::Domain(_)))
        {
            return Err(refusal);
        }
        Ok(NameAdmission { is_listed, names_port })
    }

    /// Checks an address: the target itself, with the default [`NameAdmission`], or one to which a
    /// name has resolved.
    ///
    /// # Errors
    /// The reason why the address may not be reached.
    pub fn check_address(
        &self,
        address: IpAddr,
        port: NonZeroU16,
        by_name: NameAdmission,
    ) -> Result<(), Refusal> {
        self.check_both(address, Some(port), by_name)
    }

    /// Checks a target that is an address.
    ///
    /// # Errors
    /// The reason why the address may not be reached.
    pub fn check_literal(&self, address: IpAddr, port: NonZeroU16) -> Result<(), Refusal> {
        self.check_address(address, port, NameAdmission::default())
    }

    /// Checks an address of the proxy's own host, in addition to the other checks: services that
    /// listen there may trust local clients. Loopback addresses pass, since a rule must allow them in
    /// any case; other addresses pass only if a rule allows a network that consists of this address
    /// alone, and no earlier rule denies the address.
    ///
    /// # Errors
    /// Returns [`Refusal::OwnAddress`] if the address may not be reached.
    pub fn check_own_address(
        &self,
        address: IpAddr,
        port: Option<NonZeroU16>,
    ) -> Result<(), Refusal> {
        let address = address.to_canonical();
        let matching = |rule: &&Rule| rule.matches_address(address) && rule.matches_port(port);
        let matching = self.rules.iter().filter(matching);
        let mut allowing = matching.take_while(|rule| rule.action() == Action::Allow);
        let is_named = allowing.any(Rule::is_for_one_address);
        match is_named || address.is_loopback() {
            true => Ok(()),
            false => Err(Refusal::OwnAddress),
        }
    }

    /// Checks the destination of an IP packet (RFC 9484 §7.2). Rules that name ports do not apply.
    ///
    /// # Errors
    /// The reason why the address may not be reached.
    pub fn check_destination(&self, address: IpAddr) -> Result<(), Refusal> {
        self.check_both(address, None, NameAdmission::default())
    }

    /// Checks an address, and the IPv4 addresses that are embedded in it.
    fn check_both(
        &self,
        address: IpAddr,
        port: Option<NonZeroU16>,
        by_name: NameAdmission,
    ) -> Result<(), Refusal> {
        let address = address.to_canonical();
        self.check_one(address, port, by_name)?;
        if let IpAddr::V6(address) = address {
            for inner in embedded::addresses(address) {
                self.check_one(inner.into(), port, by_name)?;
            }
        }
        Ok(())
    }

    fn check_one(
        &self,
        address: IpAddr,
        port: Option<NonZeroU16>,
        by_name: NameAdmission,
    ) -> Result<(), Refusal> {
        if self.own.contains(&address) {
            self.check_own_address(address, port)?;
        }
        let special = special::address(address);
        let matching = |rule: &&Rule| rule.matches_address(address) && rule.matches_port(port);
        let rule = self.rules.iter().find(matching);
        if let Some(rule) = rule
            && rule.action() == Action::Deny
        {
            return Err(rule.refusal(Refusal::DeniedNetwork));
        }
        if let Some(special) = special
            && !rule.is_some_and(|rule| rule.is_inside(special.network))
        {
            return Err(special.refusal);
        }
        let names_port = by_name.names_port || rule.is_some_and(Rule::names_ports);
        let is_abused = |port: NonZeroU16| DENIED_PORTS.iter().any(|(it, _)| *it == port.get());
        if !names_port && port.is_some_and(is_abused) {
            return Err(Refusal::DeniedPort);
        }
        if self.is_closed && rule.is_none() && !by_name.is_listed {
            return Err(Refusal::NotAllowed);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
