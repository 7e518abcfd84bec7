//! Observers that record the packets, drops and timers of both endpoints.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use clearway_transport::{
    ConnectionState, DropReason, Observation, Observer, PacketObservation, Side, TimerChange,
    TimerKind,
};
use clearway_units::Timestamp;
use clearway_wire::{Frame, PacketType, Reader, Version};

use super::reliable::{self, Newest, Reliable};

/// A packet that an endpoint sent or received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub at: Timestamp,
    /// The endpoint that sent or received the packet.
    pub side: Side,
    pub is_sent: bool,
    pub packet_type: PacketType,
    pub number: u64,
    pub key_phase: bool,
    pub size: usize,
    pub is_probe: bool,
    /// The types of the packet's frames in order, without PADDING. ACK frames have one type, with
    /// or without ECN counts.
    pub frames: Vec<u64>,
}

impl Packet {
    pub fn has(&self, frame_type: u64) -> bool {
        self.frames.contains(&frame_type)
    }
}

const ACK: u64 = 0x02;

#[derive(Default)]
struct Records {
    packets: Vec<Packet>,
    /// The reliable information that each endpoint has sent and received.
    reliable: HashMap<(Side, bool), Newest>,
    keeps_no_packets: bool,
    drops: Vec<(Side, DropReason)>,
    /// The endpoints whose connections are draining, or have ended.
    draining: HashSet<Side>,
    chosen: Vec<(Side, Option<Version>)>,
    lowest_window: Option<u64>,
    /// All timers that were ever set, with the current deadline of those that are still set.
    timers: HashMap<(Side, TimerKind), Option<Timestamp>>,
    handshake_packets_at_server: usize,
    acks_of_handshake_at_client: usize,
}

/// The records of both endpoints' observers.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Records>>);

struct EndObserver(Side, Watch);

impl Watch {
    pub fn client(&self) -> Box<dyn Observer> {
        Box::new(EndObserver(Side::Client, self.clone()))
    }

    pub fn server(&self) -> Box<dyn Observer> {
        Box::new(EndObserver(Side::Server, self.clone()))
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap()
    }

    /// Stops recording packets, which long transfers do not need.
    pub fn keep_no_packets(&self) {
        self.records().keeps_no_packets = true;
    }

    /// Returns the packets that `side` sent.
    pub fn sent(&self, side: Side) -> Vec<Packet> {
        let records = self.records();
        let sent = records.packets.iter().filter(|packet| packet.is_sent && packet.side == side);
        sent.cloned().collect()
    }

    /// Returns the packets that `side` received and decrypted.
    pub fn received(&self, side: Side) -> Vec<Packet> {
        let records = self.records();
        let received =
            records.packets.iter().filter(|packet| !packet.is_sent && packet.side == side);
        received.cloned().collect()
    }

    /// Returns the versions that `side` chose, in order.
    pub fn chosen(&self, side: Side) -> Vec<Option<Version>> {
        let records = self.records();
        let own = records.chosen.iter().filter(|(of, _)| *of == side);
        own.map(|(_, version)| *version).collect()
    }

