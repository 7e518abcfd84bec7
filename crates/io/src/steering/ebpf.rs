//! eBPF (SO_ATTACH_REUSEPORT_EBPF): a program that chooses from an array of sockets. It needs CAP_BPF.
//!
//! Written instruction by instruction, so that no compiler is needed. In C:
//!
//! ```c
//! int choose(struct sk_reuseport_md *context) {
//!     u8 payload[6 + SHARD_OCTET + 1];
//!     if (bpf_skb_load_bytes(context, sizeof(struct udphdr), payload, sizeof(payload))) return SK_PASS;
//!     u8 first, octet;
//!     if (payload[0] & 0x80) {
//!         if (payload[5] != ID_LEN) return SK_PASS;
//!         first = payload[6]; octet = payload[6 + SHARD_OCTET];
//!     } else {
//!         first = payload[1]; octet = payload[1 + SHARD_OCTET];
//!     }
//!     if (first != FIRST_OCTET || octet >= limit) return SK_PASS;
//!     u32 shard = octet % count;
//!     bpf_sk_select_reuseport(context, &sockets, &shard, 0);
//!     return SK_PASS;
//! }
//! ```
//!
//! With QUIC-LB the first octet may be any. If the program has chosen no socket, the kernel chooses by its hash.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::libc::{
    BPF_ALU, BPF_B, BPF_JGE, BPF_JSET, BPF_K, BPF_LDX, BPF_MEM, BPF_MOD, BPF_STX, BPF_W,
};

use super::bpf::{self, Instruction};
use super::instructions::{
    JNE, R0, R1, R2, R3, R4, R6, STACK, add, branch, call, copy, end, instruction, map, set, skip,
};
use super::{IS_LONG, LONG_ID, LONG_ID_LEN, SHORT_ID, read_len};
use crate::shard_ids::{IdFormat, Layout};
use crate::socket::Socket;

// Of linux/bpf.h.
const SKB_LOAD_BYTES: i32 = 26;
const SK_SELECT_REUSEPORT: i32 = 82;
const SK_PASS: i32 = 1;

/// The program sees the UDP header first.
const UDP_HEADER: i32 = 8;
/// Where that part of the payload is that is loaded, and below it the number of the shard, on the stack. There is room for the
/// longest connection ID.
const PAYLOAD: i16 = -32;
const SHARD: i16 = PAYLOAD - 4;

const LENGTH: usize = 29;

/// Has the kernel choose among `sockets`, which share an address, and are in the order of their shards.
pub(super) fn attach(sockets: &[&Socket], format: IdFormat) -> io::Result<()> {
    let Some(first) = sockets.first() else { return Ok(()) };
    let array = bpf::create_socket_array(format.count().into())?;
    for (place, socket) in (0..).zip(sockets) {
        bpf::put(array.as_fd(), place, socket.as_fd())?;
    }
    let program = bpf::load_choice(&program(format, array.as_raw_fd()))?;
    // From here on the socket keeps the program, and that the array.
    bpf::attach(first.as_fd(), program.as_fd())
}

/// The program, which chooses from the map with the descriptor `sockets`.
const fn program(format: IdFormat, sockets: RawFd) -> [Instruction; LENGTH] {
    let layout = format.layout();
    let (id_len, shard_octet) = (layout.id_len() as i32, layout.shard_octet() as u32);
    [
        /* 00 */ copy(R6, R1),
        /* 01 */ set(R2, UDP_HEADER),
        /* 02 */ copy(R3, STACK),
        /* 03 */ add(R3, PAYLOAD as i32),
        /* 04 */ set(R4, read_len(layout) as i32),
        /* 05 */ call(SKB_LOAD_BYTES),
        /* 06 */ branch(JNE, R0, 0, 20),
        /* 07 */ octet(R1, 0),
        /* 08 */ branch(BPF_JSET, R1, IS_LONG as i32, 3),
        // Short header.
        /* 09 */ octet(R1, SHORT_ID),
        /* 10 */ octet(R2, SHORT_ID + shard_octet),
        /* 11 */ skip(4),
        // Long header.
        /* 12 */ octet(R1, LONG_ID_LEN),
        /* 13 */ branch(JNE, R1, id_len, 13),
        /* 14 */ octet(R1, LONG_ID),
        /* 15 */ octet(R2, LONG_ID + shard_octet),
        // The two octets of the connection ID.
        /* 16 */
        first_octet(R1, layout, 10),
        /* 17 */ branch(BPF_JGE, R2, format.limit() as i32, 9),
        /* 18 */ instruction(BPF_ALU | BPF_MOD | BPF_K, R2, 0, 0, format.count() as i32),
        /* 19 */ instruction(BPF_STX | BPF_MEM | BPF_W, STACK, R2, SHARD, 0),
        /* 20 */ copy(R1, R6),
        /* 21 */ map(R2, sockets)[0],
        /* 22 */ map(R2, sockets)[1],
        /* 23 */ copy(R3, STACK),
        /* 24 */ add(R3, SHARD as i32),
        /* 25 */ set(R4, 0),
        /* 26 */ call(SK_SELECT_REUSEPORT),
        // Whether a socket was chosen or not.
        /* 27 */ set(R0, SK_PASS),
        /* 28 */ end(),
    ]
}

/// Skips `count` instructions if `register` is not the first octet of our connection IDs. Where that may be any, this skips
/// none.
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
