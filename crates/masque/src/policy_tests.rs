use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn port(port: u16) -> NonZeroU16 {
    port.try_into().unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn policy(rules: &[&str]) -> Policy {
    rules.iter().fold(Policy::default(), |policy, rule| policy.with_rule(rule.parse().unwrap()))
}

fn check(policy: &Policy, address: &str) -> Result<(), Refusal> {
    policy.check_literal(address.parse().unwrap(), port(443))
}

#[test]
fn only_global_unicast_addresses_are_permitted_by_default() {
    let policy = Policy::default();
    for (address, refusal) in [
        ("0.0.0.0", Refusal::Unspecified),
        ("0.1.2.3", Refusal::Unspecified),
        ("10.255.255.255", Refusal::Private),
        ("100.64.0.1", Refusal::Shared),
        ("100.127.255.255", Refusal::Shared),
        ("127.0.0.1", Refusal::Loopback),
        ("127.255.0.1", Refusal::Loopback),
        ("169.254.169.254", Refusal::LinkLocal),
        ("172.31.255.255", Refusal::Private),
        ("192.0.0.1", Refusal::Reserved),
        ("192.0.2.1", Refusal::Documentation),
        ("192.168.1.1", Refusal::Private),
        ("198.19.0.1", Refusal::Benchmarking),
        ("198.51.100.1", Refusal::Documentation),
        ("203.0.113.1", Refusal::Documentation),
        ("224.0.0.1", Refusal::Multicast),
        ("239.255.255.250", Refusal::Multicast),
        ("240.0.0.1", Refusal::Reserved),
        ("255.255.255.255", Refusal::Broadcast),
        ("::", Refusal::Unspecified),
        ("::1", Refusal::Loopback),
        ("fe80::1", Refusal::LinkLocal),
        ("fec0::1", Refusal::UniqueLocal),
        ("fd00::1", Refusal::UniqueLocal),
        ("ff02::1", Refusal::Multicast),
        ("2001:db8::1", Refusal::Documentation),
        ("3fff::1", Refusal::Documentation),
        ("100::1", Refusal::Reserved),
        ("2001:2::1", Refusal::Benchmarking),
        ("5f00::1", Refusal::Reserved),
        ("::ffff:127.0.0.1", Refusal::Loopback),
        ("::ffff:10.0.0.1", Refusal::Private),
        ("::127.0.0.1", Refusal::Reserved),
        ("::ffff:0:127.0.0.1", Refusal::Reserved),
        ("64:ff9b::127.0.0.1", Refusal::Loopback),
        ("64:ff9b::169.254.169.254", Refusal::LinkLocal),
        ("64:ff9b:1::8.8.8.8", Refusal::Reserved),
        ("2002:7f00:1::", Refusal::Loopback),
        ("2002:a00:1::1", Refusal::Private),
        // Teredo: the server is 10.0.0.1; the client is 127.0.0.1, inverted.
        ("2001:0:a00:1::f7f7:f7f7", Refusal::Private),
        ("2001:0:808:808::80ff:fffe", Refusal::Loopback),
        ("2600::5efe:192.168.0.1", Refusal::Private),
        ("2600::200:5efe:127.0.0.1", Refusal::Loopback),
    ] {
        assert_eq!(check(&policy, address), Err(refusal), "{address}");
        assert!(refusal.status().is_client_error());
    }
    for address in [
        "8.8.8.8",
        "100.128.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2001:0:808:808::f7f7:f7f7",
        "2600::5efe:8.8.8.8",
    ] {
        assert_eq!(check(&policy, address), Ok(()), "{address}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(&["allow 10.1.2.0/24", "deny 10.1.0.0/16", "allow 10.0.0.0/8 22-443"]);
    assert_eq!(check(&policy, "10.1.2.3"), Ok(()));
    assert_eq!(check(&policy, "10.1.3.3"), Err(Refusal::DeniedNetwork));
    assert_eq!(check(&policy, "10.2.2.3"), Ok(()));
    let address = "10.2.2.3".parse().unwrap();
    assert_eq!(policy.check_literal(address, port(444)), Err(Refusal::Private));
    assert_eq!(check(&policy, "64:ff9b::10.1.2.3"), Ok(()));
    assert_eq!(check(&policy, "::ffff:10.1.3.3"), Err(Refusal::DeniedNetwork));
}

#[test]
fn a_wide_rule_does_not_allow_special_addresses() {
    for rule in ["allow 0.0.0.0/0", "allow *", "allow 126.0.0.0/7", "allow * 443"] {
        assert_eq!(check(&policy(&[rule]), "127.0.0.1"), Err(Refusal::Loopback), "{rule}");
    }
    let policy = policy(&["allow 127.0.0.0/8", "allow 64:ff9b::/96", "allow ::1"]);
    assert_eq!(check(&policy, "127.0.0.1"), Ok(()));
    assert_eq!(check(&policy, "::1"), Ok(()));
    assert_eq!(check(&policy, "64:ff9b::10.0.0.1"), Err(Refusal::Private));
}

#[test]
fn a_closed_policy_permits_what_is_listed() {
    let rules = ["allow 8.8.8.0/24 443", "allow example.org", "allow 10.0.0.0/8"];
    let policy =
        rules.iter().fold(Policy::closed(), |policy, rule| policy.with_rule(rule.parse().unwrap()));
    assert_eq!(check(&policy, "8.8.8.8"), Ok(()));
    assert_eq!(check(&policy, "8.8.4.4"), Err(Refusal::NotAllowed));
    let by_name = policy.check_name(&name("www.example.org"), port(443)).unwrap();
    let check =
        |address: &str, by_name| policy.check_address(address.parse().unwrap(), port(443), by_name);
    assert_eq!(check("8.8.4.4", by_name), Ok(()));
    assert_eq!(check("127.0.0.1", by_name), Err(Refusal::Loopback));
    // A name that is not listed can have a listed address.
    let by_name = policy.check_name(&name("other.example"), port(443)).unwrap();
    assert_eq!(check("8.8.4.4", by_name), Err(Refusal::NotAllowed));
    assert_eq!(check("10.0.0.1", by_name), Ok(()));
}

/// A name that an attacker rebinds to a private address is refused because of that address.
#[test]
fn rebinding_is_refused() {
    let policy = policy(&["allow rebind.example", "deny evil.example", "deny * 6881-6889"]);
    let by_name = policy.check_name(&name("rebind.example"), port(443)).unwrap();
    for (address, refusal) in [
        ("169.254.169.254", Refusal::LinkLocal),
        ("::ffff:127.0.0.1", Refusal::Loopback),
        ("64:ff9b::a00:1", Refusal::Private),
    ] {
        let result = policy.check_address(address.parse().unwrap(), port(443), by_name);
        assert_eq!(result, Err(refusal));
    }
    let refused = |text: &str, number| policy.check_name(&name(text), port(number)).unwrap_err();
    assert_eq!(refused("a.evil.example", 443), Refusal::DeniedName);
    assert_eq!(refused("a.example", 6881), Refusal::DeniedPort);
    assert_eq!(refused("localhost", 443), Refusal::Loopback);
    assert_eq!(refused("a.LOCALHOST.", 443), Refusal::Loopback);
    assert_eq!(refused("printer.local", 443), Refusal::LinkLocal);
    assert!(policy.check_name(&name("notevil.example"), port(443)).is_ok());
}

#[test]
fn ports_that_are_often_abused_need_a_rule_that_names_them() {
    let address = "8.8.8.8".parse().unwrap();
    for (number, reason) in DENIED_PORTS {
        let result = Policy::default().check_literal(address, port(number));
        assert_eq!(result, Err(Refusal::DeniedPort), "{reason}");
    }
    for rule in ["allow *", "allow 8.8.8.8"] {
        let result = policy(&[rule]).check_literal(address, port(25));
        assert_eq!(result, Err(Refusal::DeniedPort));
    }
    for rule in ["allow * 25", "allow 8.8.8.8 25"] {
        assert_eq!(policy(&[rule]).check_literal(address, port(25)), Ok(()));
    }
    let policy = policy(&["allow mail.example 25"]);
    let by_name = policy.check_name(&name("mail.example"), port(25)).unwrap();
    assert_eq!(policy.check_address(address, port(25), by_name), Ok(()));
    assert!(DENIED_PORTS.is_sorted());
}

#[test]
fn destinations_of_packets_have_no_port() {
    let policy = policy(&["allow 10.0.0.0/8 443", "deny 8.8.8.8 443", "deny 8.8.4.4"]);
    let check = |address: &str| policy.check_destination(address.parse().unwrap());
    assert_eq!(check("10.0.0.1"), Err(Refusal::Private));
    assert_eq!(check("8.8.8.8"), Ok(()));
    assert_eq!(check("8.8.4.4"), Err(Refusal::DeniedNetwork));
    assert_eq!(check("64:ff9b::8.8.4.4"), Err(Refusal::DeniedNetwork));
}

#[test]
fn names_in_scopes_have_no_port() {
    let policy = policy(&["allow inside.example", "deny .example 443", "deny other.example"]);
    let check = |name: &str| policy.check_scope_name(&Name::parse(name).unwrap());
    let admission = check("inside.example").unwrap();
    assert_eq!(policy.check_scope_address("8.8.8.8".parse().unwrap(), admission), Ok(()));
    assert!(check("any.example").is_ok());
    assert_eq!(check("other.example"), Err(Refusal::DeniedName));
    assert_eq!(check("localhost"), Err(Refusal::Loopback));
}

#[test]
fn own_addresses_are_denied_unless_a_rule_allows_exactly_one() {
    let own = ["8.8.8.8".parse().unwrap(), "::ffff:8.8.4.4".parse().unwrap()];
    let rules = ["allow 8.8.0.0/16", "allow 0.0.0.0/0", "allow *"];
    for rule in rules {
        let policy = policy(&[rule]).with_own_addresses(own);
        for address in ["8.8.8.8", "8.8.4.4", "::ffff:8.8.8.8", "64:ff9b::8.8.4.4"] {
            assert_eq!(check(&policy, address), Err(Refusal::OwnAddress), "{rule} {address}");
        }
        assert_eq!(check(&policy, "8.8.8.9"), Ok(()), "{rule}");
    }
    let policy = policy(&["allow 8.8.8.8 443"]).with_own_addresses(own);
    assert_eq!(check(&policy, "8.8.8.8"), Ok(()));
    assert_eq!(check(&policy, "8.8.4.4"), Err(Refusal::OwnAddress));
    let port = |port: u16| port.try_into().ok();
    let own_check =
        |address: &str, number| policy.check_own_address(address.parse().unwrap(), port(number));
    assert_eq!(own_check("8.8.8.8", 443), Ok(()));
    assert_eq!(own_check("8.8.8.8", 80), Err(Refusal::OwnAddress));
    assert_eq!(own_check("9.9.9.9", 443), Err(Refusal::OwnAddress));
    assert_eq!(own_check("127.0.0.1", 443), Ok(()));
}

#[test]
fn rules_are_parsed_or_refused() {
    for (text, error) in [
        ("", RuleError::Action),
        ("permit *", RuleError::Action),
        ("allow", RuleError::Subject),
        ("allow a..b", RuleError::Subject),
        ("allow 10.0.0.1/8", RuleError::HostBits),
        ("allow * http", RuleError::Ports),
        ("allow * 9-8", RuleError::Ports),
        ("allow * 65536", RuleError::Ports),
        ("allow * 1 2", RuleError::Excess),
    ] {
        assert_eq!(text.parse::<Rule>(), Err(error), "{text}");
    }
    let domain = Rule::domain(Action::Deny, name("a.example")).with_ports(1..=2);
    assert_eq!("deny .a.example 1-2".parse(), Ok(domain));
    let network = Rule::network(Action::Allow, "fd00::/8".parse().unwrap());
    assert_eq!(" allow  fd00::/8 ".parse(), Ok(network));
    assert_eq!("deny *".parse(), Ok(Rule::any(Action::Deny)));
    let address = "8.8.8.8".parse().unwrap();
    let result = policy(&["deny *"]).check_literal(address, port(443));
    assert_eq!(result, Err(Refusal::NotAllowed));
}

/// Returns IPv6 addresses that contain `inner`.
fn containing(inner: Ipv4Addr, other: u128) -> Vec<Ipv6Addr> {
    let bits = u128::from(inner.to_bits());
    let low = other & 0xffff_ffff_ffff_ffff_ffff;
    let teredo = 0x2001_0000u128 << 96;
    [
        0xffff << 32 | bits,
        0x64_ff9b << 96 | bits,
        0x2002u128 << 112 | bits << 80 | low,
        teredo | bits << 64 | 0xf7f7_f7f7,
        teredo | 0x0808_0808u128 << 64 | u128::from(!inner.to_bits()),
        0x2600_u128 << 112 | 0x5efe << 32 | bits,
    ]
    .map(Ipv6Addr::from_bits)
    .to_vec()
}

proptest! {
    #[test]
    fn an_address_is_denied_if_the_one_inside_it_is(
        inner in prop_oneof![any::<u32>(), 0x0a00_0000u32..0x0b00_0000, 0x7f00_0000u32..0x8000_0000],
        other: u128,
        number in 1u16..,
        rules in proptest::sample::subsequence(
            vec!["allow 10.0.0.0/8", "deny 0.0.0.0/1", "allow ::/0", "allow * 1-1000", "allow 2002::/16"], 0..5,
        ),
    ) {
        let policy = policy(&rules);
        let inner = Ipv4Addr::from_bits(inner);
        if policy.check_literal(inner.into(), port(number)).is_err() {
            for outer in containing(inner, other) {
                let result = policy.check_literal(outer.into(), port(number));
                prop_assert!(result.is_err(), "{outer}");
            }
        }
    }

    #[test]
    fn a_permitted_address_is_global_unicast(bits: u128, is_v4: bool) {
        let address: IpAddr = match is_v4 {
            true => Ipv4Addr::from_bits(bits as u32).into(),
            false => Ipv6Addr::from_bits(bits).into(),
        };
        if check(&Policy::default(), &address.to_string()).is_ok() {
            prop_assert!(!address.is_loopback() && !address.is_multicast());
            prop_assert!(!address.is_unspecified());
            match address {
                IpAddr::V4(address) => prop_assert!(!address.is_private() && !address.is_link_local()),
                IpAddr::V6(address) => prop_assert_eq!(address.segments()[0] >> 13, 1),
            }
        }
    }
}
