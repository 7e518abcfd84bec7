use clearway_wire::ResetToken;

use super::*;

fn preferred(v4: Option<&str>, v6: Option<&str>) -> PreferredAddress {
    PreferredAddress {
        ipv4: v4.map(|text| text.parse().unwrap()),
        ipv6: v6.map(|text| text.parse().unwrap()),
        connection_id: clearway_wire::ConnectionId::new(&[1; 8]).unwrap(),
        stateless_reset_token: ResetToken::new([2; 16]),
    }
}

/// §9.6.1: the address of the family with which the client is connected, in the form in which its socket names it.
#[test]
fn the_address_of_the_same_family_is_chosen() {
    let both = preferred(Some("192.0.2.9:443"), Some("[2001:db8::9]:443"));
    for (current, expected) in [
        ("192.0.2.1:443", Ok("192.0.2.9:443")),
        ("[2001:db8::1]:443", Ok("[2001:db8::9]:443")),
        ("[::ffff:192.0.2.1]:443", Ok("[::ffff:192.0.2.9]:443")),
    ] {
        let expected = expected.map(|text| text.parse().unwrap());
        assert_eq!(choose_address(&both, current.parse().unwrap()), expected);
    }
    let v6 = preferred(None, Some("[2001:db8::9]:443"));
    let chosen = choose_address(&v6, "192.0.2.1:443".parse().unwrap());
    assert_eq!(chosen, Err(IgnoredAddress::OtherFamily));
}

/// A server on the client's own host may prefer another loopback address.
#[test]
fn loopback_is_for_servers_on_loopback() {
    let loopback = preferred(Some("127.0.0.2:443"), Some("[::1]:443"));
    let from = |current: &str| choose_address(&loopback, current.parse().unwrap());
    assert_eq!(from("127.0.0.1:4433"), Ok("127.0.0.2:443".parse().unwrap()));
    assert_eq!(from("192.0.2.1:443"), Err(IgnoredAddress::Loopback));
    assert_eq!(from("[2001:db8::1]:443"), Err(IgnoredAddress::Loopback));
}
