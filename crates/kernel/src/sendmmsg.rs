//! sendmmsg(2): sends several batches in one system call. It uses unsafe code because no
//! well-maintained library offers this call with the control messages that datagrams need (ECN,
//! segmentation offload, source address).
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use core::array;
use core::ffi::c_int;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc::{self, iovec, mmsghdr};
use socket2::SockAddr;

/// Maximum number of messages per call.
pub const MAX_MESSAGES: usize = 32;

/// Datagrams for one destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The destination.
    pub destination: SocketAddr,
    /// The local address to send from; `None` leaves the choice to the system.
    pub source_ip: Option<IpAddr>,
    /// The byte of the IP header that holds DSCP (RFC 2474) and ECN (RFC 3168).
    pub traffic_class: u8,
    /// The bytes of all datagrams.
    pub contents: &'a [u8],
    /// The size in bytes of each datagram (UDP_SEGMENT) except the last, which may be smaller;
    /// `None` if there is only one.
    pub segment_size: Option<usize>,
}

/// Passes up to [`MAX_MESSAGES`] messages, in order, to the kernel. Returns how many messages the
/// kernel has accepted, each with all of its datagrams.
///
/// # Errors
/// Returns the reason why the kernel did not accept the first message.
pub fn sendmmsg<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut headers: [mmsghdr; MAX_MESSAGES] = array::from_fn(|_| empty());
    let mut vectors = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_MESSAGES];
    let mut addresses = [const { None::<SockAddr> }; MAX_MESSAGES];
    let mut controls = [const { ControlMessages::NONE }; MAX_MESSAGES];
    let parts = headers.iter_mut().zip(&mut vectors).zip(&mut addresses).zip(&mut controls);
    let mut count = 0;
    for ((((header, vector), address), control), message) in parts.zip(messages) {
        let header = &mut header.msg_hdr;
        let address = address.insert(message.destination.into());
        header.msg_name = address.as_ptr().cast_mut().cast();
        header.msg_namelen = address.len();
        // The kernel does not write to this memory, although the type would allow it.
        vector.iov_base = message.contents.as_ptr().cast_mut().cast();
        vector.iov_len = message.contents.len();
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        control.describe(&message);
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.len as _;
        count += 1;
    }
    // SAFETY: the first `count` headers are complete. They point to the contents, which are
    // borrowed for longer than this call, and to values of this function, which have not moved
    // since.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Returns an empty header.
fn empty() -> mmsghdr {
    // SAFETY: a structure of integers and pointers, all of which may be zero.
    unsafe { mem::zeroed() }
}

/// The control messages of one message, in the kernel's format (`struct cmsghdr`): each has its
/// length as a `size_t`, its level, its type and its data, and is aligned to the size of a
/// `size_t`.
#[repr(align(8))]
struct ControlMessages {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl ControlMessages {
    const WORD: usize = size_of::<usize>();
    const HEAD: usize = Self::WORD + 2 * size_of::<c_int>();
    /// Buffer size for a traffic class, the segment size, and an IPv6 address with an interface.
    const ROOM: usize = 3 * Self::HEAD + 8 + 8 + 24;
    const NONE: Self = Self { bytes: [0; Self::ROOM], len: 0 };

    fn describe(&mut self, message: &Message<'_>) {
        let class = c_int::from(message.traffic_class).to_ne_bytes();
        let is_ipv4 = match message.destination {
            SocketAddr::V4(_) => true,
            SocketAddr::V6(destination) => destination.ip().to_ipv4_mapped().is_some(),
        };
        match is_ipv4 {
            true => self.push(libc::IPPROTO_IP, libc::IP_TOS, &class),
            false => self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
        }
        let segment = message.segment_size.filter(|segment| *segment < message.contents.len());
        if let Some(segment) = segment.and_then(|segment| u16::try_from(segment).ok()) {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match message.source_ip {
            // struct in_pktinfo: an interface, the source address, and an address that is not used
            // for sending.
            Some(IpAddr::V4(source)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // struct in6_pktinfo: the source address and an interface.
            Some(IpAddr::V6(source)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
    }

    fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let (length, rest) = self.bytes[self.len..].split_at_mut(Self::WORD);
        length.copy_from_slice(&(Self::HEAD + data.len()).to_ne_bytes());
        rest[..4].copy_from_slice(&level.to_ne_bytes());
        rest[4..8].copy_from_slice(&kind.to_ne_bytes());
        rest[8..8 + data.len()].copy_from_slice(data);
        self.len += (Self::HEAD + data.len()).next_multiple_of(Self::WORD);
    }
}
