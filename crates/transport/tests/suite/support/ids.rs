//! Generators of connection IDs that are not random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_transport::ConnectionIdGenerator;
use clearway_units::Random;
use clearway_wire::ConnectionId;

/// Generates connection IDs whose first octet is their configuration number.
#[derive(Debug, Default)]
pub struct Rotating(AtomicU64);

impl Rotating {
    pub const LEN: usize = 8;

    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Switches to another configuration.
    pub fn rotate(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl ConnectionIdGenerator for Rotating {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        let mut id = random.array::<{ Self::LEN }>();
        id[0] = self.rotation() as u8;
        ConnectionId::new(&id).unwrap()
    }

    fn len(&self) -> usize {
        Self::LEN
    }

    fn rotation(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Generates zero-length IDs for an endpoint with one connection, which receives all packets.
#[derive(Debug)]
pub struct NoIds;

impl ConnectionIdGenerator for NoIds {
    fn generate(&self, _: &mut Random) -> ConnectionId {
        ConnectionId::default()
    }

    fn len(&self) -> usize {
        0
    }
}

/// Generates random IDs with this number of octets.
#[derive(Debug)]
pub struct OfLength(pub usize);

impl ConnectionIdGenerator for OfLength {
    fn generate(&self, random: &mut Random) -> ConnectionId {
        ConnectionId::new(&random.array::<20>()[..self.0]).unwrap()
    }

    fn len(&self) -> usize {
        self.0
    }
}
