use proptest::prelude::*;

use super::*;

fn target(host: &str, port: &str) -> Result<String, TargetError> {
    Target::from_variables(host, port).map(|target| target.to_string())
}

/// Tests the requirements of RFC 9298 §3.
#[test]
fn section_3_hosts_and_ports() {
    for (host, port, expected) in [
        ("192.0.2.6", "443", "192.0.2.6:443"),
        ("2001%3Adb8%3A%3A42", "443", "[2001:db8::42]:443"),
        ("2001:db8::42", "1", "[2001:db8::42]:1"),
        ("Target.Example.ORG", "65535", "target.example.org:65535"),
        ("target.example.", "0443", "target.example:443"),
        ("_dns.xn--fiqs8s%2Etest", "53", "_dns.xn--fiqs8s.test:53"),
    ] {
        assert_eq!(target(host, port).as_deref(), Ok(expected));
    }
    let long_label = "a".repeat(64);
    let long_name = ["a"; 128].join(".");
    for (host, error) in [
        ("", TargetError::EmptyHost),
        (".", TargetError::InvalidName),
        ("a..b", TargetError::InvalidName),
        ("fe80%3A%3A1%25eth0", TargetError::ZoneIdentifier),
        ("fe80::1%25eth0", TargetError::ZoneIdentifier),
        ("%5B%3A%3A1%5D", TargetError::InvalidAddress),
        ("1:2", TargetError::InvalidAddress),
        ("a%2", TargetError::InvalidEncoding),
        ("a%zz", TargetError::InvalidEncoding),
        ("%ff", TargetError::InvalidEncoding),
        // A value is decoded only once.
        ("a%252eb", TargetError::InvalidName),
        ("a%00b", TargetError::InvalidName),
        ("a%20b", TargetError::InvalidName),
        ("a%2Fb", TargetError::InvalidName),
        ("user%40host", TargetError::InvalidName),
        ("m%C3%BCnchen.example", TargetError::InvalidName),
        (&long_label, TargetError::NameTooLong),
        (&long_name, TargetError::NameTooLong),
        ("127.1", TargetError::AmbiguousAddress),
        ("2130706433", TargetError::AmbiguousAddress),
        ("0x7f000001", TargetError::AmbiguousAddress),
        ("0177.0.0.1", TargetError::AmbiguousAddress),
        ("127.0.0.0x1", TargetError::AmbiguousAddress),
        ("1.2.3.4.", TargetError::AmbiguousAddress),
        ("256.1.1.1", TargetError::AmbiguousAddress),
    ] {
        assert_eq!(target(host, "443"), Err(error), "{host}");
    }
    assert_eq!(target("a", ""), Err(TargetError::EmptyPort));
    for port in ["0", "65536", "+443", "-1", "44 3", "0x10", "000443", "443%00", "４４３"] {
        assert_eq!(target("a", port), Err(TargetError::InvalidPort), "{port}");
    }
}

#[test]
fn authorities_of_classic_connect() {
    let parse = |text: &str| Target::from_authority(text).map(|target| target.to_string());
    assert_eq!(parse("example.org:443").as_deref(), Ok("example.org:443"));
    assert_eq!(parse("[2001:db8::1]:80").as_deref(), Ok("[2001:db8::1]:80"));
    assert_eq!(parse("192.0.2.1:80").as_deref(), Ok("192.0.2.1:80"));
    assert_eq!(parse("example.org"), Err(TargetError::EmptyPort));
    assert_eq!(parse("example.org:"), Err(TargetError::EmptyPort));
    assert_eq!(parse(":80"), Err(TargetError::EmptyHost));
    assert_eq!(parse("2001:db8::1:80"), Err(TargetError::InvalidAddress));
    assert_eq!(parse("[192.0.2.1]:80"), Err(TargetError::InvalidAddress));
    assert_eq!(parse("[fe80::1%25eth0]:80"), Err(TargetError::ZoneIdentifier));
    assert_eq!(parse("user@example.org:80"), Err(TargetError::InvalidName));
}

fn scope(target: &str, protocol: &str) -> Result<(String, Option<u8>), TargetError> {
    let scope = IpScope::from_variables(Some(target), Some(protocol))?;
    Ok((scope.target.to_string(), scope.protocol))
}

/// Tests the requirements of RFC 9484 §4.6.
#[test]
fn section_4_6_scopes() {
    assert_eq!(IpScope::from_variables(None, None), Ok(IpScope::ANY));
    assert_eq!(scope("*", "%2A"), Ok(("*".into(), None)));
    for (target, expected) in [
        ("target.example.com", "target.example.com"),
        ("192.0.2.0%2F24", "192.0.2.0/24"),
        ("192.0.2.42%2F32", "192.0.2.42"),
        ("2001%3Adb8%3A%3A42", "2001:db8::42"),
        ("2001%3Adb8%3A%3A%2F32", "2001:db8::/32"),
        ("%3A%3A%2F0", "::/0"),
    ] {
        assert_eq!(scope(target, "17"), Ok((expected.into(), Some(17))), "{target}");
    }
    for (target, error) in [
        ("", TargetError::EmptyScope),
        ("192.0.2.1%2F24", TargetError::HostBits),
        ("2001%3Adb8%3A%3A1%2F64", TargetError::HostBits),
        ("192.0.2.0%2F33", TargetError::InvalidPrefixLength),
        ("192.0.2.0%2F024", TargetError::InvalidPrefixLength),
        ("192.0.2.0%2F%2B8", TargetError::InvalidPrefixLength),
        ("192.0.2.0%2F", TargetError::InvalidPrefixLength),
        ("%3A%3A%2F129", TargetError::InvalidPrefixLength),
        ("example.org%2F24", TargetError::InvalidName),
        ("fe80%3A%3A1%25eth0", TargetError::ZoneIdentifier),
    ] {
        assert_eq!(scope(target, "*"), Err(error), "{target}");
    }
    for (protocol, expected) in [("1", Ok(1)), ("255", Ok(255)), ("006", Ok(6)), ("256", Err(()))] {
        let result = scope("*", protocol).map(|(_, protocol)| protocol.unwrap());
        assert_eq!(result, expected.map_err(|()| TargetError::InvalidProtocol));
    }
    assert_eq!(scope("*", "0"), Err(TargetError::ExtensionHeader));
    assert_eq!(scope("*", ""), Err(TargetError::EmptyScope));
    assert_eq!(scope("*", "udp"), Err(TargetError::InvalidProtocol));
}

#[test]
fn a_name_is_within_a_domain_by_whole_labels() {
    let name = |text: &str| Name::parse(text).unwrap();
    assert!(name("a.example.org").is_within(&name("example.org")));
    assert!(name("EXAMPLE.org").is_within(&name("example.org.")));
    assert!(!name("badexample.org").is_within(&name("example.org")));
    assert!(!name("org").is_within(&name("example.org")));
}

proptest! {
    #[test]
    fn anything_is_parsed_or_refused(host in "\\PC{0,300}", port in "\\PC{0,8}") {
        if let Ok(target) = Target::from_variables(&host, &port) {
            let again = Target::from_authority(&target.to_string());
            prop_assert_eq!(again, Ok(target));
        }
        _ = IpScope::from_variables(Some(&host), Some(&port));
    }
}
