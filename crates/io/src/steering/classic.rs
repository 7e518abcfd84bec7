//! Classic BPF (SO_ATTACH_REUSEPORT_CBPF): a program that returns the number of the socket. It needs no privilege.
//!
//! The kernel numbers the sockets of an address in the order in which they were bound, and gives the number of one that is
//! closed to the last of them. So none is closed before all are: see `Siblings::bequeath`.

use std::io;

use nix::libc::{
    BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD,
    BPF_LEN, BPF_MOD, BPF_RET, BPF_W, sock_filter, sock_fprog,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;

use super::{IS_LONG, LONG_ID, LONG_ID_LEN, SHORT_ID, read_len};
use crate::shard_ids::{IdFormat, Layout};
use crate::socket::Socket;

/// Larger than the number of any socket: the kernel then chooses by its hash.
const NONE: u32 = u32::MAX;
const LENGTH: usize = 17;

/// Has the kernel choose among the sockets at the address of `socket`.
pub(super) fn attach(socket: &Socket, format: IdFormat) -> io::Result<()> {
    let mut program = program(format);
    // The kernel copies the program, and does not write to it.
    let program = sock_fprog { len: LENGTH as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(socket, AttachReusePortCbpf, &program)?)
}

/// The program. It sees the UDP payload.
fn program(format: IdFormat) -> [sock_filter; LENGTH] {
    let (count, limit) = (u32::from(format.count()), u32::from(format.limit()));
    let layout = format.layout();
    let (id_len, shard_octet) = (layout.id_len() as u32, layout.shard_octet() as u32);
    // What is shorter has no connection ID of ours: every packet is longer than its header by at least 20 octets.
    let shortest = read_len(layout).max(SHORT_ID + id_len);
    [
        /* 00 */ statement(BPF_LD | BPF_W | BPF_LEN, 0),
        /* 01 */ branch(BPF_JGE, shortest, 0, 14),
        /* 02 */ octet(0),
        /* 03 */ branch(BPF_JSET, IS_LONG, 4, 0),
        // Short header.
        /* 04 */ octet(SHORT_ID),
        /* 05 */ first_octet(layout, 10),
        /* 06 */ octet(SHORT_ID + shard_octet),
        /* 07 */ statement(BPF_JMP | BPF_JA, 5),
        // Long header.
        /* 08 */ octet(LONG_ID_LEN),
        /* 09 */ branch(BPF_JEQ, id_len, 0, 6),
        /* 10 */ octet(LONG_ID),
        /* 11 */ first_octet(layout, 4),
        /* 12 */ octet(LONG_ID + shard_octet),
        // The octet of the connection ID that names the shard.
        /* 13 */
        branch(BPF_JGE, limit, 2, 0),
        /* 14 */ statement(BPF_ALU | BPF_MOD | BPF_K, count),
        /* 15 */ statement(BPF_RET | BPF_A, 0),
        // No connection ID of ours.
        /* 16 */ statement(BPF_RET | BPF_K, NONE),
    ]
}

/// Skips `if_not` instructions if what was loaded is not the first octet of our connection IDs. Where that may be any, this
/// skips none.
const fn first_octet(layout: Layout, if_not: u8) -> sock_filter {
    match layout.first_octet() {
        Some(first) => branch(BPF_JEQ, first as u32, 0, if_not),
        None => branch(BPF_JGE, 0, 0, if_not),
    }
}

const fn statement(code: u32, operand: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: operand }
}

/// Loads an octet of the payload.
const fn octet(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_B | BPF_ABS, offset)
}

/// Skips `if_so` instructions if what was loaded compares so with `operand`, and `if_not` otherwise.
const fn branch(comparison: u32, operand: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: if_so, jf: if_not, k: operand }
}
