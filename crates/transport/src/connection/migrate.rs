//! Migrations that this endpoint starts or announces: a client's migration to another local address
//! (RFC 9000 §9.2), and the server's preferred address at both ends (§9.6). The new path is
//! validated while the old one is in use.

use core::net::{IpAddr, SocketAddr};

use clearway_units::Timestamp;
use clearway_wire::PreferredAddress;

use super::Connection;
use super::receive::PacketContext;
use crate::address::{PathAddress, SocketIndex};
use crate::event::{Event, IgnoredAddress, MigrationError, MigrationFailure};
use crate::observer::Observation;
use crate::path::CandidateNews;

/// The number of probe timeouts for which the old path is remembered: packets may still arrive on
/// it (RFC 9000 §9.3.3).
const LEAVING_TIMEOUTS: u32 = 3;

impl Connection {
    /// Starts migrating this client to another local address: that of `socket`, whose IP address is
    /// `local_ip` if known (RFC 9000 §9.2). The new path is validated with a connection ID that no
    /// other path has used (§9.5), while the current path stays in use. [`Event::Migrated`] follows
    /// when the connection has moved, [`Event::MigrationFailed`] if the new path could not be
    /// validated, and later [`Event::PathLeft`] when nothing more is expected on the old path.
    /// Until then datagrams may arrive through either socket.
    ///
    /// On the new path, congestion control, the round-trip time, the datagram size and ECN are
    /// reset to their initial state (§9.4), unless both `local_ip` and the old path's local address
    /// are known and only the port differs.
    ///
    /// # Errors
    /// Returns an error if the connection may not migrate now. The connection is then unchanged.
    pub fn migrate(
        &mut self,
        now: Timestamp,
        socket: SocketIndex,
        local_ip: Option<IpAddr>,
    ) -> Result<(), MigrationError> {
        self.permits_migration()?;
        if socket == self.paths.current().socket() {
            return Err(MigrationError::SameSocket);
        }
        let address = PathAddress { socket, remote: self.remote_address() };
        self.begin_candidate(now, address, local_ip, true)
    }

