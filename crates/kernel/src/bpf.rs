//! Interface to bpf(2), limited to socket selection and counting at a tracepoint. It uses unsafe
//! code because no well-maintained library provides these calls without requiring a C compiler or
//! thirty other libraries.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

pub mod instructions;

use core::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::libc::{SO_ATTACH_REUSEPORT_EBPF, SOL_SOCKET, SYS_bpf, setsockopt, socklen_t, syscall};

// Constants from linux/bpf.h.
const MAP_CREATE: c_int = 0;
const MAP_LOOKUP_ELEM: c_int = 1;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const RAW_TRACEPOINT_OPEN: c_int = 17;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_REUSEPORT_SOCKARRAY: u32 = 20;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const PROG_TYPE_SK_REUSEPORT: u32 = 21;

/// An eBPF instruction (`struct bpf_insn`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    /// The operation code.
    pub code: u8,
    /// The numbers of two registers (source and destination).
    pub registers: u8,
    /// The offset of a memory access or a jump.
    pub offset: i16,
    /// The immediate operand.
    pub immediate: i32,
}

/// The argument of bpf(2): a prefix of `union bpf_attr`. The kernel treats missing fields as zero.
///
/// # Safety
/// The type is `repr(C)` without padding and has the kernel's fields for
/// [`COMMAND`](Self::COMMAND); the command only reads what an [`Address`] points to, and only
/// writes what an [`ExclusiveAddress`] points to.
unsafe trait Attributes {
    const COMMAND: c_int;
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

// SAFETY: these are the first fields of the structure for this command. It has no addresses.
unsafe impl Attributes for MapCreate {
    const COMMAND: c_int = MAP_CREATE;
}

#[repr(C)]
struct MapUpdate<'a> {
    map: RawFd,
    padding: u32,
    key: Address<'a, u32>,
    value: Address<'a, RawFd>,
    flags: u64,
}

// SAFETY: these are the fields of the structure for this command, which reads a key and a value of
// the sizes that the map was created with: in a `SocketArray`, both have four bytes.
unsafe impl Attributes for MapUpdate<'_> {
    const COMMAND: c_int = MAP_UPDATE_ELEM;
}

#[repr(C)]
struct MapLookup<'a> {
    map: RawFd,
    padding: u32,
    key: Address<'a, u32>,
    value: ExclusiveAddress<'a, u64>,
}

// SAFETY: these are the first fields of the structure for this command, which reads a key and
// writes a value of the sizes that the map was created with: four and eight bytes for all
// `Counters`, which are not per-CPU maps.
unsafe impl Attributes for MapLookup<'_> {
    const COMMAND: c_int = MAP_LOOKUP_ELEM;
}

#[repr(C)]
struct TracepointOpen<'a> {
    name: Address<'a, u8>,
    program: RawFd,
    padding: u32,
}

// SAFETY: these are the first fields of the structure for this command, which reads the name up to
// its terminating zero: `trace` takes it from a C string.
unsafe impl Attributes for TracepointOpen<'_> {
    const COMMAND: c_int = RAW_TRACEPOINT_OPEN;
}

#[repr(C)]
struct ProgramLoad<'a> {
    program_type: u32,
    instruction_count: u32,
    instructions: Address<'a, Instruction>,
    license: Address<'a, u8>,
}

// SAFETY: these are the first fields of the structure for this command, which reads as many
// instructions as the slice has from which `load` takes address and length, and the license up to
// its terminating zero.
unsafe impl Attributes for ProgramLoad<'_> {
    const COMMAND: c_int = PROG_LOAD;
}

/// An address in the 64-bit form that the kernel expects on every architecture.
#[repr(transparent)]
struct Address<'a, T>(u64, core::marker::PhantomData<&'a T>);

impl<'a, T> Address<'a, T> {
    fn of(value: &'a T) -> Self {
        Self(core::ptr::from_ref(value).expose_provenance() as u64, core::marker::PhantomData)
    }

    fn of_first(values: &'a [T]) -> Self {
        Self(values.as_ptr().expose_provenance() as u64, core::marker::PhantomData)
    }
}

/// The address of a value that the kernel writes.
#[repr(transparent)]
struct ExclusiveAddress<'a, T>(u64, core::marker::PhantomData<&'a mut T>);

impl<'a, T> ExclusiveAddress<'a, T> {
    fn of(value: &'a mut T) -> Self {
        Self(core::ptr::from_mut(value).expose_provenance() as u64, core::marker::PhantomData)
    }
}

