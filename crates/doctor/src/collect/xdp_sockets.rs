//! AF_XDP sockets and their drops, from SOCK_DIAG; many kernels are built without support for it.

use std::ops::{ControlFlow, Range};

use super::files::{Files, Malformed, parsed};
use super::netlink::{Attributes, Netlink, u32_at, u64_at};
use crate::snapshot::{Counters, Missing, Reading, SocketKey, XdpSocket, XdpSockets};

// Constants from linux/sock_diag.h and linux/xdp_diag.h.
const BY_FAMILY: u16 = 20;
const AF_XDP: u8 = 44;
/// `struct xdp_diag_req`, and its field for the requested parts.
const REQUEST: usize = 20;
const WANTED: Range<usize> = 8..12;
const WANT_INFORMATION: u32 = 1;
const WANT_STATISTICS: u32 = 1 << 4;
/// Size of `struct xdp_diag_msg`, in bytes.
const HEADER: usize = 16;
const INFORMATION: u16 = 1;
const USER: u16 = 2;
const STATISTICS: u16 = 9;

/// The fields of `struct xdp_diag_stats`.
const NAMES: [&str; 6] =
    ["rx_dropped", "rx_invalid", "rx_full", "fill_ring_empty", "tx_invalid", "tx_ring_empty"];
/// Maximum number of sockets to list. Normally there is at most one per device queue.
const MAX_SOCKETS: usize = 1 << 14;

/// Returns the AF_XDP sockets of this namespace.
pub(super) fn xdp_sockets(
    netlink: Result<&mut Netlink, Missing>,
    files: &Files,
) -> Reading<XdpSockets> {
    let failed = match netlink.and_then(by_diag) {
        Ok(sockets) => return Reading::Seen(sockets),
        Err(missing) => missing,
    };
    // Every kernel that supports AF_XDP sockets reports how many there are.
    match parsed(&files.net("protocols"), count) {
        Reading::Seen(0) => Reading::Seen(XdpSockets::new()),
        Reading::Seen(_) => Reading::Missing(failed),
        Reading::Missing(missing) => Reading::Missing(missing),
    }
}

fn by_diag(netlink: &mut Netlink) -> Result<XdpSockets, Missing> {
    let mut request = [0; REQUEST];
    request[0] = AF_XDP;
    let wanted = (WANT_INFORMATION | WANT_STATISTICS).to_ne_bytes();
    request[WANTED].copy_from_slice(&wanted);
    let mut sockets = XdpSockets::new();
    netlink.list(BY_FAMILY, &request, &mut sockets, XdpSockets::clear, |sockets, body| {
        sockets.extend(diagnosed(body));
        if sockets.len() > MAX_SOCKETS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match sockets.len() > MAX_SOCKETS {
        true => Err(Missing::Failed(format!("there are more than {MAX_SOCKETS} sockets"))),
        false => Ok(sockets),
    }
}

/// Parses an AF_XDP socket in a message. Kernels before 5.9 report the socket but not its drop
/// counters.
fn diagnosed(body: &[u8]) -> Option<(SocketKey, XdpSocket)> {
    let cookie = u64::from(u32_at(body, 8)?) | u64::from(u32_at(body, 12)?) << 32;
    let attributes = Attributes::after(body, HEADER);
    let place = attributes.find(INFORMATION);
    let of_place = |at| place.and_then(|bytes| u32_at(bytes, at));
    let statistics = attributes.find(STATISTICS).and_then(|bytes| {
        let mut counters = Counters::new();
        for (name, at) in NAMES.iter().zip((0..).step_by(size_of::<u64>())) {
            counters.insert((*name).to_owned(), u64_at(bytes, at)?);
        }
        Some(counters)
    });
    let socket = XdpSocket {
        inode: u32_at(body, 4)?.into(),
        user: attributes.find(USER).and_then(|bytes| u32_at(bytes, 0)),
        device: of_place(0).filter(|index| *index != 0),
        queue: of_place(4),
        statistics: statistics.map_or(Reading::Missing(Missing::Kernel), Reading::Seen),
    };
    Some((SocketKey(cookie), socket))
}

/// Returns the number of AF_XDP sockets in this namespace, from `/proc/net/protocols`.
fn count(text: &str) -> Result<u64, Malformed> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    if heading.split_whitespace().nth(2) != Some("sockets") {
        return Err(Malformed::of(heading));
    }
    let is_of_xdp = |line: &&str| line.split_whitespace().next() == Some("XDP");
    // If there is no line for XDP, the kernel does not support such sockets.
    let Some(line) = lines.find(is_of_xdp) else { return Ok(0) };
    let number = line.split_whitespace().nth(2).and_then(|word| word.parse().ok());
    number.ok_or_else(|| Malformed::of(line))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::net::netlink::SOCK_DIAG;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::super::netlink::attribute;
    use super::*;

    fn message() -> Vec<u8> {
        let words = |all: &[u32]| all.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<_>>();
        let mut body = vec![AF_XDP, 3, 0, 0];
        body.extend(words(&[5157, 7, 1]));
        body.extend(attribute(INFORMATION, &words(&[2, 3])));
        body.extend(attribute(USER, &words(&[1000])));
        let statistics: Vec<u8> = (1..=6_u64).flat_map(u64::to_ne_bytes).collect();
        body.extend(attribute(STATISTICS, &statistics));
        body
    }

    #[test]
    fn a_socket_of_sock_diag() {
        let (key, socket) = diagnosed(&message()).unwrap();
        assert_eq!(key, SocketKey(1 << 32 | 7));
        assert_eq!((socket.inode, socket.user), (5157, Some(1000)));
        assert_eq!((socket.device, socket.queue), (Some(2), Some(3)));
        let statistics = socket.statistics.seen().unwrap();
        assert_eq!((statistics["rx_dropped"], statistics["fill_ring_empty"]), (1, 4));
        // The message is truncated, or comes from a kernel without statistics: the drops are
        // missing, not 0.
        for len in 0..message().len() {
            let socket = diagnosed(&message()[..len]);
            assert!(socket.is_none_or(|(_, it)| it.statistics.seen().is_none()), "{len}");
        }
    }

    #[test]
    fn sockets_are_counted_where_they_cannot_be_listed() {
        let heading = "protocol  size sockets  memory press maxhdr  slab module     cl co\n";
        assert_eq!(count(&format!("{heading}XDP  1088  2  -1  NI  0  no  kernel  n n\n")), Ok(2));
        assert_eq!(count(&format!("{heading}UDP  1280  7   3  NI  0  yes kernel  y n\n")), Ok(0));
        assert!(count(&format!("{heading}XDP  1088\n")).is_err() && count("").is_err());
    }

    /// Kernels that support SOCK_DIAG list the socket, and any other kernel causes the part to be
    /// reported as missing.
    #[test]
    fn a_socket_of_this_process_is_never_overlooked() {
        // Requires CAP_NET_RAW.
        let Ok(_socket) = socket(AddressFamily::XDP, SocketType::RAW, None) else { return };
        let mut netlink = Netlink::open(Some(SOCK_DIAG)).unwrap();
        match xdp_sockets(Ok(&mut netlink), &Files::of_system()) {
            Reading::Seen(sockets) => assert!(!sockets.is_empty()),
            Reading::Missing(missing) => assert_eq!(missing, Missing::Kernel),
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "[0-9A-Z \n]{0,120}") {
            let _ = (diagnosed(&bytes), count(&text));
        }
    }
}
