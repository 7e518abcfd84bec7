//! eBPF (SO_ATTACH_REUSEPORT_EBPF): a program that selects from an array of sockets. This requires
//! CAP_BPF.
//!
//! Written instruction by instruction, so that no compiler is needed. In C:
//!
//! ```c
//! int choose(struct sk_reuseport_md *context) {
//!     u8 payload[6 + SHARD_OCTET + 1];
//!     if (bpf_skb_load_bytes(context, sizeof(struct udphdr), payload, sizeof(payload))) return SK_PASS;
//!     u32 socket;
//!     if (payload[0] & 0x80) {
//!         u8 octet = payload[6 + SHARD_OCTET];
//!         if (payload[5] != ID_LEN || payload[6] != FIRST_OCTET || octet >= limit) octet = payload[6];
//!         socket = octet % count + count;
//!     } else {
//!         u8 octet = payload[1 + SHARD_OCTET];
//!         if (payload[1] != FIRST_OCTET || octet >= limit) return SK_PASS;
//!         socket = octet % count;
//!     }
//!     bpf_sk_select_reuseport(context, &sockets, &socket, 0);
//!     return SK_PASS;
//! }
//! ```
//!
//! With QUIC-LB the first octet can have any value. Without separate sockets for long headers, long
//! headers go to the same sockets as short ones, and the kernel's hash distributes packets with IDs
//! chosen by the client, as always when the program selects no socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use clearway_kernel::bpf::instructions::{
    JNE, R0, R1, R2, R3, R4, R6, STACK, add, branch, call, copy, end, instruction, map, set, skip,
};
use clearway_kernel::bpf::{self, Instruction, SocketArray};
use nix::libc::{
    BPF_ALU, BPF_B, BPF_JGE, BPF_JSET, BPF_K, BPF_LDX, BPF_MEM, BPF_MOD, BPF_STX, BPF_W,
};

use super::{AtAddress, IS_LONG, LONG_ID, LONG_ID_LEN, SHORT_ID, read_len};
use crate::shard_ids::{IdFormat, Layout};

// Constants from linux/bpf.h.
const SKB_LOAD_BYTES: i32 = 26;
const SK_SELECT_REUSEPORT: i32 = 82;
const SK_PASS: i32 = 1;

/// Size of the UDP header, which precedes the payload in the program's view.
const UDP_HEADER: i32 = 8;
/// Stack offset of the loaded part of the payload; the socket number is below it. There is room for
/// the longest connection ID.
const PAYLOAD: i16 = -32;
const NUMBER: i16 = PAYLOAD - 4;

const LENGTH: usize = 35;

/// Makes the kernel select among the sockets of an address.
pub(super) fn attach(address: &AtAddress<'_>, format: IdFormat) -> io::Result<()> {
    let Some(first) = address.own.first() else { return Ok(()) };
    let sockets = address.own.iter().chain(&address.long);
    let array = SocketArray::create(sockets.clone().count() as u32)?;
    for (place, socket) in (0..).zip(sockets) {
        array.put(place, socket.as_fd())?;
    }
    let program = program(format, address.has_long(), array.as_raw_fd());
    let program = bpf::load_choice(&program)?;
    // From here on, the socket keeps the program alive, and the program keeps the array alive.
    bpf::attach(first.as_fd(), program.as_fd())
}

/// Returns the program, which selects from the map with the descriptor `sockets`. `has_long` states
/// whether there are sockets for long headers.
const fn program(format: IdFormat, has_long: bool, sockets: RawFd) -> [Instruction; LENGTH] {
    let layout = format.layout();
    let (id_len, shard_octet) = (layout.id_len() as i32, layout.shard_octet() as u32);
    let (count, limit) = (format.count() as i32, format.limit() as i32);
    let remainder = instruction(BPF_ALU | BPF_MOD | BPF_K, R2, 0, 0, count);
    let (client, first_long) = if has_long { (octet(R2, LONG_ID), count) } else { (skip(10), 0) };
    [
        /* 00 */ copy(R6, R1),
        /* 01 */ set(R2, UDP_HEADER),
        /* 02 */ copy(R3, STACK),
        /* 03 */ add(R3, PAYLOAD as i32),
        /* 04 */ set(R4, read_len(layout) as i32),
        /* 05 */ call(SKB_LOAD_BYTES),
        /* 06 */ branch(JNE, R0, 0, 26),
        /* 07 */ octet(R1, 0),
        /* 08 */ branch(BPF_JSET, R1, IS_LONG as i32, 6),
        // Short header.
        /* 09 */ octet(R1, SHORT_ID),
        /* 10 */ octet(R2, SHORT_ID + shard_octet),
        /* 11 */ first_octet(R1, layout, 21),
        /* 12 */ branch(BPF_JGE, R2, limit, 20),
        /* 13 */ remainder,
        /* 14 */ skip(10),
        // Long header.
        /* 15 */ octet(R1, LONG_ID_LEN),
        /* 16 */ octet(R2, LONG_ID + shard_octet),
        /* 17 */ branch(JNE, R1, id_len, 4),
        /* 18 */ octet(R1, LONG_ID),
        /* 19 */ first_octet(R1, layout, 2),
        /* 20 */ branch(BPF_JGE, R2, limit, 1),
        /* 21 */ skip(1),
        // A connection ID chosen by the client.
        /* 22 */
        client,
        /* 23 */ remainder,
        /* 24 */ add(R2, first_long),
        // The socket number.
        /* 25 */
        instruction(BPF_STX | BPF_MEM | BPF_W, STACK, R2, NUMBER, 0),
        /* 26 */ copy(R1, R6),
        /* 27 */ map(R2, sockets)[0],
        /* 28 */ map(R2, sockets)[1],
        /* 29 */ copy(R3, STACK),
        /* 30 */ add(R3, NUMBER as i32),
        /* 31 */ set(R4, 0),
        /* 32 */ call(SK_SELECT_REUSEPORT),
        // Returned whether or not a socket was selected.
        /* 33 */ set(R0, SK_PASS),
        /* 34 */ end(),
    ]
}

/// Skips `count` instructions if `register` is not the first octet of our connection IDs. If that
/// octet can have any value, no instruction is skipped.
const fn first_octet(register: u8, layout: Layout, count: i16) -> Instruction {
    match layout.first_octet() {
        Some(first) => branch(JNE, register, first as i32, count),
        None => branch(BPF_JSET, register, 0, count),
    }
}

/// Loads an octet of the payload.
const fn octet(register: u8, offset: u32) -> Instruction {
    instruction(BPF_LDX | BPF_MEM | BPF_B, register, STACK, PAYLOAD + offset as i16, 0)
}
