//! Instructions of eBPF, one by one.

use std::os::fd::RawFd;

use nix::libc::{BPF_ADD, BPF_IMM, BPF_JA, BPF_JMP, BPF_K, BPF_LD, BPF_X};

use super::bpf::Instruction;

// Of linux/bpf.h and linux/bpf_common.h, what classic BPF does not have.
const ALU64: u32 = 0x07;
const MOV: u32 = 0xb0;
const CALL: u32 = 0x80;
const EXIT: u32 = 0x90;
pub(crate) const JNE: u32 = 0x50;
pub(crate) const DOUBLE_WORD: u32 = 0x18;
/// In the place of a register: the immediate is the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;

/// Registers: the result; arguments and scratch; what calls leave alone; the end of the stack.
pub(crate) const R0: u8 = 0;
pub(crate) const R1: u8 = 1;
pub(crate) const R2: u8 = 2;
pub(crate) const R3: u8 = 3;
pub(crate) const R4: u8 = 4;
pub(crate) const R6: u8 = 6;
pub(crate) const STACK: u8 = 10;

pub(crate) const fn instruction(
    code: u32,
    destination: u8,
    source: u8,
    offset: i16,
    immediate: i32,
) -> Instruction {
    let registers = if cfg!(target_endian = "little") {
        source << 4 | destination
    } else {
        destination << 4 | source
    };
    Instruction { code: code as u8, registers, offset, immediate }
}

pub(crate) const fn set(register: u8, value: i32) -> Instruction {
    instruction(ALU64 | MOV | BPF_K, register, 0, 0, value)
}

pub(crate) const fn copy(to: u8, from: u8) -> Instruction {
    instruction(ALU64 | MOV | BPF_X, to, from, 0, 0)
}

pub(crate) const fn add(register: u8, value: i32) -> Instruction {
    instruction(ALU64 | BPF_ADD | BPF_K, register, 0, 0, value)
}

/// Sets a register to the map with this descriptor, which takes two instructions.
pub(crate) const fn map(register: u8, descriptor: RawFd) -> [Instruction; 2] {
    let code = BPF_LD | BPF_IMM | DOUBLE_WORD;
    let first = instruction(code, register, MAP_DESCRIPTOR, 0, descriptor);
    [first, instruction(0, 0, 0, 0, 0)]
}

/// Skips `count` instructions if `register` compares so with `value`.
pub(crate) const fn branch(comparison: u32, register: u8, value: i32, count: i16) -> Instruction {
    instruction(BPF_JMP | comparison | BPF_K, register, 0, count, value)
}

pub(crate) const fn skip(count: i16) -> Instruction {
    instruction(BPF_JMP | BPF_JA, 0, 0, count, 0)
}

pub(crate) const fn call(function: i32) -> Instruction {
    instruction(BPF_JMP | CALL, 0, 0, 0, function)
}

/// Ends the program with the result in the first register.
pub(crate) const fn end() -> Instruction {
    instruction(BPF_JMP | EXIT, 0, 0, 0, 0)
}
