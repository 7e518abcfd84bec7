//! Netlink: requests lists from the kernel, and parses messages and attributes.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};

use crate::snapshot::Missing;

// Constants from linux/netlink.h.
const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_REQUEST: u16 = 1;
const FLAG_DUMP: u16 = 0x300;
const FLAG_INTERRUPTED: u16 = 0x10;
/// An attribute's type without its flags.
const TYPE: u16 = 0x3fff;

/// Maximum size of one receive call. The kernel never fills more than this.
const BUFFER: usize = 1 << 16;
/// Timeout for a response. The kernel responds immediately; the timeout only prevents waiting
/// forever.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of attempts to read a list that changes while it is read.
const ATTEMPTS: u32 = 4;

/// A netlink socket for one part of the kernel.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

/// How a requested list ended.
enum Ended {
    Complete,
    /// The listed objects changed while they were listed.
    Interrupted,
}

impl Netlink {
    /// Opens a socket for this netlink protocol. The default is protocol 0, for routes and devices.
    pub(super) fn open(protocol: Option<Protocol>) -> Result<Self, Missing> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
        let socket = socket.map_err(|error| unopened(&error.into()))?;
        let failed = |error| missing(&io::Error::from(error));
        bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(failed)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT)).map_err(failed)?;
        Ok(Self { socket, buffer: vec![0; BUFFER], sequence: 0 })
    }

    /// Requests a list. `add` is called with each message's body, until it returns `Break`; `clear`
    /// is called if the list restarts because the listed objects have changed in the meantime.
    pub(super) fn list<T>(
        &mut self,
        kind: u16,
        request: &[u8],
        list: &mut T,
        clear: impl Fn(&mut T),
        mut add: impl FnMut(&mut T, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Missing> {
        for _ in 0..ATTEMPTS {
            match self.attempt(kind, request, &mut |body| add(list, body)) {
                Ok(Ended::Complete) => return Ok(()),
                Ok(Ended::Interrupted) => clear(list),
                Err(missing) => return Err(missing),
            }
        }
        Err(Missing::Failed("a kernel list changed during every attempt to read it".to_owned()))
    }

    fn attempt(
        &mut self,
        kind: u16,
        request: &[u8],
        add: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Ended, Missing> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = message(kind, FLAG_REQUEST | FLAG_DUMP, self.sequence, request);
        let failed = |error| missing(&io::Error::from(error));
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message, SendFlags::empty(), &kernel).map_err(failed)?;
        let mut is_interrupted = false;
        loop {
            let (_, len, from) =
                recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC).map_err(failed)?;
            let is_of_kernel = from
                .and_then(|from| SocketAddrNetlink::try_from(from).ok())
                .is_some_and(|from| from.pid() == 0);
            if !is_of_kernel {
                continue;
            }
            let received =
                self.buffer.get(..len).ok_or_else(|| malformed("the message is too long"))?;
            for message in Messages(received) {
                let message = message.ok_or_else(|| malformed("the lengths are inconsistent"))?;
                if message.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= message.flags & FLAG_INTERRUPTED != 0;
                match message.kind {
                    DONE if is_interrupted => return Ok(Ended::Interrupted),
                    DONE => return Ok(Ended::Complete),
                    ERROR => return Err(refusal(message.body)),
                    _ if add(message.body).is_break() => return Ok(Ended::Complete),
                    _ => {}
                }
            }
        }
    }
}

fn malformed(what: &str) -> Missing {
    Missing::Malformed(format!("malformed netlink response: {what}"))
}

/// Returns why the kernel rejected a request.
fn refusal(body: &[u8]) -> Missing {
    match i32_at(body, 0) {
        Some(number) => missing(&io::Error::from_raw_os_error(number.saturating_neg())),
        None => malformed("an error message without an error number"),
    }
}

/// Returns why a netlink socket could not be opened. Every kernel with networking has the address
/// family, and it requires no privileges, so if it is forbidden, a sandbox is the reason. A kernel
/// that lacks a part of netlink lacks that part's protocol.
fn unopened(error: &io::Error) -> Missing {
    let refused = [Errno::AFNOSUPPORT, Errno::PERM, Errno::ACCESS];
    match refused.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error())) {
        true => Missing::Sandbox("AF_NETLINK".to_owned()),
        false if error.raw_os_error() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => {
            Missing::Kernel
        }
        false => missing(error),
    }
}

/// Returns why a netlink call failed.
pub(super) fn missing(error: &io::Error) -> Missing {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Missing::Right("CAP_NET_ADMIN, to send netlink requests".to_owned())
        }
        // The kernel lacks the netlink family, or the module that provides it.
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => Missing::Kernel,
        _ => Missing::Failed(format!("netlink: {error}")),
    }
}

