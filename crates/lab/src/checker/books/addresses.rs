//! What came from each of the peer's addresses and was sent there (S12).

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: SocketAddr,
    received: u64,
    sent: u64,
    is_validated: bool,
    /// The endpoint validates it once more, which it may (RFC 9000 §9.3).
    is_validated_again: bool,
}

/// The peer's addresses, and which of them are known to be its.
#[derive(Debug, Default)]
pub(in crate::checker) struct Addresses {
    entries: Vec<Entry>,
    /// Where the datagram that is being taken in came from.
    arriving: Option<SocketAddr>,
    /// Where the last datagrams of the watched connection were sent, except probes of other paths. A server that a client
    /// reaches from two addresses may have another connection, whose packets are not seen.
    current: Option<SocketAddr>,
    /// Bytes of packets of the watched connection that were built but not handed over yet.
    unsent: u64,
    /// The packet that was built last probes another path than the current one.
    is_probe_built: bool,
    /// Challenges that were built but not handed over yet, and those in flight, with their addresses.
    built: Vec<[u8; 8]>,
    challenges: Vec<([u8; 8], SocketAddr)>,
    /// Another connection of this endpoint, whose packets are not seen, has sent a datagram.
    has_other_connection: bool,
    /// The validation of further addresses cannot be observed.
    is_blind: bool,
    /// The next datagram has an Initial packet that has to be padded.
    is_padding_due: bool,
    /// A Handshake packet came.
    has_handshake_packet: bool,
}

/// Datagrams with such Initial packets have at least so many bytes (RFC 9000 §14.1).
const LEAST_WITH_INITIAL: u64 = 1200;

impl Addresses {
    fn entry(&mut self, address: SocketAddr) -> &mut Entry {
        // The newest is the one in use.
        let found = self.entries.iter().rposition(|entry| entry.address == address);
        let position = found.unwrap_or_else(|| {
            self.entries.push(Entry {
                address,
                received: 0,
                sent: 0,
                is_validated: false,
                is_validated_again: false,
            });
            self.entries.len() - 1
        });
        &mut self.entries[position]
    }

    /// A datagram came.
    pub(in crate::checker) fn on_delivered(&mut self, from: SocketAddr, size: u64) {
        self.arriving = Some(from);
        self.entry(from).received += size;
    }

    /// A datagram was sent. Returns how much may be sent to an address that is not validated and how much was sent,
    /// if that is more.
    ///
    /// # Errors
    /// The bytes sent, and the bytes received.
    pub(in crate::checker) fn on_submitted(
        &mut self,
        to: SocketAddr,
        size: u64,
    ) -> Result<(), String> {
        if let Some(rest) = self.unsent.checked_sub(size) {
            self.unsent = rest;
            if !core::mem::take(&mut self.is_probe_built) {
                self.current = Some(to);
            }
            for data in core::mem::take(&mut self.built) {
                self.challenges.push((data, to));
            }
        } else {
            self.has_other_connection |= self.current.is_some();
        }
        let is_blind = self.is_blind;
        let entry = self.entry(to);
        entry.sent += size;
        if !is_blind && !entry.is_validated && entry.sent > 3 * entry.received {
            return Err(format!(
                "{} bytes were sent to {to}, which is not validated and from which {} were received",
                entry.sent, entry.received
            ));
        }
        Ok(())
    }

    /// Whether another connection of this endpoint, whose packets are not seen, has sent a datagram.
    pub(in crate::checker) fn has_other_connection(&self) -> bool {
        self.has_other_connection
    }

    /// A packet of `size` bytes was built.
    pub(in crate::checker) fn on_packet_built(&mut self, size: u64, probes_another_path: bool) {
        self.unsent += size;
        self.is_probe_built = probes_another_path;
    }

    /// An Initial packet was built, of a client or one that elicits an ACK.
    pub(in crate::checker) fn on_initial_built(&mut self) {
        self.is_padding_due = true;
    }

    /// A datagram of `size` bytes was sent.
    ///
    /// # Errors
    /// It should have been padded.
    pub(in crate::checker) fn check_padding(&mut self, size: u64) -> Result<(), String> {
        if core::mem::take(&mut self.is_padding_due) && size < LEAST_WITH_INITIAL {
            return Err(format!(
                "a datagram of {size} bytes has an Initial packet that requires {LEAST_WITH_INITIAL}"
            ));
        }
        Ok(())
    }

    /// A Handshake packet was received. Its client received what was sent before the first of them, so it is at the
    /// address where that was sent (RFC 9000 §8.1). The packet itself need not come from there.
    pub(in crate::checker) fn on_handshake_packet(&mut self) {
        if !core::mem::replace(&mut self.has_handshake_packet, true)
            && let Some(address) = self.current
        {
            self.entry(address).is_validated = true;
        }
    }

    /// The peer has validated its address at an endpoint whose packets are not observed. It may migrate later, and
    /// whether it then answers a challenge is encrypted, so nothing more can be checked.
    pub(in crate::checker) fn look_away(&mut self) {
        self.is_blind = true;
    }

    /// A PATH_CHALLENGE was built; it goes where the next datagram goes.
    pub(in crate::checker) fn on_challenge_built(&mut self, data: [u8; 8]) {
        self.built.push(data);
    }

    /// A PATH_RESPONSE was received: the address that was challenged with this data has answered.
    pub(in crate::checker) fn on_response(&mut self, data: [u8; 8]) {
        let challenged = self.challenges.iter().find(|(challenge, _)| *challenge == data);
        if let Some(address) = challenged.map(|(_, address)| *address) {
            let entry = self.entry(address);
            entry.is_validated = true;
            entry.is_validated_again = false;
        }
    }

    /// The endpoint has moved to an address of the peer that it does not take as validated.
    pub(in crate::checker) fn on_move_to_unvalidated(&mut self, address: SocketAddr) {
        let entry = self.entry(address);
        entry.is_validated_again = entry.is_validated;
    }

    /// # Errors
    /// The peer has not shown that it is at `address`.
    pub(in crate::checker) fn check_validated(&self, address: SocketAddr) -> Result<(), String> {
        let found = self.entries.iter().rfind(|entry| entry.address == address);
        if self.is_blind || found.is_none_or(|entry| entry.is_validated) {
            return Ok(());
        }
        Err(format!(
            "{address} is reported as validated; no PATH_CHALLENGE sent there was answered"
        ))
    }

    /// The least of what may be sent where datagrams went last and to where the peer's come from; `None` if neither has a
    /// limit. They differ after a probe of the previous address.
    pub(in crate::checker) fn least_credit(&self) -> Option<u64> {
        let credit = |address| self.entries.iter().find(|entry| entry.address == address)?.credit();
        [self.current, self.arriving].into_iter().flatten().filter_map(credit).min()
    }

    /// How much may be sent where datagrams went last; `None` if there is no limit.
    pub(in crate::checker) fn credit(&self) -> Option<u64> {
        let current = self.current.or(self.arriving)?;
        self.entries.iter().find(|entry| entry.address == current)?.credit()
    }
}

impl Entry {
    /// How much may be sent there; `None` if there is no limit.
    fn credit(&self) -> Option<u64> {
        if self.is_validated_again {
            // How much was received since is not known here.
            return Some(0);
        }
        (!self.is_validated).then(|| (3 * self.received).saturating_sub(self.sent))
    }
}
