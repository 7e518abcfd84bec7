//! Probes of a silent peer (RFC 9002 §6.2.4), and early retransmission in a handshake that lost
//! packets (RFC 9002 §6.2.3).

use super::Connection;
use crate::recovery::Expired;
use crate::space_id::SpaceId;

/// The maximum number of handshake probes before the probe timer expires; RFC 9002 §6.2.3 requires
/// a limit.
const MAX_EARLY_PROBES: u8 = 4;
/// The number of datagrams that are sent when the timer expires during a handshake (RFC 9002
/// §6.2.4): they carry everything that is outstanding, and the timer expires again only after twice
/// the time.
const HANDSHAKE_PROBES: u8 = 2;
/// The maximum size of one packet number space's handshake data that fits into two datagrams.
const TWO_DATAGRAMS: usize = 2200;
/// The maximum number of requests for the missing part of a ClientHello that a server sends without
/// waiting for its probe timer.
const MAX_HELLO_REQUESTS: u8 = 4;
/// The maximum number of a client's late Handshake packets that trigger another HANDSHAKE_DONE.
/// Anyone can forge such packets, since their keys have been discarded.
pub(super) const MAX_HANDSHAKE_DONE_REPEATS: u8 = 4;

impl Connection {
    pub(super) fn on_recovery_expired(&mut self, expired: Expired) {
        match expired {
            Expired::Nothing => {}
            Expired::Losses => self.dispatch_tokens(),
            Expired::Probes { space: SpaceId::Application, count } => {
                self.probe(SpaceId::Application, u8::try_from(count).unwrap_or(u8::MAX));
            }
            Expired::Probes { space, .. } => self.probe_handshake(Some(space), HANDSHAKE_PROBES),
        }
    }

    /// Handles a packet that shows that the peer has not received something: it repeats earlier
    /// data, or is protected with keys that are not available yet. Waiting for the timer, which
    /// often has no RTT sample yet, would take a second or more (RFC 9002 §6.2.3).
    pub(super) fn probe_handshake_early(&mut self) {
        let is_probing = SpaceId::ALL.into_iter().any(|space| *self.outgoing.probes.get(space) > 0);
        let is_over = self.lifecycle.is_confirmed() || self.lifecycle.is_closed();
        if !is_over && !is_probing && self.flags.early_probes < MAX_EARLY_PROBES {
            self.flags.early_probes = self.flags.early_probes.saturating_add(1);
            self.probe_handshake(None, 1);
        }
    }

    /// On a server, requests the missing part of a ClientHello. The ACK of the received part is not
    /// retransmitted and may be lost as well, and the client sends at most two datagrams per probe
    /// timeout, which starts at a second and doubles. A PING with the ACK is sent until the client
    /// acknowledges it: the client then knows the round-trip time and what is missing.
    pub(super) fn ask_for_client_hello(&mut self) {
        let is_missing = self.side.is_server()
            && self.received.get(SpaceId::Initial).has_gap()
            && !self.handshake.protection().can_seal(SpaceId::Handshake);
        if is_missing
            && *self.outgoing.probes.get(SpaceId::Initial) == 0
            && self.flags.hello_requests < MAX_HELLO_REQUESTS
        {
            self.flags.hello_requests = self.flags.hello_requests.saturating_add(1);
            self.probe(SpaceId::Initial, 1);
        }
    }

    /// Repeats HANDSHAKE_DONE after a Handshake packet reached a server that has discarded the
    /// keys. A client that continues to send them has not received HANDSHAKE_DONE, and the server's
    /// probe timer may be long: its RTT sample comes from a handshake that lost packets.
    pub(super) fn repeat_handshake_done(&mut self) {
        let is_coming = self.flags.handshake_done_pending;
        if !is_coming && self.flags.handshake_done_repeats > 0 && !self.lifecycle.is_closed() {
            let repeats = &mut self.flags.handshake_done_repeats;
            *repeats = repeats.saturating_sub(1);
            self.flags.handshake_done_pending = true;
        }
    }

    /// Probes the space whose timer expired and every other space with outstanding packets, so that
    /// their packets share datagrams: the peer may have keys for only one of them (RFC 9002
    /// §6.2.4). If called before a timer has expired, probes the handshake spaces (RFC 9002
    /// §6.2.3).
    ///
    /// Also probes a space with handshake data that was lost or never sent and is blocked by the
    /// congestion window. Packets of a later space may fill the window, and the peer can neither
    /// read nor acknowledge them before it has that data: for example a ServerHello with a few
    /// bytes missing.
    ///
    /// Also probes outstanding early data: the 0-RTT packets behind a lost ClientHello may be lost
    /// too.
    ///
    /// A client always probes two spaces. A packet in the newest handshake space shows the server
    /// that its Initial packets were received, and that the address is valid. Once the client's
    /// handshake is complete, the server's may be confirmed and its Handshake keys discarded: then
    /// only a 1-RTT packet reaches it and reveals a changed address (RFC 9000 §9.3).
    pub(super) fn probe_handshake(&mut self, expired: Option<SpaceId>, count: u8) {
        let can_seal = |space: &SpaceId| self.handshake.protection().can_seal(*space);
        let newest = [SpaceId::Handshake, SpaceId::Initial].into_iter().find(can_seal);
        let newest = newest.filter(|_| self.side.is_client());
        let last = Some(SpaceId::Application);
        let last = last.filter(|_| self.side.is_client() && self.handshake.is_complete());
        for space in SpaceId::ALL {
            let is_too_soon = expired.is_none() && space == SpaceId::Application;
            let is_requested = [expired, newest, last].contains(&Some(space));
            let can_seal = self.can_send(space) && !is_too_soon;
            let has_pending = space != SpaceId::Application && self.handshake.has_pending(space);
            if can_seal
                && (self.recovery.get_mut().begin_probing(space) > 0 || is_requested || has_pending)
            {
                self.probe(space, count);
            }
        }
    }

    /// Sends probes in `space`. A probe carries new data if there is any, otherwise the data that
    /// has been unacknowledged the longest (RFC 9002 §6.2.4). Handshake data that fits into two
    /// datagrams is sent in full: packets that repeat one part each may leave out the one part that
    /// never arrives, and the next probe may be seconds away.
    pub(super) fn probe(&mut self, space: SpaceId, count: u8) {
        let probes = self.outgoing.probes.get_mut(space);
        *probes = (*probes).max(count);
        let has_new = space == SpaceId::Application && self.streams.has_data_pending();
        if has_new {
            return;
        }
        if space != SpaceId::Application {
            let stream = self.handshake.stream_mut(space);
            if stream.unacked_len() <= TWO_DATAGRAMS {
                return stream.retransmit_all_unacked();
            }
        }
        let mut tokens = core::mem::take(self.outgoing.buffers.tokens.get_mut(space));
        tokens.clear();
        for _ in 0..*self.outgoing.probes.get(space) {
            self.recovery.get_mut().probe_tokens(space, &mut tokens);
        }
        for token in tokens.drain(..) {
            self.on_token_lost(space, &token);
        }
        *self.outgoing.buffers.tokens.get_mut(space) = tokens;
    }

    /// Handles a built probe of `space`. If it contained all handshake data, so does the next one.
    pub(super) fn on_probe_staged(&mut self, space: SpaceId) {
        let probes = self.outgoing.probes.get_mut(space);
        *probes = probes.saturating_sub(1);
        if *probes > 0 && space != SpaceId::Application && !self.handshake.has_pending(space) {
            self.handshake.stream_mut(space).retransmit_all_unacked();
        }
    }
}

#[cfg(test)]
#[path = "probing_tests.rs"]
mod tests;