/// Creates a message with its header.
fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER.saturating_add(body.len())).unwrap_or(u32::MAX);
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

/// Iterates over received messages. A message with an invalid length is returned as `None` and is
/// the last one.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Option<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        if bytes.is_empty() {
            return None;
        }
        let read = || {
            let len = usize::try_from(u32_at(bytes, 0)?).ok()?;
            let body = bytes.get(HEADER..len)?;
            let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
            let message = Message { kind, flags, sequence: u32_at(bytes, 8)?, body };
            Some((message, bytes.get(aligned(len)..).unwrap_or_default()))
        };
        Some(read().map(|(message, rest)| {
            self.0 = rest;
            message
        }))
    }
}

/// Iterates over the attributes in a part of a message, with their types. An attribute with an
/// invalid length ends the iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Returns the attributes after a header of `len` bytes.
    pub(super) fn after(body: &'a [u8], len: usize) -> Self {
        Self(body.get(len..).unwrap_or_default())
    }

    /// Returns the first attribute of this type.
    pub(super) fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find_map(|(it, content)| (it == kind).then_some(content))
    }

    /// Returns the attributes nested in the first attribute of this type.
    pub(super) fn within(self, kind: u16) -> Self {
        Self(self.find(kind).unwrap_or_default())
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & TYPE;
        let content = bytes.get(4..len)?;
        self.0 = bytes.get(aligned(len)..).unwrap_or_default();
        Some((kind, content))
    }
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Decodes text that may be zero-terminated.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes)).into_owned()
}

/// Returns the bytes at an offset of a message.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// Returns the 32-bit word at this index of an array of words.
pub(super) fn word_at(words: &[u8], place: usize) -> Option<u32> {
    u32_at(words, place.checked_mul(4)?)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    array(bytes, at).map(i32::from_ne_bytes)
}

/// Creates an attribute, for tests of code that parses them.
#[cfg(test)]
pub(super) fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(4 + content.len()).unwrap().to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let two = [message(20, 2, 7, b"abc"), vec![0], message(DONE, 0, 7, b"")].concat();
        let read: Vec<_> = Messages(&two).map(|message| message.unwrap()).collect();
        assert_eq!(read[0], Message { kind: 20, flags: 2, sequence: 7, body: b"abc" });
        assert_eq!((read[1].kind, read.len()), (DONE, 2));
    }

    #[test]
    fn a_length_that_does_not_fit_ends_them() {
        let mut long = message(20, 0, 1, b"abcd");
        long[0] += 1;
        let mut short = message(20, 0, 1, b"abcd");
        short[0] = 15;
        for damaged in [&long[..], &short, &[1], &[0; 15]] {
            assert_eq!(Messages(damaged).collect::<Vec<_>>(), [None], "{damaged:?}");
        }
    }

    #[test]
    fn attributes_are_found_and_nested() {
        let inner = [attribute(1, b"veth\0"), attribute(2, &[])].concat();
        let bytes = [attribute(3, b"x"), attribute(0x8012, &inner), vec![9, 0]].concat();
        let all = Attributes::after(&bytes, 0);
        assert_eq!(all.within(0x12).find(1).map(text).as_deref(), Some("veth"));
        assert_eq!(all.find(4), None);
        assert_eq!(all.count(), 2);
    }

    #[test]
    fn the_kernels_refusals_have_reasons() {
        assert_eq!(refusal(&(-95_i32).to_ne_bytes()), Missing::Kernel);
        assert!(matches!(refusal(&(-1_i32).to_ne_bytes()), Missing::Right(_)));
        assert!(matches!(refusal(&(-12_i32).to_ne_bytes()), Missing::Failed(_)));
        assert!(matches!(refusal(&i32::MIN.to_ne_bytes()), Missing::Failed(_)));
        assert!(matches!(refusal(&[]), Missing::Malformed(_)));
    }

    #[test]
    fn a_family_that_every_kernel_has_is_refused_by_a_sandbox() {
        let of = |errno: Errno| unopened(&io::Error::from_raw_os_error(errno.raw_os_error()));
        let sandbox = Missing::Sandbox("AF_NETLINK".to_owned());
        for errno in [Errno::AFNOSUPPORT, Errno::PERM, Errno::ACCESS] {
            assert_eq!(of(errno), sandbox, "{errno}");
        }
        assert_eq!(of(Errno::PROTONOSUPPORT), Missing::Kernel);
        assert!(matches!(of(Errno::MFILE), Missing::Failed(_)));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_go_on_for_ever(bytes: Vec<u8>) {
            assert!(Messages(&bytes).count() <= bytes.len() / HEADER + 1);
            assert!(Attributes::after(&bytes, 0).count() <= bytes.len() / 4);
        }
    }
}
