//! Attacks with datagrams that do not belong to a connection: Initial packets, unknown connection
//! IDs and unknown versions.

use clearway_wire::{ConnectionId, Frame, VarInt, frame};

use super::{Attack, KIB, MIB, Target};
use crate::scene::{Scene, address};

pub(super) fn attacks() -> Vec<Attack> {
    vec![
        Attack {
            name: "first packets from many addresses",
            target: Target::Own,
            drive: first_packets,
            bound: 100 * 64 * KIB,
            because: "100 connections, the limit that the endpoint is configured with",
        },
        Attack {
            name: "handshake messages with gaps",
            target: Target::Own,
            drive: handshake_fragments,
            bound: 256 * KIB,
            because: "one connection, and the buffer for out-of-order CRYPTO data (RFC 9000 §7.5)",
        },
        Attack {
            name: "packets whose keys are not available yet",
            target: Target::Own,
            drive: early_packets,
            bound: 256 * KIB,
            because: "one connection, and a few packets that wait for their keys",
        },
        Attack {
            name: "unknown connection IDs",
            target: Target::Own,
            drive: unknown_ids,
            bound: MIB / 4,
            because: "a queue of 64 replies",
        },
        Attack {
            name: "unknown versions",
            target: Target::Own,
            drive: unknown_versions,
            bound: MIB / 4,
            because: "a queue of 64 replies",
        },
    ]
}

fn id(number: u64) -> ConnectionId {
    ConnectionId::new(&(number + 1).to_be_bytes()).expect("a connection ID")
}

fn hello(offset: u32) -> Frame<'static> {
    let offset = VarInt::new(u64::from(offset)).expect("an offset");
    Frame::Crypto(frame::Crypto { offset, data: b"x" })
}

fn first_packets(scene: &mut Scene) {
    for number in 0..2_000 {
        scene.send_initial(address(number + 2), id(u64::from(number)), &[hello(0)]);
    }
}

fn handshake_fragments(scene: &mut Scene) {
    for piece in 0..20_000 {
        scene.send_initial(address(2), id(0), &[hello(2 * piece + 1)]);
    }
}

fn early_packets(scene: &mut Scene) {
    scene.send_initial(address(2), id(0), &[hello(0)]);
    let mut packet = [0x40; 1_200];
    packet[0] = 0xe0;
    packet[1..5].copy_from_slice(&1_u32.to_be_bytes());
    packet[5] = 8;
    packet[6..14].copy_from_slice(id(0).as_bytes());
    packet[14] = 0;
    packet[15..17].copy_from_slice(&(0x4000_u16 | 1_183).to_be_bytes());
    for number in 0..10_000_u32 {
        packet[20..24].copy_from_slice(&number.to_be_bytes());
        scene.send_raw(address(2), &packet);
    }
}

fn unknown_ids(scene: &mut Scene) {
    let mut packet = [0x40; 1_200];
    for number in 0..20_000_u64 {
        packet[1..9].copy_from_slice(&number.to_be_bytes());
        scene.send_raw(address(2), &packet);
    }
}

fn unknown_versions(scene: &mut Scene) {
    let mut packet = [0xc0; 1_200];
    packet[5] = 8;
    packet[14] = 0;
    for number in 0..20_000_u32 {
        packet[1..5].copy_from_slice(&(number | 0x1a1a_0000).to_be_bytes());
        scene.send_raw(address(2), &packet);
    }
}
