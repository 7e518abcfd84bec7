//! Attacks with packet numbers, acknowledgments, connection IDs, paths, and CRYPTO and DATAGRAM frames.

use clearway_transport::Side;
use clearway_wire::{ConnectionId, Frame, PacketNumber, ResetToken, StreamId, VarInt, frame};

use super::{Attack, KIB, MIB, Target};
use crate::scene::{Application, Scene, address};

/// Number of packets that is far more than any table may hold.
const MANY: u64 = 30_000;

/// Memory of the ledger for ACK-only packets, and for acknowledged or lost packets that are not
/// removed yet because they are between other packets. At most 4,096 packets are stored.
pub(super) const LEDGER: u64 = 5 * MIB / 4;
/// The ledger's limit for all packets, doubled because a full table grows to twice its size.
const LEDGER_CAP: u64 = 2 * 64 * MIB;

pub(super) fn attacks() -> Vec<Attack> {
    let server = |application| Target::Connection(Side::Server, application);
    vec![
        Attack {
            name: "packet numbers with gaps",
            target: server(Application::Idle),
            drive: gaps,
            bound: LEDGER,
            because: "256 ranges of received numbers, and the records of sent ACKs",
        },
        Attack {
            name: "PINGs whose ACKs are never acknowledged",
            target: server(Application::Idle),
            drive: pings,
            bound: LEDGER,
            because: "records of the newest 1,024 ACK-only packets",
        },
        Attack {
            name: "every other packet acknowledged",
            target: server(Application::Writes),
            drive: half_acknowledged,
            bound: 8 * MIB,
            because: "the send buffer, and lost packets up to the ledger's limit",
        },
        Attack {
            name: "CRYPTO with gaps",
            target: server(Application::Idle),
            drive: crypto,
            bound: 256 * KIB,
            because: "the buffer for out-of-order CRYPTO data (RFC 9000 §7.5)",
        },
        Attack {
            name: "DATAGRAM frames that are not read",
            target: server(Application::Idle),
            drive: datagrams,
            bound: 3 * MIB,
            because: "1 MiB of payloads, in chunks, and a queue entry for each",
        },
        Attack {
            name: "small DATAGRAM frames that are not read",
            target: server(Application::Idle),
            drive: small_datagrams,
            bound: 2 * MIB + LEDGER,
            because: "1 MiB, in which each payload counts at least as much as its queue entry",
        },
        Attack {
            name: "PATH_CHALLENGEs from one address",
            target: server(Application::Idle),
            drive: path_challenges,
            bound: LEDGER,
            because: "four responses at a time, and the records of sent ACKs",
        },
        Attack {
            name: "PATH_CHALLENGEs from many addresses",
            target: server(Application::Idle),
            drive: path_challenges_from_many_addresses,
            bound: LEDGER,
            because: "four responses at a time, four addresses, and a congestion window of responses",
        },
        Attack {
            name: "a new address for each packet",
            target: server(Application::Idle),
            drive: migrations,
            bound: LEDGER_CAP,
            because: "the ledger's limit: each address starts with a new congestion window",
        },
        Attack {
            name: "connection IDs, each retiring the one before",
            target: server(Application::Idle),
            drive: connection_ids,
            bound: 128 * KIB,
            because: "the limit on active connection IDs, and as many that are being retired",
        },
        Attack {
            name: "connection IDs retired when they are issued",
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
    // A frame without a length extends to the end of its packet, so each packet contains only one.
    for _ in 0..MANY {
        scene.send(&[Frame::Datagram(frame::Datagram { data: b"" })]);
    }
}

fn challenge(number: u64) -> Frame<'static> {
    Frame::PathChallenge(frame::PathChallenge { data: number.to_be_bytes() })
}

fn path_challenges(scene: &mut Scene) {
    for number in 0..MANY {
        scene.send(&[challenge(number)]);
    }
}

fn path_challenges_from_many_addresses(scene: &mut Scene) {
    for number in 0..MANY {
        let from = address(u32::try_from(number).unwrap_or(0) + 2);
        scene.send_from(
            from,
            &[challenge(number), Frame::Padding(frame::Padding { length: 1_000 })],
        );
    }
}

fn migrations(scene: &mut Scene) {
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
