//! The bytes received from and sent to each of the peer's addresses (S12).

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: SocketAddr,
    received: u64,
    sent: u64,
    is_validated: bool,
    /// Whether the endpoint validates the address again, as RFC 9000 §9.3 permits.
    is_validated_again: bool,
}

/// The peer's addresses and their validation state.
#[derive(Debug, Default)]
pub(in crate::checker) struct Addresses {
    entries: Vec<Entry>,
    /// The source of the datagram that is being processed.
    arriving: Option<SocketAddr>,
    /// The destination of the observed connection's latest datagrams, except for probes of other
    /// paths. A server that a client contacts from two addresses may have another connection, whose
    /// packets are not observed.
    current: Option<SocketAddr>,
    /// Bytes in packets of the observed connection that have been built but not yet submitted.
    unsent: u64,
    /// Whether the packet built last probes a path other than the current one.
    is_probe_built: bool,
    /// Challenges that have been built but not yet submitted, and challenges in flight, each with
    /// its destination address.
    built: Vec<[u8; 8]>,
    challenges: Vec<([u8; 8], SocketAddr)>,
    /// Whether another connection of this endpoint, whose packets are not observed, has sent a
    /// datagram.
    has_other_connection: bool,
    /// Whether the validation of additional addresses cannot be observed.
    is_unobservable: bool,
    /// Whether the next datagram contains an Initial packet that requires padding.
    is_padding_due: bool,
    /// Whether a Handshake packet was received.
    has_handshake_packet: bool,
}

/// The minimum size of datagrams with Initial packets that require padding, in bytes (RFC 9000
/// §14.1).
const LEAST_WITH_INITIAL: u64 = 1200;

impl Addresses {
    fn entry(&mut self, address: SocketAddr) -> &mut Entry {
        // The newest entry is the one in use.
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

    /// Records a received datagram.
    pub(in crate::checker) fn on_delivered(&mut self, from: SocketAddr, size: u64) {
        self.arriving = Some(from);
        self.entry(from).received += size;
    }

    /// Records a sent datagram.
    ///
    /// # Errors
    /// Returns an error with the bytes sent and received, if more was sent than is allowed for an
    /// unvalidated address.
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
        let is_unobservable = self.is_unobservable;
        let entry = self.entry(to);
        entry.sent += size;
        if !is_unobservable && !entry.is_validated && entry.sent > 3 * entry.received {
            return Err(format!(
                "{} bytes were sent to {to}, an address that is not validated and from which {} \
                 bytes were received",
                entry.sent, entry.received
            ));
        }
        Ok(())
    }

    /// Returns whether another connection of this endpoint, whose packets are not observed, has
    /// sent a datagram.
    pub(in crate::checker) fn has_other_connection(&self) -> bool {
        self.has_other_connection
    }

    /// Records that a packet of `size` bytes was built.
    pub(in crate::checker) fn on_packet_built(&mut self, size: u64, probes_another_path: bool) {
        self.unsent += size;
        self.is_probe_built = probes_another_path;
    }

    /// Records that an Initial packet that requires padding was built: any Initial packet of a
    /// client, or an ack-eliciting one of a server.
    pub(in crate::checker) fn on_initial_built(&mut self) {
        self.is_padding_due = true;
    }

    /// Checks a sent datagram of `size` bytes.
    ///
    /// # Errors
    /// Returns an error if the datagram should have been padded.
    pub(in crate::checker) fn check_padding(&mut self, size: u64) -> Result<(), String> {
        if core::mem::take(&mut self.is_padding_due) && size < LEAST_WITH_INITIAL {
            return Err(format!(
                "a datagram with an Initial packet has {size} bytes, but needs {LEAST_WITH_INITIAL}"
            ));
        }
        Ok(())
    }

    /// Processes a received Handshake packet. The client must have received the datagrams sent
    /// before its first Handshake packet, so it is at the address to which they were sent (RFC 9000
    /// §8.1). The packet itself may come from elsewhere.
    pub(in crate::checker) fn on_handshake_packet(&mut self) {
        if !core::mem::replace(&mut self.has_handshake_packet, true)
            && let Some(address) = self.current
        {
            self.entry(address).is_validated = true;
        }
    }

    /// Stops checking: the peer has validated its address at an endpoint whose packets are not
    /// observed. The peer may migrate later, and its responses to challenges are encrypted.
    pub(in crate::checker) fn stop_checking(&mut self) {
        self.is_unobservable = true;
    }

    /// Records a new PATH_CHALLENGE frame; it is sent with the next datagram.
    pub(in crate::checker) fn on_challenge_built(&mut self, data: [u8; 8]) {
        self.built.push(data);
    }

    /// Processes a received PATH_RESPONSE frame: the address that was challenged with this data has
    /// responded.
    pub(in crate::checker) fn on_response(&mut self, data: [u8; 8]) {
        let challenged = self.challenges.iter().find(|(challenge, _)| *challenge == data);
        if let Some(address) = challenged.map(|(_, address)| *address) {
            let entry = self.entry(address);
            entry.is_validated = true;
            entry.is_validated_again = false;
        }
    }

    /// Records that the endpoint has switched to a peer address that it considers unvalidated.
    pub(in crate::checker) fn on_move_to_unvalidated(&mut self, address: SocketAddr) {
        let entry = self.entry(address);
        entry.is_validated_again = entry.is_validated;
    }

    /// Checks a report that the peer is validated at `address`.
    ///
    /// # Errors
    /// Returns an error if the peer has not proven that it is at `address`.
    pub(in crate::checker) fn check_validated(&self, address: SocketAddr) -> Result<(), String> {
        let found = self.entries.iter().rfind(|entry| entry.address == address);
        if self.is_unobservable || found.is_none_or(|entry| entry.is_validated) {
            return Ok(());
        }
        Err(format!(
            "{address} is reported as validated, but no PATH_CHALLENGE sent there was answered"
        ))
    }

    /// Returns the lower of the anti-amplification limits of the last destination and of the source
    /// address of the peer's datagrams; `None` if neither has a limit. The two addresses differ
    /// after a probe of the previous address.
    pub(in crate::checker) fn least_credit(&self) -> Option<u64> {
        let credit = |address| self.entries.iter().find(|entry| entry.address == address)?.credit();
        [self.current, self.arriving].into_iter().flatten().filter_map(credit).min()
    }

    /// Returns how many more bytes the anti-amplification limit allows to be sent to the last
    /// destination; `None` if there is no limit.
    pub(in crate::checker) fn credit(&self) -> Option<u64> {
        let current = self.current.or(self.arriving)?;
        self.entries.iter().find(|entry| entry.address == current)?.credit()
    }
}

impl Entry {
    /// Returns how many more bytes the anti-amplification limit allows to be sent to this address;
    /// `None` if there is no limit.
    fn credit(&self) -> Option<u64> {
        if self.is_validated_again {
            // The number of bytes received since then is unknown here.
            return Some(0);
        }
        (!self.is_validated).then(|| (3 * self.received).saturating_sub(self.sent))
    }
}