fn bpf<A: Attributes>(attributes: &A) -> io::Result<RawFd> {
    let size = core::mem::size_of::<A>();
    // SAFETY: the kernel reads `size` bytes of attributes, and by the contract of the trait only
    // reads what they point to, or writes what they borrow exclusively; their lifetimes keep both
    // alive.
    let result = unsafe { syscall(SYS_bpf, A::COMMAND, core::ptr::from_ref(attributes), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

fn bpf_descriptor<A: Attributes>(attributes: &A) -> io::Result<OwnedFd> {
    let descriptor = bpf(attributes)?;
    // SAFETY: the commands that use this function return a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// An array of sockets from which a program selects (`BPF_MAP_TYPE_REUSEPORT_SOCKARRAY`).
#[derive(Debug)]
pub struct SocketArray(OwnedFd);

impl SocketArray {
    /// Creates an array with `size` entries, all empty.
    ///
    /// # Errors
    /// Returns errors of the operating system, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without CAP_BPF.
    pub fn create(size: u32) -> io::Result<Self> {
        let map_type = MAP_TYPE_REUSEPORT_SOCKARRAY;
        let map = MapCreate { map_type, key_size: 4, value_size: 4, max_entries: size };
        bpf_descriptor(&map).map(Self)
    }

    /// Stores a bound socket with the option SO_REUSEPORT in entry `place`, counted from 0.
    ///
    /// # Errors
    /// Returns errors of the operating system, for example if there is no such entry.
    pub fn put(&self, place: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket.as_raw_fd();
        let (key, value) = (Address::of(&place), Address::of(&socket));
        bpf(&MapUpdate { map: self.0.as_raw_fd(), padding: 0, key, value, flags: 0 })?;
        Ok(())
    }
}

impl AsRawFd for SocketArray {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An array of counters, shared by all CPUs.
#[derive(Debug)]
pub struct Counters(OwnedFd);

impl Counters {
    /// Creates `size` counters, all 0.
    ///
    /// # Errors
    /// Returns errors of the operating system, such as
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without CAP_BPF.
    pub fn create(size: u32) -> io::Result<Self> {
        let map_type = MAP_TYPE_ARRAY;
        let map = MapCreate { map_type, key_size: 4, value_size: 8, max_entries: size };
        bpf_descriptor(&map).map(Self)
    }

    /// Returns the value of counter `place`, counted from 0.
    ///
    /// # Errors
    /// Returns errors of the operating system, for example if there is no such counter.
    pub fn read(&self, place: u32) -> io::Result<u64> {
        let mut count = 0;
        let (key, value) = (Address::of(&place), ExclusiveAddress::of(&mut count));
        bpf(&MapLookup { map: self.0.as_raw_fd(), padding: 0, key, value })?;
        Ok(count)
    }
}

impl AsRawFd for Counters {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Loads a program that selects a socket (`BPF_PROG_TYPE_SK_REUSEPORT`). The kernel keeps the
/// program while the returned descriptor is open or the program is [attached](attach).
///
/// # Errors
/// Returns errors of the operating system:
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) without CAP_BPF, and
/// [`InvalidInput`](io::ErrorKind::InvalidInput) or another error if the kernel cannot prove that
/// the program terminates and does not read any other memory.
pub fn load_choice(program: &[Instruction]) -> io::Result<OwnedFd> {
    load(PROG_TYPE_SK_REUSEPORT, program)
}

/// Runs a program at each event of the tracepoint `name` while the returned descriptor is open
/// (`BPF_PROG_TYPE_RAW_TRACEPOINT`).
///
/// # Errors
/// Returns the same errors as [`load_choice`], and also requires CAP_PERFMON.
pub fn trace(name: &CStr, program: &[Instruction]) -> io::Result<OwnedFd> {
    // The tracepoint keeps the program alive.
    let program = load(PROG_TYPE_RAW_TRACEPOINT, program)?;
    let name = Address::of_first(name.to_bytes_with_nul());
    bpf_descriptor(&TracepointOpen { name, program: program.as_raw_fd(), padding: 0 })
}

/// Loads a program. The kernel first verifies that the program terminates and does not read any
/// other memory.
fn load(program_type: u32, program: &[Instruction]) -> io::Result<OwnedFd> {
    let instruction_count =
        u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    bpf_descriptor(&ProgramLoad {
        program_type,
        instruction_count,
        instructions: Address::of_first(program),
        // The program calls no GPL-only functions.
        license: Address::of_first(c"MIT OR Apache-2.0".to_bytes_with_nul()),
    })
}

/// Attaches a program that selects among the sockets at the address of `socket`. The sockets keep
/// the program alive.
///
/// # Errors
/// Returns errors of the operating system, for example if the program has the wrong type.
pub fn attach(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let value: c_int = program.as_raw_fd();
    let (level, name) = (SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF);
    let size = core::mem::size_of::<c_int>() as socklen_t;
    let address = core::ptr::from_ref(&value).cast();
    // SAFETY: the kernel reads `size` bytes at `address`, which is that of `value`.
    let result = unsafe { setsockopt(socket.as_raw_fd(), level, name, address, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
