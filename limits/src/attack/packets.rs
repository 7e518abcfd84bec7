//! Packet numbers, acknowledgements, sent packets, connection IDs, paths, CRYPTO and DATAGRAM frames.

use clearway_transport::Side;
use clearway_wire::{ConnectionId, Frame, PacketNumber, ResetToken, StreamId, VarInt, frame};

use super::{Attack, KIB, MIB, Target};
use crate::scene::{Application, Scene, address};

/// Far more than any table keeps.
const MANY: u64 = 30_000;

/// Packets with nothing but an ACK that the ledger remembers, and what is settled between others until it is
/// taken out: 4,096 packets at most.
pub(super) const LEDGER: u64 = 5 * MIB / 4;
/// The ledger's cap on all packets that it remembers, and as much again while a full table grows by doubling.
const LEDGER_CAP: u64 = 2 * 64 * MIB;

pub(super) fn attacks() -> Vec<Attack> {
    let server = |application| Target::Connection(Side::Server, application);
    vec![
        Attack {
            name: "packet numbers with gaps",
            target: server(Application::Idle),
            drive: gaps,
            bound: LEDGER,
            because: "256 ranges received, and the sent ACKs that are remembered",
        },
        Attack {
            name: "PINGs whose ACKs are never acknowledged",
            target: server(Application::Idle),
            drive: pings,
            bound: LEDGER,
            because: "the newest 1,024 ACK-only packets are remembered",
        },
        Attack {
            name: "every other packet acknowledged",
            target: server(Application::Writes),
            drive: half_acknowledged,
            bound: 8 * MIB,
            because: "the send buffer, and lost packets up to the ledger's cap",
        },
        Attack {
            name: "CRYPTO with gaps",
            target: server(Application::Idle),
            drive: crypto,
            bound: 256 * KIB,
            because: "the buffer for CRYPTO data out of order (RFC 9000 §7.5)",
        },
        Attack {
            name: "DATAGRAM frames that nobody takes",
            target: server(Application::Idle),
            drive: datagrams,
            bound: 3 * MIB,
            because: "1 MiB of payloads, in chunks, and a place in the queue for each",
        },
        Attack {
            name: "small DATAGRAM frames that nobody takes",
            target: server(Application::Idle),
            drive: small_datagrams,
            bound: 2 * MIB + LEDGER,
            because: "1 MiB, in which the smallest payload counts for what its place costs",
        },
        Attack {
            name: "challenges from one address",
            target: server(Application::Idle),
            drive: challenges,
            bound: LEDGER,
            because: "four responses at a time, and the sent ACKs that are remembered",
        },
        Attack {
            name: "challenges from many addresses",
            target: server(Application::Idle),
            drive: challenges_from_everywhere,
            bound: LEDGER,
            because: "four responses at a time, four addresses, and a window of answers",
        },
        Attack {
            name: "a new address for each packet",
            target: server(Application::Idle),
            drive: moves,
            bound: LEDGER_CAP,
            because: "the ledger's cap: each address begins with a window of its own",
        },
        Attack {
            name: "connection IDs, each retiring the one before",
            target: server(Application::Idle),
            drive: connection_ids,
            bound: 128 * KIB,
            because: "the limit on active connection IDs, and as many that are being retired",
        },
        Attack {
            name: "connection IDs retired as they come",
            target: server(Application::Idle),
            drive: retirements,
            bound: 128 * KIB,
            because: "the limit on active connection IDs",
        },
    ]
}

fn varint(value: u64) -> VarInt {
    VarInt::new(value).expect("a small number")
}

fn gaps(scene: &mut Scene) {
    for _ in 0..10_000 {
        scene.send(&[Frame::Ping]);
        scene.skip_numbers(1);
    }
}

fn pings(scene: &mut Scene) {
    for _ in 0..MANY {
        scene.send(&[Frame::Ping]);
    }
}

fn half_acknowledged(scene: &mut Scene) {
    let id = StreamId::from_varint(VarInt::ZERO);
    let request = frame::Stream { stream_id: id, offset: VarInt::ZERO, data: b"x", fin: true };
    scene.send(&[Frame::Stream(request)]);
    let maximum = varint(1 << 40);
    let limits = [
        Frame::MaxData(frame::MaxData { maximum }),
        Frame::MaxStreamData(frame::MaxStreamData { stream_id: id, maximum }),
    ];
    scene.send(&limits);
    for _ in 0..20_000 {
        let Some(largest) = scene.largest_sent() else { return };
        let number = |number| PacketNumber::new(number).expect("a packet number");
        let even = largest.get() / 2 * 2;
        let ranges = (0..60).map_while(|place| even.checked_sub(2 * place));
        scene.acknowledge(ranges.map(|even| number(even)..=number(even)));
    }
}

fn crypto(scene: &mut Scene) {
    for piece in 1..20_000 {
        let frame = frame::Crypto { offset: varint(2 * piece), data: b"x" };
        scene.send(&[Frame::Crypto(frame)]);
    }
}

fn datagrams(scene: &mut Scene) {
    let data = [7; 1_000];
    for _ in 0..10_000 {
        scene.send(&[Frame::Datagram(frame::Datagram { data: &data })]);
    }
}

fn small_datagrams(scene: &mut Scene) {
    // A frame without a length goes to the end of its packet, so that each packet has one.
    for _ in 0..MANY {
        scene.send(&[Frame::Datagram(frame::Datagram { data: b"" })]);
    }
}

fn challenge(number: u64) -> Frame<'static> {
    Frame::PathChallenge(frame::PathChallenge { data: number.to_be_bytes() })
}

fn challenges(scene: &mut Scene) {
    for number in 0..MANY {
        scene.send(&[challenge(number)]);
    }
}

fn challenges_from_everywhere(scene: &mut Scene) {
    for number in 0..MANY {
        let from = address(u32::try_from(number).unwrap_or(0) + 2);
        scene.send_from(
            from,
            &[challenge(number), Frame::Padding(frame::Padding { length: 1_000 })],
        );
    }
}

fn moves(scene: &mut Scene) {
    for number in 0..30_000 {
        scene.send_from(address(number + 2), &[Frame::Ping]);
    }
}

fn connection_ids(scene: &mut Scene) {
    for sequence in 10..20_000_u64 {
        let frame = frame::NewConnectionId {
            sequence: varint(sequence),
            retire_prior_to: varint(sequence),
            id: ConnectionId::new(&sequence.to_be_bytes()).expect("a connection ID"),
            reset_token: ResetToken::new([7; 16]),
        };
        scene.send(&[Frame::NewConnectionId(frame)]);
    }
}

fn retirements(scene: &mut Scene) {
    for sequence in 1..20_000 {
        let frame = frame::RetireConnectionId { sequence: varint(sequence) };
        scene.send(&[Frame::RetireConnectionId(frame)]);
    }
}
