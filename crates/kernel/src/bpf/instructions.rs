//! Instructions of eBPF, one by one, named as in the kernel's documentation. Values that classic BPF has, too, are those of libc.

use std::os::fd::RawFd;

use nix::libc::{BPF_ADD, BPF_IMM, BPF_JA, BPF_JMP, BPF_K, BPF_LD, BPF_X};

use super::Instruction;

// Of linux/bpf.h and linux/bpf_common.h, what classic BPF does not have.
const ALU64: u32 = 0x07;
const MOV: u32 = 0xb0;
const CALL: u32 = 0x80;
const EXIT: u32 = 0x90;
/// The comparison of a jump if two values differ.
pub const JNE: u32 = 0x50;
/// The size of what is loaded or stored: eight bytes.
pub const DOUBLE_WORD: u32 = 0x18;
/// In the place of a register: the immediate is the descriptor of a map.
const MAP_DESCRIPTOR: u8 = 1;

/// The register with the result of a call and of the program.
pub const R0: u8 = 0;
/// The register with the first argument of a call, and of the program at its start.
pub const R1: u8 = 1;
/// The register with the second argument of a call.
pub const R2: u8 = 2;
/// The register with the third argument of a call.
pub const R3: u8 = 3;
/// The register with the fourth argument of a call.
pub const R4: u8 = 4;
/// A register that calls leave alone.
pub const R6: u8 = 6;
/// The register with the end of the stack, from which it is addressed with negative offsets.
pub const STACK: u8 = 10;

/// An instruction of these parts.
pub const fn instruction(
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

/// Sets a register to a number.
pub const fn set(register: u8, value: i32) -> Instruction {
    instruction(ALU64 | MOV | BPF_K, register, 0, 0, value)
}

/// Copies a register to another one.
pub const fn copy(to: u8, from: u8) -> Instruction {
    instruction(ALU64 | MOV | BPF_X, to, from, 0, 0)
}

/// Adds a number to a register.
pub const fn add(register: u8, value: i32) -> Instruction {
    instruction(ALU64 | BPF_ADD | BPF_K, register, 0, 0, value)
}

/// Sets a register to the map with this descriptor, which takes two instructions.
pub const fn map(register: u8, descriptor: RawFd) -> [Instruction; 2] {
    let code = BPF_LD | BPF_IMM | DOUBLE_WORD;
    let first = instruction(code, register, MAP_DESCRIPTOR, 0, descriptor);
    [first, instruction(0, 0, 0, 0, 0)]
}

/// Skips `count` instructions if `register` compares so with `value`.
pub const fn branch(comparison: u32, register: u8, value: i32, count: i16) -> Instruction {
    instruction(BPF_JMP | comparison | BPF_K, register, 0, count, value)
}

/// Skips `count` instructions.
pub const fn skip(count: i16) -> Instruction {
    instruction(BPF_JMP | BPF_JA, 0, 0, count, 0)
}

/// Calls a function of the kernel by its number.
pub const fn call(function: i32) -> Instruction {
    instruction(BPF_JMP | CALL, 0, 0, 0, function)
}

/// Ends the program with the result in the first register.
pub const fn end() -> Instruction {
    instruction(BPF_JMP | EXIT, 0, 0, 0, 0)
}
