//! Helpers for the tests: a log in memory, its records, and payloads.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use clearway_transport::{EcnCodepoint, Observation, PacketObservation, Side};
use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, Frame, PacketNumber, PacketType, Writer};
use serde_json::Value;

/// An in-memory file that can be inspected while it is written. It keeps the bytes of each write
/// call separately.
#[derive(Clone, Default)]
pub(super) struct Memory {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The capacity in bytes. A write beyond this fails as on a full disk.
    capacity: Option<usize>,
}

impl Memory {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { capacity: Some(capacity), ..Self::default() }
    }

    pub(super) fn writes(&self) -> Vec<Vec<u8>> {
        self.writes.lock().unwrap().clone()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.writes().concat()
    }

    /// Returns all records, parsed.
    pub(super) fn records(&self) -> Vec<Value> {
        records(&self.bytes())
    }

    /// Returns the data of all events called `name`.
    pub(super) fn events(&self, name: &str) -> Vec<Value> {
        let records = self.records().into_iter();
        records
            .filter(|record| record["name"] == name)
            .map(|record| record["data"].clone())
            .collect()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let used = self.bytes().len();
        if self.capacity.is_some_and(|capacity| used + bytes.len() > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.writes.lock().unwrap().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns all records of a log, each of which must be JSON.
pub(super) fn records(bytes: &[u8]) -> Vec<Value> {
    let mut parts = bytes.split(|byte| *byte == 0x1e);
    assert_eq!(parts.next(), Some(&b""[..]), "a log begins with a record separator");
    parts
        .map(|part| {
            assert_eq!(part.last(), Some(&b'\n'), "a record ends with a line feed");
            serde_json::from_slice(part).unwrap()
        })
        .collect()
}

pub(super) fn at(milliseconds: u64) -> Timestamp {
    Timestamp::from_nanos(milliseconds * 1_000_000)
}

pub(super) fn connection_id(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

pub(super) fn started(side: Side) -> Observation<'static> {
    Observation::Started {
        side,
        remote: "192.0.2.1:443".parse().unwrap(),
        local_id: connection_id(&[0x11; 8]),
        remote_id: connection_id(&[0x22; 8]),
        original_destination_id: connection_id(&[0xab; 8]),
    }
}

/// Returns the observation that a packet of this type was received.
pub(super) fn received(packet_type: PacketType) -> Observation<'static> {
    Observation::PacketReceived(PacketObservation {
        packet_type,
        number: PacketNumber::new(0).unwrap(),
        key_phase: false,
        size: 1200,
        payload: &[1],
        is_probe: false,
        is_path_probe: false,
        is_mtu_probe: false,
        ecn: EcnCodepoint::NotEct,
    })
}

/// Returns the payload of a packet with these frames.
pub(super) fn payload(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let mut writer = Writer::new(&mut buffer);
    for frame in frames {
        frame.encode(&mut writer).unwrap();
    }
    writer.filled().to_vec()
}
