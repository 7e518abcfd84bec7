//! Why the kernel does not take a connection's datagrams.

use core::net::{IpAddr, SocketAddr};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use core::time::Duration;

use clearway_transport::{SendFailure, Transmit};
use clearway_units::Timestamp;
use rustix::io::Errno;

/// The pause between two warnings of a shard.
const PAUSE: Duration = Duration::from_secs(10);

/// When a shard warns of batches that the kernel does not take: not of each, since a peer can choose a destination that has no
/// route, and since a firewall's rule concerns all.
#[derive(Default)]
pub(crate) struct Warnings {
    not_before: Option<Timestamp>,
    failures: u64,
}

impl Warnings {
    /// A batch failed: returns how many have since the last warning if another one is due.
    pub(crate) fn on_failure(&mut self, now: Timestamp) -> Option<u64> {
        self.failures = self.failures.saturating_add(1);
        if self.not_before.is_some_and(|time| now < time) {
            return None;
        }
        self.not_before = Some(now + PAUSE);
        Some(std::mem::take(&mut self.failures))
    }
}

/// Why `transmit` failed with `error`.
///
/// That the source address is gone has no error of its own: Linux reports EINVAL, ENETUNREACH or
/// EADDRNOTAVAIL, depending on the family and on the routes that are left. So the address itself is
/// tried, which costs nothing while sending works.
pub(crate) fn why_not_sent(error: &io::Error, transmit: &Transmit) -> SendFailure {
    let failure = match Errno::from_io_error(error) {
        Some(
            Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::HOSTDOWN
            | Errno::ADDRNOTAVAIL,
        ) => SendFailure::NoRoute,
        Some(Errno::PERM | Errno::ACCESS) => SendFailure::Forbidden,
        _ => SendFailure::Other,
    };
    let may_be_source = failure == SendFailure::NoRoute || error.kind() == ErrorKind::InvalidInput;
    match transmit.source_ip {
        Some(source) if may_be_source && is_gone(source) => SendFailure::AddressGone,
        _ => failure,
    }
}

/// Whether `address` is not one of this host.
fn is_gone(address: IpAddr) -> bool {
    let bound = UdpSocket::bind(SocketAddr::new(address.to_canonical(), 0));
    bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use clearway_transport::{EcnCodepoint, SocketIndex};

    use super::*;

    fn failure(errno: Errno, source_ip: Option<&str>) -> SendFailure {
        let transmit = Transmit {
            destination: ([192, 0, 2, 1], 443).into(),
            socket: SocketIndex::default(),
            source_ip: source_ip.map(|ip| ip.parse().unwrap()),
            size: 1200,
            segment_size: None,
            ecn: EcnCodepoint::NotEct,
        };
        why_not_sent(&errno.into(), &transmit)
    }

    #[test]
    fn warnings_have_a_pause_between_them_and_count_what_they_leave_out() {
        let mut warnings = Warnings::default();
        let at = |seconds| Timestamp::from_origin(Duration::from_secs(seconds));
        assert_eq!(warnings.on_failure(at(1)), Some(1));
        assert_eq!(warnings.on_failure(at(1)), None);
        assert_eq!(warnings.on_failure(at(10)), None);
        assert_eq!(warnings.on_failure(at(11)), Some(3));
        assert_eq!(warnings.on_failure(at(12)), None);
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
