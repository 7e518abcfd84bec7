//! Compares recovery with an independently counting model (S1, S7) under random event sequences,
//! and checks that a timer is set whenever a packet is outstanding (L3).

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::SpaceId;
use crate::recovery::testing::{Bench, ms, number_of, token};
use crate::recovery::{Expired, RecoveryConfig, StagedPacket, testing};

#[derive(Clone, Debug)]
enum Operation {
    Send { space: usize, count: u8, bytes: u64, kind: u8 },
    Acknowledge { space: usize, parts: Vec<(u16, u16)> },
    Wait { milliseconds: u64 },
    Deadline,
    Discard { space: usize },
    Abandon { space: usize },
    NewPath,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..3_usize, 1..20_u8, 20..1500_u64, 0..8_u8)
            .prop_map(|(space, count, bytes, kind)| Operation::Send { space, count, bytes, kind }),
        8 => (0..3_usize, prop::collection::vec(any::<(u16, u16)>(), 1..5))
            .prop_map(|(space, parts)| Operation::Acknowledge { space, parts }),
        4 => (1..300_u64).prop_map(|milliseconds| Operation::Wait { milliseconds }),
        4 => Just(Operation::Deadline),
        1 => (0..2_usize).prop_map(|space| Operation::Discard { space }),
        1 => (0..3_usize).prop_map(|space| Operation::Abandon { space }),
        1 => Just(Operation::NewPath),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Outstanding,
    Lost,
    Acknowledged,
    Discarded,
}

#[derive(Debug)]
struct Known {
    space: usize,
    number: u64,
    bytes: u64,
    in_flight: bool,
    ack_eliciting: bool,
    path: u32,
    fate: Fate,
}

#[derive(Debug)]
struct Model {
    bench: Bench,
    now: clearway_units::Timestamp,
    path: u32,
    discarded: [bool; 3],
    /// Packets, keyed by the number in their token.
    packets: BTreeMap<u64, Known>,
}

impl Model {
    fn new() -> Self {
        let config = RecoveryConfig { skip_packet_numbers: true, ..testing::config() };
        let now = testing::at(0);
        let packets = BTreeMap::new();
        Self { bench: Bench::with(config), now, path: 0, discarded: [false; 3], packets }
    }

    fn send(&mut self, space: usize, bytes: u64, kind: u8) {
        let number = self.bench.recovery.next_packet_number(SpaceId::ALL[space]).unwrap();
        // Packets contain mostly data, and sometimes an ACK, PADDING or a path probe.
        let ack_eliciting = kind > 1;
        let in_flight = kind > 0;
        let identity = self.packets.len() as u64;
        let staged = StagedPacket {
            number,
            bytes,
            ack_eliciting,
            in_flight,
            is_probe_of_path: kind == 2,
            is_off_path: false,
            is_marked: false,
        };
        self.bench.recovery.stage(SpaceId::ALL[space], staged, &mut vec![token(identity)]).unwrap();
        let path = self.path;
        let number = number.get();
        let fate = Fate::Outstanding;
        self.packets
            .insert(identity, Known { space, number, bytes, in_flight, ack_eliciting, path, fate });
    }

    /// Converts random parts to descending ranges of sent packet numbers, and acknowledges them.
    fn acknowledge(&mut self, space: usize, parts: &[(u16, u16)]) {
        let sent: Vec<u64> = self
            .packets
            .values()
            .filter(|packet| packet.space == space)
            .map(|packet| packet.number)
            .collect();
        if sent.is_empty() {
            return;
        }
        let mut chosen: Vec<u64> = Vec::new();
        for (start, length) in parts {
            let start = usize::from(*start) % sent.len();
            let length = usize::from(*length) % 12 + 1;
            chosen.extend(sent.iter().skip(start).take(length));
        }
        chosen.sort_unstable();
        chosen.dedup();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in chosen {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        ranges.reverse();
        self.bench.ack_in(SpaceId::ALL[space], self.now, &ranges);
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Send { space, count, bytes, kind } => {
                if self.discarded[space] {
                    return;
                }
                for _ in 0..count {
                    self.send(space, bytes, kind);
                }
                self.bench.recovery.transmitted(self.now).unwrap();
            }
            Operation::Acknowledge { space, parts } => self.acknowledge(space, &parts),
            Operation::Wait { milliseconds } => self.now += ms(milliseconds),
            Operation::Deadline => {
                if let Some(deadline) = self.bench.deadline() {
                    self.now = self.now.max(deadline);
                    let expired = self.bench.expire(self.now);
                    assert_ne!(expired, Expired::Nothing, "it was due");
                    // S13: at this instant, the losses and the probes of each space are handled,
                    // and then nothing more.
                    let is_due = |bench: &Bench| bench.deadline().is_some_and(|d| d <= self.now);
                    let repeats = (0..4).take_while(|_| {
                        is_due(&self.bench) && self.bench.expire(self.now) != Expired::Nothing
                    });
                    assert!(repeats.count() < 4, "it keeps being due");
                    assert!(!is_due(&self.bench));
                }
            }
            Operation::Discard { space } => {
                self.bench.recovery.discard_space(SpaceId::ALL[space], self.now).unwrap();
                self.discarded[space] = true;
                for packet in self.packets.values_mut() {
                    if packet.space == space && packet.fate == Fate::Outstanding {
                        packet.fate = Fate::Discarded;
                    }
                }
            }
            Operation::Abandon { space } => self.abandon(space),
            Operation::NewPath => {
                self.path += 1;
                self.bench.recovery.on_new_path(self.path, self.now, 1200).unwrap();
            }
        }
    }