    /// Checks that all reliable information has arrived, once both endpoints are idle (RFC 9000
    /// §13.3).
    pub fn check_all_arrived(&self) {
        let records = self.records();
        for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
            let [sent, received] =
                [(from, true), (to, false)].map(|end| records.reliable.get(&end));
            assert_eq!(sent, received, "sent by the {from:?}, received by the {to:?}");
        }
    }

    /// Returns how many of its peer's connection IDs `side` has: the one from the handshake, and
    /// those that were issued and not retired.
    pub fn remote_ids(&self, side: Side) -> usize {
        let records = self.records();
        let count = |is_sent, counts: fn(&Reliable) -> bool| {
            let newest = records.reliable.get(&(side, is_sent));
            newest.map_or(0, |newest| newest.keys().filter(|key| counts(key)).count())
        };
        1 + count(false, |key| matches!(key, Reliable::NewConnectionId(_)))
            - count(true, |key| matches!(key, Reliable::RetireConnectionId(_)))
    }

    pub fn drops(&self, side: Side, reason: DropReason) -> usize {
        self.records().drops.iter().filter(|drop| **drop == (side, reason)).count()
    }

    /// Returns whether the connection of `side` no longer sends anything (RFC 9000 §10.2.2).
    pub fn is_draining(&self, side: Side) -> bool {
        self.records().draining.contains(&side)
    }

    /// Returns whether `side` ever set a timer of this kind.
    pub fn has_set(&self, side: Side, timer: TimerKind) -> bool {
        self.records().timers.contains_key(&(side, timer))
    }

    /// Returns when the first of the timers of `side` expires, according to its observer.
    pub fn deadline(&self, side: Side) -> Option<Timestamp> {
        let records = self.records();
        let own = records.timers.iter().filter(|((of, _), _)| *of == side);
        own.filter_map(|(_, at)| *at).min()
    }

    /// Returns the server's smallest congestion window.
    pub fn lowest_window(&self) -> Option<u64> {
        self.records().lowest_window
    }

    pub fn acks_of_handshake_at_client(&self) -> usize {
        self.records().acks_of_handshake_at_client
    }

    pub fn received_by_server_in_handshake(&self) -> usize {
        self.records().handshake_packets_at_server
    }
}

impl Observer for EndObserver {
    fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        let Self(side, watch) = self;
        let mut records = watch.records();
        match observation {
            Observation::Started { side: Side::Server, .. } => {
                records.handshake_packets_at_server = 0
            }
            Observation::Started { side: Side::Client, .. } => {
                records.acks_of_handshake_at_client = 0
            }
            Observation::PacketSent(_) if records.keeps_no_packets => {}
            Observation::PacketReceived(packet)
                if records.keeps_no_packets && packet.packet_type == PacketType::OneRtt => {}
            Observation::PacketSent(packet) => {
                let packet = note(&mut records, now, *side, true, packet);
                records.packets.push(packet);
            }
            Observation::PacketReceived(packet) => {
                if side.is_server() && packet.packet_type == PacketType::Handshake {
                    records.handshake_packets_at_server += 1;
                }
                let packet = note(&mut records, now, *side, false, packet);
                if side.is_client() && packet.packet_type == PacketType::Handshake {
                    records.acks_of_handshake_at_client += usize::from(packet.has(ACK));
                }
                records.packets.push(packet);
            }
            Observation::TimerUpdated { timer, change } => {
                let at = match change {
                    TimerChange::Set(at) => Some(*at),
                    TimerChange::Paced(release) => Some(release.deadline()),
                    TimerChange::Expired | TimerChange::Cancelled => None,
                };
                records.timers.insert((*side, *timer), at);
            }
            Observation::VersionInformation { chosen, .. } => records.chosen.push((*side, *chosen)),
            Observation::StateUpdated(ConnectionState::Draining | ConnectionState::Closed) => {
                records.draining.insert(*side);
            }
            Observation::PacketDropped { reason, .. } => records.drops.push((*side, *reason)),
            Observation::Metrics(metrics) if side.is_server() => {
                let window = metrics.congestion.window;
                records.lowest_window =
                    Some(records.lowest_window.map_or(window, |low| low.min(window)));
            }
            _ => {}
        }
    }
}

fn note(
    records: &mut Records,
    at: Timestamp,
    side: Side,
    is_sent: bool,
    packet: &PacketObservation<'_>,
) -> Packet {
    let mut frames = Vec::new();
    let newest = records.reliable.entry((side, is_sent)).or_default();
    let mut reader = Reader::new(packet.payload);
    while let Ok(frame) = Frame::decode(&mut reader) {
        reliable::note(newest, &frame);
        match frame {
            Frame::Padding(_) => {}
            Frame::Ack(_) => frames.push(ACK),
            _ => frames.push(frame.frame_type()),
        }
    }
    Packet {
        at,
        side,
        is_sent,
        packet_type: packet.packet_type,
        number: packet.number.get(),
        key_phase: packet.key_phase,
        size: packet.size,
        is_probe: packet.is_probe,
        frames,
    }
}
