//! Addresses as they are hashed and compared.

use core::net::{IpAddr, SocketAddr};

/// IP address and port. An IPv4 address in the form of IPv6 is the same as that of IPv4: which form a socket gives depends
/// on how it was opened. Flow label and scope do not count.
pub(crate) fn words(address: SocketAddr) -> [u64; 3] {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let bits = ip.to_bits();
    [(bits >> 64) as u64, bits as u64, u64::from(address.port())]
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddrV6;

    use super::*;

    #[test]
    fn one_address_in_two_forms() {
        let of = |text: &str| words(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:443"), of("[::ffff:192.0.2.1]:443"));
        assert_ne!(of("192.0.2.1:443"), of("192.0.2.1:444"));
        assert_ne!(of("192.0.2.1:443"), of("[::192.0.2.1]:443"));
        assert_ne!(of("[2001:db8::1]:443"), of("[2001:db8:1::]:443"));
    }

    #[test]
    fn a_flow_label_is_not_part_of_an_address() {
        let ip = "2001:db8::1".parse().unwrap();
        let of = |flow, scope| words(SocketAddr::V6(SocketAddrV6::new(ip, 443, flow, scope)));
        assert_eq!(of(0, 0), of(7, 3));
    }
}