    fn abandon(&mut self, space: usize) {
        let before = self.bench.reports().len();
        self.bench.recovery.abandon_outstanding(SpaceId::ALL[space], self.now).unwrap();
        assert_eq!(self.bench.reports().len(), before);
        let mut tokens = Vec::new();
        self.bench.recovery.take_lost(&mut tokens);
        for (_, token) in &tokens {
            let packet = self.packets.get_mut(&number_of(token)).unwrap();
            assert_eq!((packet.space, packet.fate), (space, Fate::Outstanding));
            packet.fate = Fate::Discarded;
        }
        let left = |packet: &Known| packet.space == space && packet.fate == Fate::Outstanding;
        assert!(!self.packets.values().any(left));
    }

    /// Every token is returned once: as lost, as acknowledged, or first as lost and then as acknowledged.
    fn follow_tokens(&mut self) {
        let mut tokens = Vec::new();
        self.bench.recovery.take_lost(&mut tokens);
        for (space, token) in &tokens {
            let packet = self.packets.get_mut(&number_of(token)).unwrap();
            assert_eq!(SpaceId::ALL[packet.space], *space);
            assert_eq!(packet.fate, Fate::Outstanding);
            packet.fate = Fate::Lost;
        }
        self.bench.recovery.take_acked(&mut tokens);
        for (space, token) in &tokens {
            let packet = self.packets.get_mut(&number_of(token)).unwrap();
            assert_eq!(SpaceId::ALL[packet.space], *space);
            assert!(matches!(packet.fate, Fate::Outstanding | Fate::Lost));
            packet.fate = Fate::Acknowledged;
        }
    }

    fn check(&mut self) {
        self.follow_tokens();
        let outstanding =
            || self.packets.values().filter(|packet| packet.fate == Fate::Outstanding);
        let expected: u64 = outstanding()
            .filter(|packet| packet.in_flight && packet.path == self.path)
            .map(|packet| packet.bytes)
            .sum();
        let stats = self.bench.recovery.stats();
        assert_eq!(stats.bytes_in_flight, expected);
        assert_eq!(self.bench.recovery.ledger.sum_in_flight().unwrap(), expected);
        let counts = stats.counts;
        let left: u64 = outstanding().filter(|packet| packet.in_flight).count() as u64;
        assert_eq!(
            counts.packets_sent,
            counts.packets_acknowledged + counts.packets_lost - counts.packets_spuriously_lost
                + counts.packets_discarded
                + left
        );
        if outstanding().any(|packet| packet.ack_eliciting) || expected > 0 {
            assert!(self.bench.deadline().is_some(), "L3");
        }
        let next = self.bench.recovery.ledger.next_index();
        for report in self.bench.reports() {
            let packets = report.acked.iter().chain(&report.lost);
            assert!(packets.into_iter().all(|packet| packet.index < next));
            assert!(report.acked.is_sorted_by_key(|packet| packet.index));
            assert!(report.lost.is_sorted_by_key(|packet| packet.index));
        }
        self.bench.record.lock().unwrap().reports.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_ledger_adds_up(
        confirmed in any::<bool>(),
        operations in prop::collection::vec(operation(), 1..80),
    ) {
        let mut model = Model::new();
        model.bench.context.handshake_confirmed = confirmed;
        for operation in operations {
            model.apply(operation);
            model.check();
        }
    }
}
