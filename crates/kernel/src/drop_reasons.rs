//! Counts of the packets that the kernel drops, by the kernel's drop reason.

mod names;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::libc::{BPF_JEQ, BPF_JGE, BPF_LDX, BPF_MEM, BPF_STX, BPF_W};

use crate::bpf::instructions::{
    DOUBLE_WORD, R0, R1, R2, R3, STACK, add, branch, call, copy, end, instruction, map, set,
};
use crate::bpf::{Counters, Instruction, trace};

/// Upper bound of the reason numbers that are counted; reasons of individual subsystems (such as
/// Wi-Fi) have larger numbers and are not counted.
const MAX_REASONS: i32 = 1 << 9;

// Constants from linux/bpf.h.
const MAP_LOOKUP_ELEM: i32 = 1;
/// Atomic operation on a 64-bit value in memory.
const ATOMIC_DOUBLE_WORD: u32 = BPF_STX | 0xc0 | DOUBLE_WORD;
const ATOMIC_ADD: i32 = 0;

/// The offset of the tracepoint's third argument: `(skb, location, reason, socket)`.
const REASON: i16 = 16;
/// The stack offset at which the program stores the reason's number.
const PLACE: i16 = -4;

const LENGTH: usize = 13;

/// Counts the packets that the kernel drops, by reason, from [`open`](Self::open) on. The counts
/// include packets of all protocols, on the entire host and in all network namespaces. Each drop
/// costs a few dozen additional nanoseconds; other packets cost nothing.
///
/// Uses an eBPF program at the tracepoint `skb:kfree_skb`; dropping this value removes the program.
#[derive(Debug)]
pub struct DropReasons {
    counters: Counters,
    /// The names of the reasons, by number.
    names: BTreeMap<u32, String>,
    /// Descriptor that keeps the program attached to the tracepoint.
    _tracepoint: OwnedFd,
}

impl DropReasons {
    /// Starts counting.
    ///
    /// # Errors
    ///
    /// Returns [`PermissionDenied`](io::ErrorKind::PermissionDenied) without CAP_BPF and
    /// CAP_PERFMON; [`NotFound`](io::ErrorKind::NotFound) or
    /// [`Unsupported`](io::ErrorKind::Unsupported) if this kernel does not publish its reasons
    /// (before Linux 5.17, or without BTF and tracefs); other errors of the operating system.
    pub fn open() -> io::Result<Self> {
        let names = names::read()?;
        let counters = Counters::create(MAX_REASONS as u32)?;
        let program = program(counters.as_raw_fd());
        let tracepoint = trace(c"kfree_skb", &program)?;
        Ok(Self { counters, names, _tracepoint: tracepoint })
    }

    /// Returns how many packets were dropped so far for each reason, by the kernel's names, such as
    /// `SOCKET_RCVBUFF`.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system.
    pub fn read(&self) -> io::Result<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        for (number, name) in self.names.range(..MAX_REASONS as u32) {
            counts.insert(name.clone(), self.counters.read(*number)?);
        }
        Ok(counts)
    }
}

/// Returns the program, which counts in the map with the descriptor `counters`. In C:
///
/// ```c
/// u32 reason = context->args[2];
/// if (reason >= MAX_REASONS) return 0;
/// u64 *count = bpf_map_lookup_elem(&counters, &reason);
/// if (count) __sync_fetch_and_add(count, 1);
/// return 0;
/// ```
fn program(counters: RawFd) -> [Instruction; LENGTH] {
    let [map_low, map_high] = map(R1, counters);
    [
        /* 00 */ instruction(BPF_LDX | BPF_MEM | DOUBLE_WORD, R3, R1, REASON, 0),
        /* 01 */ branch(BPF_JGE, R3, MAX_REASONS, 9),
        /* 02 */ instruction(BPF_STX | BPF_MEM | BPF_W, STACK, R3, PLACE, 0),
        /* 03 */ map_low,
        /* 04 */ map_high,
        /* 05 */ copy(R2, STACK),
        /* 06 */ add(R2, PLACE.into()),
        /* 07 */ call(MAP_LOOKUP_ELEM),
        /* 08 */ branch(BPF_JEQ, R0, 0, 2),
        /* 09 */ set(R1, 1),
        /* 10 */ instruction(ATOMIC_DOUBLE_WORD, R0, R1, 0, ATOMIC_ADD),
        /* 11 */ set(R0, 0),
        /* 12 */ end(),
    ]
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Drops at other sockets are counted too, so the counts may be higher than this test's own
    /// drops.
    #[test]
    fn a_full_socket_buffer_is_a_reason() {
        let reasons = match DropReasons::open() {
            Ok(reasons) => reasons,
            // Without the required privilege, the error says so.
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return;
            }
        };
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let count = || reasons.read().unwrap()["SOCKET_RCVBUFF"];
        let before = count();
        for _ in 0..10_000 {
            sender.send_to(&[0; 1200], receiver.local_addr().unwrap()).unwrap();
        }
        // The kernel delivers over loopback before the call returns. No default buffer holds half
        // of these datagrams.
        assert!(count() - before > 5000, "{before} {}", count());
    }
}
