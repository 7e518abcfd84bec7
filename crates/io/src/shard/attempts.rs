//! Connection attempts to which the peer has not responded yet, by the peer's address. Reports that
//! an address is unreachable affect only such attempts, since anyone can forge these reports.

use core::net::SocketAddr;
use std::collections::BTreeSet;

/// Attempts, each identified by its connection's
/// [index](clearway_transport::ConnectionHandle::index).
#[derive(Debug, Default)]
pub(super) struct Attempts(BTreeSet<(SocketAddr, usize)>);

impl Attempts {
    pub(super) fn insert(&mut self, remote: SocketAddr, index: usize) {
        self.0.insert((remote, index));
    }

    /// Removes a connection attempt that has received a response or has ended.
    pub(super) fn remove(&mut self, remote: SocketAddr, index: usize) {
        self.0.remove(&(remote, index));
    }

    /// Removes and returns the first attempt to reach `remote`.
    pub(super) fn take(&mut self, remote: SocketAddr) -> Option<usize> {
        let of_remote = (remote, 0)..=(remote, usize::MAX);
        let first = *self.0.range(of_remote).next()?;
        self.0.remove(&first);
        Some(first.1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::Attempts;

    fn address(number: usize) -> SocketAddr {
        let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
        SocketAddr::from(([127, 1, high, low], 443))
    }

    #[test]
    fn a_report_finds_the_attempts_at_its_address_and_no_others() {
        for others in [1, 10_000] {
            let mut attempts = Attempts::default();
            for number in 0..others {
                attempts.insert(address(number + 1), number);
            }
            attempts.insert(address(0), 20_001);
            attempts.insert(address(0), 20_000);
            let found: Vec<usize> = core::iter::from_fn(|| attempts.take(address(0))).collect();
            assert_eq!(found, [20_000, 20_001]);
            assert_eq!(attempts.len(), others);
            attempts.remove(address(1), 0);
            assert_eq!(attempts.take(address(1)), None);
        }
    }
}
