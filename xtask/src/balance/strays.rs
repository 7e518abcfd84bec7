//! Stray datagrams at servers that do not have the connection, classified by the server that their
//! connection IDs identify.
//!
//! A balancer that follows draft-ietf-quic-load-balancers routes a datagram whose connection ID
//! identifies a dead server to another one (§4.1: the ID is unroutable), which does not have the
//! connection. So after a server is killed, datagrams for unknown connections are not an error if
//! their IDs identify the killed server.

use std::ops::AddAssign;

use clearway_wire::header::Invariant;
use clearway_wire::quic_lb::IdCodec;

/// The text that identifies a log line about a stray datagram, and the text that precedes the
/// datagram's first octets in that line.
const EVENT: &str = "datagram belongs to no connection";
const BEGINS: &str = "begins=";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Strays {
    /// Datagrams whose IDs identify another running server: they were routed to the wrong one.
    pub(super) misrouted: u64,
    /// Datagrams whose IDs identify the server that received them: the connection has ended, or the
    /// ID was retired.
    pub(super) late: u64,
    /// Datagrams whose IDs identify a server that is not running.
    pub(super) killed_server: u64,
    /// Datagrams whose IDs do not identify a server.
    pub(super) unknown_server: u64,
}

impl Strays {
    /// Counts the datagrams in the log of server number `at`, skipping the first `known`. Also
    /// returns the total number in the log. `runs` returns whether a server is running.
    pub(super) fn read(
        log: &str,
        (at, known): (usize, usize),
        codec: &IdCodec,
        runs: impl Fn(usize) -> bool,
        number_of: impl Fn(&[u8]) -> Option<usize>,
    ) -> Result<(Self, usize), String> {
        let mut strays = Self::default();
        // The last line may be incomplete.
        let end = log.rfind('\n').unwrap_or(0);
        let lines = log.get(..end).unwrap_or_default().lines();
        let mut count = 0;
        for line in lines.filter(|line| line.contains(EVENT)) {
            count += 1;
            if count <= known {
                continue;
            }
            let octets = octets(line).ok_or_else(|| format!("cannot parse the line: {line}"))?;
            let named = id(&octets, codec).and_then(|id| codec.decode(id));
            let named = named.and_then(|server_id| number_of(server_id.as_bytes()));
            let counter = match named {
                None => &mut strays.unknown_server,
                Some(number) if number == at => &mut strays.late,
                Some(number) if runs(number) => &mut strays.misrouted,
                Some(_) => &mut strays.killed_server,
            };
            *counter += 1;
        }
        Ok((strays, count))
    }
}

impl AddAssign for Strays {
    fn add_assign(&mut self, other: Self) {
        self.misrouted += other.misrouted;
        self.late += other.late;
        self.killed_server += other.killed_server;
        self.unknown_server += other.unknown_server;
    }
}

/// Returns the connection ID of a datagram that begins with these octets.
fn id<'a>(octets: &'a [u8], codec: &IdCodec) -> Option<&'a [u8]> {
    let id = Invariant::decode(octets, codec.id_len()).ok()?.destination_connection_id();
    (id.len() == codec.id_len()).then_some(id)
}

/// Parses the first octets of a datagram from a log line, where they may be quoted and contain
/// color codes.
fn octets(line: &str) -> Option<Vec<u8>> {
    let plain = without_colours(line);
    let (_, digits) = plain.split_once(BEGINS)?;
    let digits: String =
        digits.trim_start_matches('"').chars().take_while(char::is_ascii_hexdigit).collect();
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Removes terminal escape sequences that end with `m` (ECMA-48).
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use clearway_wire::quic_lb::{ConfigId, ServerId};

    use super::*;

    fn codec() -> IdCodec {
        IdCodec::new(ConfigId::new(1).unwrap(), 2, 9, None).unwrap()
    }

    /// Returns a log line about a datagram whose ID identifies this server.
    fn line(server: u8) -> String {
        let id = codec().encode(&ServerId::new(&[10, server]).unwrap(), &[7; 9], &[], 0).unwrap();
        let octets = [&[0x41], id.as_bytes(), &[9; 13]].concat();
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        format!(
            "12:00 \u{1b}[34mDEBUG\u{1b}[0m {EVENT} \u{1b}[3mbegins\u{1b}[0m\u{1b}[2m=\u{1b}[0m\"{digits}\" remote=x\n"
        )
    }

    fn read(log: &str, known: usize) -> Result<(Strays, usize), String> {
        let number_of = |id: &[u8]| match id {
            [10, number @ 1..=4] => Some(usize::from(number - 1)),
            _ => None,
        };
        Strays::read(log, (0, known), &codec(), |number| number != 2, number_of)
    }

    #[test]
    fn datagrams_are_told_apart_by_the_server_that_their_ids_name() {
        let unknown = format!("{EVENT} begins=41ffffffffffffffffffffffffffffffff remote=x\n");
        let log = [line(1), line(2), line(3), line(3), "other\n".to_owned(), unknown].concat();
        let strays = Strays { misrouted: 1, late: 1, killed_server: 2, unknown_server: 1 };
        assert_eq!(read(&log, 0), Ok((strays, 5)));
        let rest = Strays { killed_server: 1, unknown_server: 1, ..Strays::default() };
        assert_eq!(read(&log, 3), Ok((rest, 5)));
        let mut sum = strays;
        sum += rest;
        assert_eq!(sum, Strays { misrouted: 1, late: 1, killed_server: 3, unknown_server: 2 });
    }

    #[test]
    fn a_line_that_is_not_complete_is_left_for_later() {
        let log = [line(2), line(2)].concat();
        let (strays, count) = read(log.trim_end(), 0).unwrap();
        assert_eq!((strays.misrouted, count), (1, 1));
        assert!(read(&format!("{EVENT}\n"), 0).unwrap_err().starts_with("cannot parse the line"));
    }
}
