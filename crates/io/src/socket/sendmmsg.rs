//! sendmmsg(2): several batches in one call to the kernel. This is unsafe code, since no library that is kept well offers that call with the
//! control messages of datagrams (ECN, segmentation, source address).
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use core::array;
use core::ffi::c_int;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use clearway_transport::Transmit;
use nix::libc::{self, iovec, mmsghdr};
use socket2::SockAddr;

/// How many batches a call takes at most.
pub(crate) const MAX_TOGETHER: usize = 32;

/// Passes batches to the kernel, at most [`MAX_TOGETHER`], in their order. Returns how many of them it has taken.
///
/// # Errors
/// Why it has not taken the first.
pub(super) fn sendmmsg<'a>(
    socket: BorrowedFd<'_>,
    batches: impl Iterator<Item = (&'a Transmit, &'a [u8])>,
) -> io::Result<usize> {
    let mut headers: [mmsghdr; MAX_TOGETHER] = array::from_fn(|_| empty());
    let mut vectors = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_TOGETHER];
    let mut addresses = [const { None::<SockAddr> }; MAX_TOGETHER];
    let mut controls = [const { ControlMessages::NONE }; MAX_TOGETHER];
    let parts = headers.iter_mut().zip(&mut vectors).zip(&mut addresses).zip(&mut controls);
    let mut count = 0;
    for ((((header, vector), address), control), (transmit, contents)) in parts.zip(batches) {
        let header = &mut header.msg_hdr;
        let address = address.insert(transmit.destination.into());
        header.msg_name = address.as_ptr().cast_mut().cast();
        header.msg_namelen = address.len();
        // The kernel does not write there, though the type would permit it.
        vector.iov_base = contents.as_ptr().cast_mut().cast();
        vector.iov_len = contents.len();
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        control.describe(transmit);
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.len as _;
        count += 1;
    }
    // SAFETY: the first `count` headers are complete. They lead to the contents, which are borrowed for longer than this call, and to
    // values of this function, which have not moved since.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A header without anything.
fn empty() -> mmsghdr {
    // SAFETY: a structure of integers and pointers, all of which may be zero.
    unsafe { mem::zeroed() }
}

/// The control messages of a batch in the kernel's form (`struct cmsghdr`): each has its length as a `size_t`, its level, its type and its
/// data, and begins at a multiple of the size of a `size_t`.
#[repr(align(8))]
struct ControlMessages {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl ControlMessages {
    const WORD: usize = size_of::<usize>();
    const HEAD: usize = Self::WORD + 2 * size_of::<c_int>();
    /// Enough for an ECN field, the size of the segments and an IPv6 address with an interface.
    const ROOM: usize = 3 * Self::HEAD + 8 + 8 + 24;
    const NONE: Self = Self { bytes: [0; Self::ROOM], len: 0 };

    fn describe(&mut self, transmit: &Transmit) {
        let ecn = c_int::from(transmit.ecn.bits()).to_ne_bytes();
        let is_ipv4 = match transmit.destination {
            SocketAddr::V4(_) => true,
            SocketAddr::V6(destination) => destination.ip().to_ipv4_mapped().is_some(),
        };
        match is_ipv4 {
            true => self.push(libc::IPPROTO_IP, libc::IP_TOS, &ecn),
            false => self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &ecn),
        }
        let segment = transmit.segment_size.filter(|segment| *segment < transmit.size);
        if let Some(segment) = segment.and_then(|segment| u16::try_from(segment).ok()) {
            self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match transmit.source_ip {
            // struct in_pktinfo: an interface, the source address, and an address that is not used for sending.
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
