//! Classic BPF (SO_ATTACH_REUSEPORT_CBPF): a program that returns the number of the socket. This
//! requires no privileges.
//!
//! The kernel numbers the sockets at an address in the order in which they were bound, and gives
//! the number of a closed socket to the last one. So no socket is closed before all of them are:
//! see `PeerShards::give_away_sockets`.

use std::io;

use clearway_udp::Socket;
use nix::libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LD, BPF_LEN, BPF_MOD, BPF_RET, BPF_W, sock_filter, sock_fprog,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;

use super::{IS_LONG, LONG_ID, LONG_ID_LEN, SHORT_ID, read_len};
use crate::shard_ids::{IdFormat, Layout};

/// A value larger than any socket number, which makes the kernel select by its hash.
const NONE: u32 = u32::MAX;
const LENGTH: usize = 21;

/// Makes the kernel select among the sockets of an address, the first of which is `first`.
/// `has_long` states whether there are sockets for long headers.
pub(super) fn attach(first: &Socket, format: IdFormat, has_long: bool) -> io::Result<()> {
    attach_program(first, &mut program(format, has_long))
}

/// Makes the kernel select between the socket `first` and the one for long headers, the only
/// sockets at their address.
pub(super) fn attach_division(first: &Socket) -> io::Result<()> {
    attach_program(first, &mut division())
}

fn attach_program(first: &Socket, program: &mut [sock_filter]) -> io::Result<()> {
    // The kernel copies the program and does not write to it.
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    Ok(setsockopt(first, AttachReusePortCbpf, &program)?)
}

/// Returns the program, which sees the UDP payload.
fn program(format: IdFormat, has_long: bool) -> [sock_filter; LENGTH] {
    let (count, limit) = (u32::from(format.count()), u32::from(format.limit()));
    let layout = format.layout();
    let (id_len, shard_octet) = (layout.id_len() as u32, layout.shard_octet() as u32);
    // Shorter payloads do not contain one of our connection IDs: every packet is at least 20 octets
    // longer than its header.
    let shortest = read_len(layout).max(SHORT_ID + id_len);
    let (client, first_long) = match has_long {
        true => (octet(LONG_ID), count),
        false => (statement(BPF_JMP | BPF_JA, 3), 0),
    };
    [
        /* 00 */ statement(BPF_LD | BPF_W | BPF_LEN, 0),
        /* 01 */ branch(BPF_JGE, shortest, 0, 18),
        /* 02 */ octet(0),
        /* 03 */ branch(BPF_JSET, IS_LONG, 6, 0),
        // Short header.
        /* 04 */ octet(SHORT_ID),
        /* 05 */ first_octet(layout, 14),
        /* 06 */ octet(SHORT_ID + shard_octet),
        /* 07 */ branch(BPF_JGE, limit, 12, 0),
        /* 08 */ statement(BPF_ALU | BPF_MOD | BPF_K, count),
        /* 09 */ statement(BPF_RET | BPF_A, 0),
        // Long header.
        /* 10 */ octet(LONG_ID_LEN),
        /* 11 */ branch(BPF_JEQ, id_len, 0, 4),
        /* 12 */ octet(LONG_ID),
        /* 13 */ first_octet(layout, 2),
        /* 14 */ octet(LONG_ID + shard_octet),
        /* 15 */ branch(BPF_JGE, limit, 0, 1),
        // A connection ID chosen by the client.
        /* 16 */
        client,
        /* 17 */ statement(BPF_ALU | BPF_MOD | BPF_K, count),
        /* 18 */ statement(BPF_ALU | BPF_ADD | BPF_K, first_long),
        /* 19 */ statement(BPF_RET | BPF_A, 0),
        // Not one of our connection IDs.
        /* 20 */ statement(BPF_RET | BPF_K, NONE),
    ]
}

/// Returns the program for one shard. An empty payload goes to the shard's own socket, since a
/// program that reads beyond the end returns 0.
fn division() -> [sock_filter; 4] {
    [
        /* 00 */ octet(0),
        /* 01 */ branch(BPF_JSET, IS_LONG, 0, 1),
        /* 02 */ statement(BPF_RET | BPF_K, 1),
        /* 03 */ statement(BPF_RET | BPF_K, 0),
    ]
}

/// Skips `if_not` instructions if the loaded octet is not the first octet of our connection IDs. If
/// that octet can have any value, no instruction is skipped.
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

/// Skips `if_so` instructions if the comparison of the loaded value with `operand` holds, and
/// `if_not` otherwise.
const fn branch(comparison: u32, operand: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: if_so, jf: if_not, k: operand }
}
