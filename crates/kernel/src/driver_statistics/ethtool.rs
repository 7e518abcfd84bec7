//! Interface to SIOCETHTOOL, limited to reading a driver's statistics. The netlink family `ethtool`
//! has only the standardized statistics, and the well-maintained libraries lack this call.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc::{IFNAMSIZ, Ioctl, ifreq, ioctl};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// The request (linux/sockios.h). Its type differs between C libraries; `libc::SIOCETHTOOL` has
/// glibc's type.
const SIOCETHTOOL: Ioctl = 0x8946;
/// The maximum size of a response: 32,000 names. The largest drivers have several thousand.
const ROOM: usize = 1 << 20;
/// Size of the guard area in bytes: the largest page size, which is a multiple of all smaller page
/// sizes.
const GUARD: usize = 1 << 16;

/// Memory for a response from the kernel. The length of the response is not known in advance, so
/// inaccessible guard pages follow the memory.
#[derive(Debug)]
pub(super) struct Room {
    begin: *mut c_void,
}

// SAFETY: this is the only owner of the address of its mapping, which any thread may use.
unsafe impl Send for Room {}

impl Room {
    /// Maps the memory. Only the pages that the kernel writes are allocated.
    pub(super) fn map() -> io::Result<Self> {
        let (len, readable) = (ROOM + GUARD, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address of a new mapping, where nothing was before.
        let begin = unsafe { mmap_anonymous(null_mut(), len, readable, MapFlags::PRIVATE) }?;
        let room = Self { begin };
        let guard = begin.wrapping_byte_add(ROOM);
        // SAFETY: these are the last pages of the mapping; nothing refers to them, now or later.
        unsafe { mprotect(guard, GUARD, MprotectFlags::empty()) }?;
        Ok(room)
    }

    /// Returns the contents of the memory: the last request and its response.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: this much is mapped, readable and initialized (with zeros) until this is dropped,
        // and only `ask` writes there, which nobody can call while this is borrowed.
        unsafe { core::slice::from_raw_parts(self.begin.cast::<u8>(), ROOM) }
    }

    /// Sends a request about a device: a command and its fields. The response overwrites the
    /// request.
    ///
    /// # Errors
    ///
    /// Returns InvalidInput if the device's name is too long, and errors of the operating system,
    /// such as `EFAULT` if the response does not fit.
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
        // SAFETY: the kernel reads the request, and reads and writes memory from the request's
        // address on: the mapping, which this has borrowed exclusively. A response that does not
        // fit reaches the guard pages, and the call fails.
        let result = unsafe { ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: this is the entire mapping, and nothing refers to it any more. A failure would be
        // a bug in this file, and would leak the memory.
        let _ = unsafe { munmap(self.begin, ROOM + GUARD) };
    }
}

/// Creates a request about a device; the caller must still set its data pointer.
fn request(device: &str) -> io::Result<ifreq> {
    // The last byte terminates the name.
    if device.len() >= IFNAMSIZ || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: zeros are a valid value of the structure, which consists of numbers, addresses
    // without a lifetime, and unions of these.
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
        // ETHTOOL_GDRVINFO: the driver's name follows the command.
        room.ask(socket.as_fd(), "lo", &[3]).unwrap_err();
        assert_eq!(room.bytes().len(), ROOM);
        assert!(room.bytes()[4..].iter().all(|byte| *byte == 0));
        for name in ["a name that is too long", "l\0"] {
            let error = room.ask(socket.as_fd(), name, &[3]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// Every kernel can report whether the loopback device has a link.
    #[test]
    fn an_answer_is_not_an_error() {
        const ETHTOOL_GLINK: u32 = 0x0a;
        let (socket, mut room) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Room::map().unwrap());
        room.ask(socket.as_fd(), "lo", &[ETHTOOL_GLINK, 7]).unwrap();
        let (command, rest) = room.bytes().split_first_chunk().unwrap();
        assert_eq!(u32::from_ne_bytes(*command), ETHTOOL_GLINK);
        let has_link = u32::from_ne_bytes(*rest.first_chunk().unwrap());
        assert!(has_link <= 1, "{has_link} is not an answer");
    }

    /// Returns the size in bytes of this process's address space, assuming pages of 4 KiB.
    fn address_space() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').next().unwrap().parse().unwrap();
        pages * 4096
    }

    #[test]
    fn all_of_the_mapping_is_given_back() {
        let before = address_space();
        (0..4096).for_each(|_| drop(Room::map().unwrap()));
        // Other tests may map memory at the same time.
        assert!(address_space() < before + 4096 * GUARD / 2);
    }

    #[test]
    fn what_does_not_fit_meets_the_guard() {
        let room = Room::map().unwrap();
        // The kernel reports an error where the program itself would crash.
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        let end = room.begin.wrapping_byte_add(ROOM - 8);
        // SAFETY: the call writes the last bytes of the mapping, which nothing else refers to, and
        // stops at the guard.
        let read = unsafe { nix::libc::read(zeros.as_raw_fd(), end, 64) };
        assert!(read <= 8, "{read}");
    }
}