    /// Whether [`migrate`](Self::migrate) can start now with a new path.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    pub fn may_migrate(&self) -> Result<(), MigrationError> {
        self.permits_migration()?;
        match self.remote_ids.has_spare() {
            true => Ok(()),
            false => Err(MigrationError::NoSpareConnectionId),
        }
    }

    fn permits_migration(&self) -> Result<(), MigrationError> {
        if self.side.is_server() {
            return Err(MigrationError::NotAClient);
        }
        if self.lifecycle.is_closed() {
            return Err(MigrationError::Closed);
        }
        if !self.lifecycle.is_confirmed() {
            return Err(MigrationError::HandshakeNotConfirmed);
        }
        // §18.2: the peer forbids it only for the address used in the handshake.
        if self.peer.parameters.disable_active_migration && !self.flags.is_at_preferred_address {
            return Err(MigrationError::DisabledByPeer);
        }
        if self.paths.candidate().is_some() {
            return Err(MigrationError::InProgress);
        }
        if self.remote_ids.current().is_empty() {
            return Err(MigrationError::NoConnectionIdsOfPeer);
        }
        Ok(())
    }

    /// Returns whether the connection uses `socket`: on its current path, on one that it is
    /// validating, or on one that it has left so recently that datagrams may still arrive.
    pub fn uses_socket(&self, socket: SocketIndex) -> bool {
        self.paths.sockets().any(|used| used == socket)
    }

    fn begin_candidate(
        &mut self,
        now: Timestamp,
        address: PathAddress,
        local_ip: Option<IpAddr>,
        is_wanted: bool,
    ) -> Result<(), MigrationError> {
        if self.reserve_id(now, address).is_none() {
            return Err(MigrationError::NoSpareConnectionId);
        }
        let probe_timeout = self.probe_timeout();
        let local_id = self.paths.current().local_id();
        self.paths.begin_candidate(
            now,
            (address, local_ip),
            local_id,
            is_wanted,
            probe_timeout,
            &mut self.random,
        );
        Ok(())
    }

    /// Validates the server's preferred address on a client whose handshake is confirmed, and
    /// migrates there (§9.6.1).
    pub(super) fn follow_preferred_address(&mut self, now: Timestamp) {
        let Some(preferred) = self.peer.parameters.preferred_address.as_deref().copied() else {
            return;
        };
        if self.side.is_server() || !self.config.follow_preferred_address {
            return;
        }
        let current = *self.paths.current();
        match choose_address(&preferred, current.remote()) {
            Ok(remote) if remote == current.remote() => self.flags.is_at_preferred_address = true,
            Ok(remote) => {
                let address = PathAddress { socket: current.socket(), remote };
                // This requires an unused connection ID, such as the one in the preferred_address
                // parameter. Without one, the connection stays at the original address.
                if self.begin_candidate(now, address, current.local_ip(), true).is_ok() {
                    self.flags.preferred_address = Some(Box::new(remote));
                }
            }
            Err(reason) => self.events.push_back(Event::PreferredAddressIgnored(reason)),
        }
    }

    /// Handles a packet on a server's socket other than the current path's: the client uses the
    /// preferred address. The server continues to send from the original address until the client
    /// has sent a non-probing packet there (`is_move`) and the path from there is validated
    /// (§9.6.2). After that it does not move back.
    pub(super) fn on_packet_at_other_socket(
        &mut self,
        now: Timestamp,
        packet: &PacketContext,
        is_move: bool,
    ) {
        let address = packet.arrival.address();
        if !self.lifecycle.is_confirmed() || self.flags.is_at_preferred_address {
            return;
        }
        if self.paths.candidate() != Some(address) {
            self.paths.drop_candidate();
            let local_ip = packet.arrival.local_ip;
            if self.begin_candidate(now, address, local_ip, is_move).is_err() {
                // A connection ID may be available when a later packet from the client arrives.
                return;
            }
        }
        if self.paths.on_candidate_used(packet.destination, is_move) {
            self.adopt_candidate(now);
        }
    }

    /// Handles a PATH_RESPONSE that is not for the current path.
    pub(super) fn receive_candidate_response(&mut self, now: Timestamp, data: [u8; 8]) {
        let probe_timeout = self.probe_timeout();
        let news = self.paths.on_candidate_response(now, data, probe_timeout, &mut self.random);
        self.on_candidate_news(now, news);
    }

    pub(super) fn on_candidate_deadline(&mut self, now: Timestamp) {
        let news = self.paths.on_candidate_deadline(now, &mut self.random);
        self.on_candidate_news(now, news);
        if let Some(drained) = self.paths.take_drained(now) {
            self.release_connection_ids();
            self.events
                .push_back(Event::PathLeft { socket: drained.socket, remote: drained.remote });
        }
    }

    fn on_candidate_news(&mut self, now: Timestamp, news: Option<CandidateNews>) {
        match news {
            None => {}
            Some(CandidateNews::Ready) => self.adopt_candidate(now),
            Some(CandidateNews::Failed(address)) => {
                self.fail_migration(address, MigrationFailure::NotValidated);
            }
        }
    }

    fn fail_migration(&mut self, address: PathAddress, reason: MigrationFailure) {
        self.paths.drop_candidate();
        self.release_connection_ids();
        let PathAddress { socket, remote } = address;
        if self.flags.preferred_address.as_deref() == Some(&remote) {
            self.flags.preferred_address = None;
        }
        if self.side.is_client() {
            self.events.push_back(Event::MigrationFailed { socket, remote, reason });
        }
    }

    /// Makes the candidate the current path.
    fn adopt_candidate(&mut self, now: Timestamp) {
        let Some(address) = self.paths.candidate() else { return };
        let old = self.paths.current().address();
        if !self.remote_ids.follow(old, address, false) {
            // The peer has retired the connection ID of the new path without issuing another.
            return self.fail_migration(address, MigrationFailure::NoConnectionId);
        }
        let drain = self.probe_timeout().saturating_mul(LEAVING_TIMEOUTS);
        let Some(is_only_port) = self.paths.adopt_candidate(now, drain) else { return };
        self.release_connection_ids();
        let is_new_socket = address.socket != old.socket;
        self.flags.is_at_preferred_address |= match self.side.is_server() {
            true => is_new_socket,
            false => self.flags.preferred_address.as_deref() == Some(&address.remote),
        };
        if !self.start_path(now, !is_only_port) {
            return;
        }
        // The peer follows upon the first non-probing packet.
        self.flags.ping_pending |= self.side.is_client();
        let path = *self.paths.current();
        let updated = Observation::PathUpdated {
            socket: path.socket(),
            remote: path.remote(),
            is_validated: true,
            is_new_path: !is_only_port,
        };
        self.observe(now, &updated);
        self.events.push_back(Event::Migrated { socket: address.socket, remote: address.remote });
    }
}

/// Returns the server's preferred address for a client connected to `current`: the one of the same
/// family. A connection never migrates to addresses that no server on another host can have, so
/// that a server cannot direct a client's datagrams at the client's own host or network (RFC 9000
/// §21.5.3, §21.5.6). Such an address is ignored rather than an error: the connection works without
/// it, and an unreachable preferred address has the same effect (§9.6.1).
fn choose_address(
    preferred: &PreferredAddress,
    current: SocketAddr,
) -> Result<SocketAddr, IgnoredAddress> {
    let is_mapped = current.is_ipv6() && current.ip().to_canonical().is_ipv4();
    let remote = match current.ip().to_canonical() {
        IpAddr::V4(_) => preferred.ipv4.map(SocketAddr::from),
        IpAddr::V6(_) => preferred.ipv6.map(SocketAddr::from),
    };
    let remote = remote.ok_or(IgnoredAddress::OtherFamily)?;
    let ip = remote.ip().to_canonical();
    if ip.is_unspecified() {
        return Err(IgnoredAddress::Unspecified);
    }
    if remote.port() == 0 {
        return Err(IgnoredAddress::NoPort);
    }
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_multicast() || is_broadcast {
        return Err(IgnoredAddress::Multicast);
    }
    if ip.is_loopback() && !current.ip().to_canonical().is_loopback() {
        return Err(IgnoredAddress::Loopback);
    }
    Ok(match ip {
        IpAddr::V4(ip) if is_mapped => SocketAddr::new(ip.to_ipv6_mapped().into(), remote.port()),
        _ => remote,
    })
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
