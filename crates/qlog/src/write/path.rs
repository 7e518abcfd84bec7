use core::net::{IpAddr, SocketAddr};

use clearway_units::Timestamp;

use super::json::Object;
use super::records::Records;

/// Writes one half of a TupleEndpointInfo (quic-events §8.5).
pub(super) fn address(json: &mut Object<'_>, ip: IpAddr, port: u16) {
    let (ip_name, port_name) = match ip {
        IpAddr::V4(_) => ("ip_v4", "port_v4"),
        IpAddr::V6(_) => ("ip_v6", "port_v6"),
    };
    json.text(ip_name, &ip.to_string());
    json.number(port_name, port);
}

/// The network paths (tuples) of a connection, numbered in the order in which the peer used them;
/// the first has the empty name that the draft requires.
#[derive(Debug)]
pub(super) struct Tuples {
    remote: SocketAddr,
    number: u64,
    is_validated: bool,
}

impl Tuples {
    pub(super) const fn new(remote: SocketAddr) -> Self {
        // The handshake validates the first tuple; without a handshake there is no connection.
        Self { remote, number: 0, is_validated: true }
    }

    /// Updates the peer's address to `remote`, or records that `remote` has been validated.
    pub(super) fn update(
        &mut self,
        records: &mut Records,
        now: Timestamp,
        remote: SocketAddr,
        is_validated: bool,
    ) {
        let is_new = remote != self.remote;
        if is_new {
            if !self.is_validated {
                self.migration(records, now, "migration_abandoned");
            }
            self.remote = remote;
            self.number = self.number.saturating_add(1);
            records.event(now, "quic:tuple_assigned", |json| {
                json.text("tuple_id", &self.name());
                json.object("tuple_remote", |json| address(json, remote.ip(), remote.port()));
            });
        }
        if is_new || is_validated != self.is_validated {
            self.is_validated = is_validated;
            let state = if is_validated { "migration_complete" } else { "migration_started" };
            self.migration(records, now, state);
        }
    }

    fn migration(&self, records: &mut Records, now: Timestamp, state: &str) {
        records.event(now, "quic:migration_state_updated", |json| {
            json.text("new", state);
            json.text("tuple_id", &self.name());
        });
    }

    fn name(&self) -> String {
        if self.number == 0 { String::new() } else { self.number.to_string() }
    }
}
