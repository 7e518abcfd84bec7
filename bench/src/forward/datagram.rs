//! The format of the datagrams: a short header with a QUIC-LB connection ID, and the connection's
//! number.
//!
//! ```text
//! Datagram {
//!   First Byte (8)         a short header
//!   Connection ID (..160)
//!   Padding (..)           up to the 21st octet
//!   Connection (32)        its number
//!   Rest (..)
//! }
//! ```

use clearway_units::Random;
use clearway_wire::ConnectionId;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

use crate::Outcome;

/// The header bytes at the beginning of a datagram.
pub(super) type Header = [u8; HEADER_LEN];

/// Minimum length of a datagram in bytes.
pub(super) const HEADER_LEN: usize = CONNECTION_AT + size_of::<u32>();
/// Offset of the connection number, which follows the longest possible connection ID.
const CONNECTION_AT: usize = 1 + ConnectionId::MAX_LEN;
/// First byte of a short header with the fixed bit set (RFC 9000 §17.3.1).
const FIRST_BYTE: u8 = 0x40;
/// The header form bit of long headers.
const LONG_HEADER: u8 = 0x80;

/// Returns the headers for connections 0 to `count`. The connections are assigned to the servers in
/// turn; server IDs are given in hexadecimal.
pub(super) fn headers(count: u32, servers: &[String], nonce_len: usize) -> Outcome<Vec<Header>> {
    let servers: Vec<ServerId> = servers.iter().map(|id| server_id(id)).collect::<Outcome<_>>()?;
    let first = servers.first().ok_or("there is no server")?;
    let config = ConfigId::new(0).ok_or("configuration 0 is missing")?;
    let codec = IdCodec::new(config, first.as_bytes().len(), nonce_len, None)?;
    (0..count).zip(servers.iter().cycle()).map(|(number, id)| header(number, id, &codec)).collect()
}

fn header(number: u32, server: &ServerId, codec: &IdCodec) -> Outcome<Header> {
    let mut nonce = [0; ConnectionId::MAX_LEN];
    let nonce = &mut nonce[..codec.nonce_len()];
    Random::from_number(number.into()).fill(nonce);
    let id = codec.encode(server, nonce, &[], 0).ok_or("the server IDs have different lengths")?;
    let mut header = [0; HEADER_LEN];
    header[0] = FIRST_BYTE;
    header[1..=codec.id_len()].copy_from_slice(id.as_bytes());
    header[CONNECTION_AT..].copy_from_slice(&number.to_be_bytes());
    Ok(header)
}

pub(crate) fn server_id(digits: &str) -> Outcome<ServerId> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let octet = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    let octets: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(octet).collect();
    let id = octets.and_then(|octets| ServerId::new(&octets));
    id.ok_or_else(|| format!("{digits} is not a server ID of 1 to 15 octets").into())
}

/// Returns the number of the connection that a datagram belongs to; `None` if the datagram has
/// another format.
pub(super) fn connection(datagram: &[u8]) -> Option<u32> {
    let is_short =
        datagram.first().is_some_and(|byte| byte & (FIRST_BYTE | LONG_HEADER) == FIRST_BYTE);
    let (_, number) = datagram.get(..HEADER_LEN)?.split_last_chunk()?;
    is_short.then(|| u32::from_be_bytes(*number))
}

/// Returns the octets of the connection ID that the forwarding loops examine.
pub(super) fn id_prefix(datagram: &[u8]) -> &[u8] {
    datagram.get(1..9).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(all: &[&str]) -> Vec<String> {
        all.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn connections_belong_to_the_servers_in_turn() {
        let all = headers(5, &ids(&["0a01", "0a02"]), 6).unwrap();
        let codec = IdCodec::new(ConfigId::new(0).unwrap(), 2, 6, None).unwrap();
        for (number, header) in (0..).zip(&all) {
            assert_eq!(connection(header), Some(number));
            let server = codec.decode(&header[1..]).unwrap();
            assert_eq!(server.as_bytes(), [0x0a, 1 + number as u8 % 2]);
        }
        let mut prefixes: Vec<_> = all.iter().map(|header| id_prefix(header)).collect();
        prefixes.dedup();
        assert_eq!(prefixes.len(), 5);
    }

    #[test]
    fn what_is_no_server_id_is_an_error() {
        for wrong in ["", "0", "xy", "+1", "00112233445566778899aabbccddeeff"] {
            assert!(headers(1, &ids(&[wrong]), 6).is_err(), "{wrong}");
        }
        assert!(headers(3, &ids(&["0a01", "0a"]), 6).is_err());
        assert!(headers(1, &[], 6).is_err() && headers(1, &ids(&["0a"]), 3).is_err());
    }

    #[test]
    fn other_datagrams_have_no_connection() {
        let header = headers(1, &ids(&["0a"]), 6).unwrap()[0];
        assert_eq!(connection(&header[..HEADER_LEN - 1]), None);
        assert_eq!(connection(&[0xc0; 100]), None);
        assert_eq!(connection(&[]), None);
    }
}
