//! Classification of send errors.

use core::net::{IpAddr, SocketAddr};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use rustix::io::Errno;

/// The reason why the kernel rejected a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendFailure {
    /// The source address is no longer an address of this host.
    AddressGone,
    /// There is no route to the destination, or its interface is down.
    NoRoute,
    /// A local rule, such as a firewall rule, forbids sending.
    Forbidden,
    /// Any other reason.
    Other,
}

impl SendFailure {
    /// Returns why a batch with this source address, if any, [failed](crate::SendOutcome::Failed)
    /// with `error`.
    ///
    /// There is no specific error code for a source address that is gone: Linux reports EINVAL,
    /// ENETUNREACH or EADDRNOTAVAIL, depending on the address family and the remaining routes. So
    /// this function tries to bind the address, which costs nothing while sending works.
    pub fn of(error: &io::Error, source_ip: Option<IpAddr>) -> Self {
        let failure = match Errno::from_io_error(error) {
            Some(
                Errno::NETUNREACH
                | Errno::HOSTUNREACH
                | Errno::NETDOWN
                | Errno::HOSTDOWN
                | Errno::ADDRNOTAVAIL,
            ) => Self::NoRoute,
            // This covers EPERM and EACCES.
            _ if error.kind() == ErrorKind::PermissionDenied => Self::Forbidden,
            _ => Self::Other,
        };
        let may_be_source = failure == Self::NoRoute || error.kind() == ErrorKind::InvalidInput;
        match source_ip {
            Some(source) if may_be_source && is_gone(source) => Self::AddressGone,
            _ => failure,
        }
    }
}

/// Returns whether `address` is not an address of this host.
fn is_gone(address: IpAddr) -> bool {
    let bound = UdpSocket::bind(SocketAddr::new(address.to_canonical(), 0));
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(errno: Errno, source_ip: Option<&str>) -> SendFailure {
        SendFailure::of(&errno.into(), source_ip.map(|ip| ip.parse().unwrap()))
    }

    #[test]
    fn a_source_address_that_is_gone_is_told_from_a_missing_route() {
        for errno in [Errno::NETUNREACH, Errno::INVAL, Errno::ADDRNOTAVAIL] {
            assert_eq!(failure(errno, Some("192.0.2.7")), SendFailure::AddressGone, "{errno:?}");
            assert_eq!(failure(errno, Some("::ffff:192.0.2.7")), SendFailure::AddressGone);
        }
        assert_eq!(failure(Errno::NETUNREACH, Some("127.0.0.1")), SendFailure::NoRoute);
        assert_eq!(failure(Errno::NETUNREACH, None), SendFailure::NoRoute);
        assert_eq!(failure(Errno::INVAL, Some("127.0.0.1")), SendFailure::Other);
        assert_eq!(failure(Errno::PERM, Some("192.0.2.7")), SendFailure::Forbidden);
    }
}
