//! Counts the stream data that has arrived: this endpoint's data according to the peer's
//! acknowledgments, and the peer's data according to its packets.

use core::time::Duration;
use std::collections::BTreeMap;

use super::MAX_POINTS;
use super::series::Series;
use crate::read::{Frame, Packet, PacketSpace};

/// The length of the intervals over which goodput is averaged.
const INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of packets that are remembered until they are acknowledged.
const MAX_OUTSTANDING: usize = 1 << 16;

/// Counts the stream data that arrived.
#[derive(Default, Debug)]
pub(super) struct Deliveries {
    /// Number of bytes of stream data in each 1-RTT packet that is not acknowledged yet, by packet
    /// number.
    outstanding: BTreeMap<u64, u64>,
    sent: Direction,
    received: Direction,
}

/// Stream data in one direction.
#[derive(Debug)]
struct Direction {
    series: Series,
    total: u64,
    /// Number of bytes in the current interval, which began at `began`.
    bytes: u64,
    began: Duration,
}

impl Default for Direction {
    fn default() -> Self {
        Self { series: Series::new(MAX_POINTS), total: 0, bytes: 0, began: Duration::ZERO }
    }
}

impl Direction {
    fn add(&mut self, at: Duration, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.advance(at);
        self.bytes = self.bytes.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    /// Ends the intervals before `at`.
    fn advance(&mut self, at: Duration) {
        let end = self.began.saturating_add(INTERVAL);
        if at < end {
            return;
        }
        self.series.push(self.began, self.bytes as f64 / INTERVAL.as_secs_f64());
        self.bytes = 0;
        let intervals = at.as_nanos().checked_div(INTERVAL.as_nanos()).unwrap_or_default();
        let began = INTERVAL.saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX));
        if began > end {
            // No data has arrived since then.
            self.series.push(end, 0.0);
        }
        self.began = began;
    }
}

impl Deliveries {
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        let bytes = payload(packet);
        let is_application = packet.packet_type.space() == Some(PacketSpace::Application);
        if let (Some(number), true, true) = (packet.number, is_application, bytes > 0) {
            if self.outstanding.len() >= MAX_OUTSTANDING {
                self.outstanding.pop_first();
            }
            self.outstanding.insert(number, bytes);
        }
    }

    pub(super) fn on_received(&mut self, at: Duration, packet: &Packet) {
        if packet.packet_type.space() != Some(PacketSpace::Application) {
            return;
        }
        self.received.add(at, payload(packet));
        let acknowledged: u64 = packet
            .frames
            .iter()
            .flatten()
            .filter_map(|frame| match frame {
                Frame::Ack { ranges, .. } => Some(ranges),
                _ => None,
            })
            .flatten()
            .map(|range| self.take(*range.start(), *range.end()))
            .fold(0, u64::saturating_add);
        self.sent.add(at, acknowledged);
    }

    /// Removes the outstanding packets from `first` to `last`, and returns how many bytes of stream
    /// data they carried.
    fn take(&mut self, first: u64, last: u64) -> u64 {
        if first > last {
            return 0;
        }
        let mut bytes = 0_u64;
        while let Some((number, payload)) =
            self.outstanding.range(first..=last).next().map(|(number, payload)| (*number, *payload))
        {
            self.outstanding.remove(&number);
            bytes = bytes.saturating_add(payload);
        }
        bytes
    }

    /// Returns the intervals that are complete so far, from the series that
    /// [`finish`](Self::finish) returns.
    pub(super) fn so_far(&self) -> &Series {
        match self.sent.total >= self.received.total {
            true => &self.sent.series,
            false => &self.received.series,
        }
    }

    /// Returns the bytes per second over time, in the direction that carried more.
    pub(super) fn finish(mut self, last: Duration) -> Series {
        for direction in [&mut self.sent, &mut self.received] {
            if direction.total > 0 {
                direction.advance(last.saturating_add(INTERVAL));
            }
        }
        let Self { sent, received, .. } = self;
        if sent.total >= received.total { sent.series } else { received.series }
    }
}

/// Returns the bytes of stream data in a packet.
fn payload(packet: &Packet) -> u64 {
    let frames = packet.frames.iter().flatten();
    let lengths = frames.filter_map(|frame| match frame {
        Frame::Stream { length, .. } => *length,
        _ => None,
    });
    lengths.fold(0, u64::saturating_add)
}
