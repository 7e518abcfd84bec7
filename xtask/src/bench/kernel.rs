//! Kernel counters of datagrams that were not delivered to a program.

use std::collections::BTreeSet;
use std::fs;

/// Counters of all IPv4 UDP sockets in this network namespace (`/proc/net/snmp`, RFC 4113).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UdpErrors {
    /// `InErrors`: datagrams that could not be delivered for any reason.
    pub(super) input: u64,
    /// `RcvbufErrors`: the subset of `InErrors` caused by a full receive buffer of a socket.
    pub(super) receive_buffer: u64,
}

impl UdpErrors {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            receive_buffer: self.receive_buffer.saturating_sub(earlier.receive_buffer),
        }
    }
}

pub(super) fn udp_errors() -> Result<UdpErrors, String> {
    let path = "/proc/net/snmp";
    let text = read(path)?;
    udp_errors_in(&text).ok_or_else(|| format!("{path} does not contain InErrors and RcvbufErrors"))
}

/// Parses the counters. The first line that begins with `Udp:` contains the names, the second one
/// the values.
fn udp_errors_in(text: &str) -> Option<UdpErrors> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted| {
        let mut all = names.split_whitespace().zip(values.split_whitespace());
        all.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(UdpErrors { input: value("InErrors")?, receive_buffer: value("RcvbufErrors")? })
}

/// Returns the number of datagrams that the IPv4 UDP sockets of a process have dropped since they
/// were created.
pub(super) fn socket_drops(process: u32) -> Result<u64, String> {
    let folder = format!("/proc/{process}/fd");
    let open = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let inodes: BTreeSet<String> = open
        .filter_map(|descriptor| {
            let target = fs::read_link(descriptor.ok()?.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    Ok(drops_in(&read("/proc/net/udp")?, &inodes))
}

/// Returns the sum of the last column over the sockets with these inodes, which the tenth column
/// contains.
fn drops_in(table: &str, inodes: &BTreeSet<String>) -> u64 {
    let drops = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_ours = inodes.contains(*columns.get(9)?);
        columns.last().filter(|_| is_ours)?.parse::<u64>().ok()
    });
    drops.sum()
}

/// Returns whether an IPv4 UDP socket has this port.
pub(super) fn is_bound(port: u16) -> Result<bool, String> {
    Ok(has_port(&read("/proc/net/udp")?, port))
}

/// Returns whether the table contains this port. The second column contains address and port in
/// hexadecimal.
fn has_port(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    let mut locals = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
    locals.any(|local| local.ends_with(&port))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "\
Tcp: RtoAlgorithm InErrors
Tcp: 1 7
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 100 2 31 90 30 0
UdpLite: InDatagrams NoPorts InErrors
UdpLite: 0 0 0
";
        let found = udp_errors_in(text);
        assert_eq!(found, Some(UdpErrors { input: 31, receive_buffer: 30 }));
        assert_eq!(udp_errors_in("Udp: InDatagrams\nUdp: 1\n"), None);
        assert!(udp_errors().is_ok());
    }

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  12: 0100007F:0016 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 5
  13: 0100007F:0017 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 9
";

    #[test]
    fn drops_are_those_of_the_sockets_asked_for() {
        let inodes = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(drops_in(TABLE, &inodes(&["4711"])), 5);
        assert_eq!(drops_in(TABLE, &inodes(&["4711", "4712"])), 14);
        assert_eq!(drops_in(TABLE, &inodes(&[])), 0);
        assert_eq!(socket_drops(std::process::id()), Ok(0));
    }

    #[test]
    fn ports_are_those_of_local_addresses() {
        assert!(has_port(TABLE, 0x16) && has_port(TABLE, 0x17));
        assert!(!has_port(TABLE, 0x1600) && !has_port(TABLE, 0));
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(is_bound(socket.local_addr().unwrap().port()), Ok(true));
    }
}
