//! eBPF instructions, named as in the kernel's documentation. Constants shared with classic BPF
//! come from libc.

use std::os::fd::RawFd;

use nix::libc::{BPF_ADD, BPF_IMM, BPF_JA, BPF_JMP, BPF_K, BPF_LD, BPF_X};

use super::Instruction;

// Constants from linux/bpf.h and linux/bpf_common.h that classic BPF does not have.
const ALU64: u32 = 0x07;
const MOV: u32 = 0xb0;
const CALL: u32 = 0x80;
const EXIT: u32 = 0x90;
/// Jump condition: the two values differ.
pub const JNE: u32 = 0x50;
/// Operand size of loads and stores: eight bytes.
pub const DOUBLE_WORD: u32 = 0x18;
/// Marks the immediate as a map descriptor; used instead of a source register.
const MAP_DESCRIPTOR: u8 = 1;

/// Register for the return value of a call and of the program.
pub const R0: u8 = 0;
/// Register for the first argument of a call; on entry, it holds the program's context.
pub const R1: u8 = 1;
/// Register for the second argument of a call.
pub const R2: u8 = 2;
/// Register for the third argument of a call.
pub const R3: u8 = 3;
/// Register for the fourth argument of a call.
pub const R4: u8 = 4;
/// Register that is preserved across calls.
pub const R6: u8 = 6;
/// Register that points to the end of the stack; the stack is addressed with negative offsets.
pub const STACK: u8 = 10;

/// Encodes an instruction.
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

/// Copies one register to another.
pub const fn copy(to: u8, from: u8) -> Instruction {
    instruction(ALU64 | MOV | BPF_X, to, from, 0, 0)
}

/// Adds a number to a register.
pub const fn add(register: u8, value: i32) -> Instruction {
    instruction(ALU64 | BPF_ADD | BPF_K, register, 0, 0, value)
}

/// Loads a reference to the map with this descriptor into a register, which takes two instructions.
pub const fn map(register: u8, descriptor: RawFd) -> [Instruction; 2] {
    let code = BPF_LD | BPF_IMM | DOUBLE_WORD;
    let first = instruction(code, register, MAP_DESCRIPTOR, 0, descriptor);
    [first, instruction(0, 0, 0, 0, 0)]
}

/// Skips `count` instructions if the comparison of `register` with `value` holds.
pub const fn branch(comparison: u32, register: u8, value: i32, count: i16) -> Instruction {
    instruction(BPF_JMP | comparison | BPF_K, register, 0, count, value)
}

/// Skips `count` instructions.
pub const fn skip(count: i16) -> Instruction {
    instruction(BPF_JMP | BPF_JA, 0, 0, count, 0)
}

/// Calls a kernel function by its number.
pub const fn call(function: i32) -> Instruction {
    instruction(BPF_JMP | CALL, 0, 0, 0, function)
}

/// Ends the program; its result is in `R0`.
pub const fn end() -> Instruction {
    instruction(BPF_JMP | EXIT, 0, 0, 0, 0)
}
