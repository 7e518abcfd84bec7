//! SIOCETHTOOL, as far as reading a driver's statistics needs it: they are not to be had over netlink, whose family `ethtool`
//! has only those that the standards name, and the libraries that are kept well have not this call.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc::{IFNAMSIZ, SIOCETHTOOL, ifreq, ioctl};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The longest answer: 32,000 names. The largest drivers have some thousands.
const ROOM: usize = 1 << 20;
/// As large as the largest page, or a multiple of smaller ones.
const GUARD: usize = 1 << 16;

/// Memory for an answer of the kernel, which does not say before how long it is: so pages follow that nobody may write.
#[derive(Debug)]
pub(super) struct Room {
    begin: *mut c_void,
}

// SAFETY: it is the only one that has the address of its mapping, which any thread may use.
unsafe impl Send for Room {}

impl Room {
    /// Maps it. Only what the kernel writes takes memory.
    pub(super) fn map() -> io::Result<Self> {
        let (len, readable) = (ROOM + GUARD, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address of a new mapping, where nothing was before.
        let begin = unsafe { mmap_anonymous(null_mut(), len, readable, MapFlags::PRIVATE) }?;
        let room = Self { begin };
        let guard = begin.wrapping_byte_add(ROOM);
        // SAFETY: these are the last pages of the mapping, to which nothing refers and never will.
        unsafe { mprotect(guard, GUARD, MprotectFlags::empty()) }?;
        Ok(room)
    }

    /// What is in it: the last question and its answer.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: so much is mapped, readable and initialised (with zeros) until this is dropped, and only `ask` writes
        // there, which nobody can call while this is borrowed.
        unsafe { core::slice::from_raw_parts(self.begin.cast::<u8>(), ROOM) }
    }

    /// Asks for something about a device: a question is its command and what belongs to that, and the answer takes its place.
    ///
    /// # Errors
    ///
    /// InvalidInput if the device's name is too long; those of the system, `EFAULT` if the answer does not fit.
    pub(super) fn ask(
        &mut self,
        socket: BorrowedFd<'_>,
        device: &str,
        question: &[u32],
    ) -> io::Result<()> {
        let question: Vec<u8> = question.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: as in `bytes`; the borrow of `self` is exclusive.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.begin.cast::<u8>(), ROOM) };
        let place = bytes.get_mut(..question.len()).ok_or(io::ErrorKind::InvalidInput)?;
        place.copy_from_slice(&question);
        let mut request = request(device)?;
        request.ifr_ifru.ifru_data = self.begin.cast::<c_char>();
        // SAFETY: the kernel reads the request, and reads and writes where its address leads to from there on: the mapping,
        // which this has borrowed exclusively. What does not fit there meets the guard, and the call fails.
        let result = unsafe { ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing refers to it any more. That it fails would be a bug of this file,
        // and then memory is left mapped.
        let _ = unsafe { munmap(self.begin, ROOM + GUARD) };
    }
}

/// A request about a device, without an address yet.
fn request(device: &str) -> io::Result<ifreq> {
    // The last octet ends the name.
    if device.len() >= IFNAMSIZ || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: zeros are a value of the structure, which has numbers, addresses without a lifetime, and unions of these.
    let mut request: ifreq = unsafe { core::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as c_char;
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_answer_takes_the_place_of_the_question_and_no_more() {
        let (socket, mut room) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Room::map().unwrap());
        // ETHTOOL_GDRVINFO: the driver's name is behind the command.
        room.ask(socket.as_fd(), "lo", &[3]).unwrap_err();
        assert_eq!(room.bytes().len(), ROOM);
        assert!(room.bytes()[4..].iter().all(|byte| *byte == 0));
        for name in ["a name that is too long", "l\0"] {
            let error = room.ask(socket.as_fd(), name, &[3]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn what_does_not_fit_meets_the_guard() {
        let room = Room::map().unwrap();
        // The kernel reports what a program would die of.
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        let end = room.begin.wrapping_byte_add(ROOM - 8);
        // SAFETY: the call writes the last octets of the mapping, which nothing else refers to, and stops at the guard.
        let read = unsafe { nix::libc::read(zeros.as_raw_fd(), end, 64) };
        assert!(read <= 8, "{read}");
    }
}
