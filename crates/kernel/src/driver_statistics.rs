//! Statistics of network device drivers, under the drivers' own names.

mod ethtool;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use ethtool::Room;

// Constants from linux/ethtool.h.
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
/// The string set with the names of statistics.
const NAMES_OF_STATISTICS: u32 = 1;
/// The length in bytes of a name, which is padded with zeros.
const NAME: usize = 32;
/// Offset of the names in `struct ethtool_gstrings`, after the fields for command, string set and
/// count.
const NAMES_AT: usize = 12;
/// Offset of the values in `struct ethtool_stats`, after the fields for command and count.
const VALUES_AT: usize = 8;
/// Number of attempts to read names and values, in case a driver changes its set of statistics in
/// between.
const ATTEMPTS: u32 = 3;

/// Reads driver statistics (`ethtool -S`) of the devices in one network namespace. Requires no
/// privileges.
#[derive(Debug)]
pub struct DriverStatistics {
    /// An unbound socket; only its network namespace matters.
    socket: OwnedFd,
    room: Room,
}

impl DriverStatistics {
    /// Opens a reader for the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system.
    pub fn open() -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, room: Room::map()? })
    }

    /// Returns the counters of a device's driver, under the driver's own names. Which counters
    /// include dropped packets differs from driver to driver. Values with the same name are added
    /// up.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`](io::ErrorKind::Unsupported) if the driver has no statistics, such as
    /// the loopback driver; [`InvalidInput`](io::ErrorKind::InvalidInput) if the name is too long
    /// for a device; other errors of the operating system, such as `ENODEV`.
    pub fn read(&mut self, device: &str) -> io::Result<BTreeMap<String, u64>> {
        for _ in 0..ATTEMPTS {
            let socket = self.socket.as_fd();
            self.room.ask(socket, device, &[GET_STRINGS, NAMES_OF_STATISTICS, 0])?;
            let names = names(self.room.bytes());
            self.room.ask(socket, device, &[GET_STATISTICS, 0])?;
            let values = values(self.room.bytes());
            if let Some(statistics) = paired(&names, &values) {
                return Ok(statistics);
            }
        }
        Err(io::Error::other(
            "the driver's set of statistics changed during every attempt to read it",
        ))
    }
}

/// Returns the names in a response.
fn names(answer: &[u8]) -> Vec<String> {
    let (names, _) = answer.get(NAMES_AT..).unwrap_or_default().as_chunks::<NAME>();
    let name = |bytes: &[u8; NAME]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    };
    names.iter().take(count(answer, NAMES_AT)).map(name).collect()
}

/// Returns the values in a response.
fn values(answer: &[u8]) -> Vec<u64> {
    let (values, _) = answer.get(VALUES_AT..).unwrap_or_default().as_chunks();
    values.iter().take(count(answer, VALUES_AT)).map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

/// Returns the 32-bit count that precedes offset `at`.
fn count(answer: &[u8], at: usize) -> usize {
    let bytes = at.checked_sub(4).and_then(|at| answer.get(at..)?.first_chunk());
    bytes.and_then(|it| usize::try_from(u32::from_ne_bytes(*it)).ok()).unwrap_or(0)
}

/// Pairs the values with their names; `None` if there are not as many values as names.
fn paired(names: &[String], values: &[u64]) -> Option<BTreeMap<String, u64>> {
    (names.len() == values.len()).then(|| {
        let mut statistics = BTreeMap::new();
        for (name, value) in names.iter().zip(values) {
            let sum: &mut u64 = statistics.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*value);
        }
        statistics
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(words: &[u32], content: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(content);
        bytes
    }

    fn name(text: &str) -> [u8; NAME] {
        let mut bytes = [0; NAME];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn names_and_values_are_paired() {
        let content = [name("rx_drops"), name("  rx"), name("rx_drops"), name("beyond the count")];
        let names = names(&answer(&[GET_STRINGS, 1, 3], content.as_flattened()));
        assert_eq!(names, ["rx_drops", "rx", "rx_drops"]);
        let content = [7_u64, 8, u64::MAX, 9].map(u64::to_ne_bytes);
        let values = values(&answer(&[GET_STATISTICS, 3], content.as_flattened()));
        let expected = [("rx", 8), ("rx_drops", u64::MAX)].map(|(name, it)| (name.to_owned(), it));
        assert_eq!(paired(&names, &values), Some(expected.into()));
        assert_eq!(paired(&names, &values[1..]), None);
    }

    #[test]
    fn a_device_without_statistics_or_that_is_not_there_is_told_apart() {
        let mut statistics = DriverStatistics::open().unwrap();
        let error = statistics.read("lo").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        let error = statistics.read("no device").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::ENODEV));
        assert_eq!(
            statistics.read(&"x".repeat(16)).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    proptest! {
        #[test]
        fn no_answer_is_read_beyond_its_end(bytes: Vec<u8>) {
            prop_assert!(names(&bytes).len() <= bytes.len() / NAME);
            prop_assert!(values(&bytes).len() <= bytes.len() / 8);
        }
    }
}
