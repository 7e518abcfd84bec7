//! Probes of a silent peer (RFC 9002 §6.2.4), and the early retransmission in a handshake that lost packets
//! (RFC 9002 §6.2.3).

use super::Connection;
use crate::recovery::Expired;
use crate::space_id::SpaceId;

/// How many times a handshake is probed before the probe timer expires, which RFC 9002 §6.2.3 requires to be limited.
const MAX_EARLY_PROBES: u8 = 4;
/// How many datagrams an expired timer sends in a handshake (RFC 9002 §6.2.4): each is all there is, and
/// the next would follow only after twice the time.
const HANDSHAKE_PROBES: u8 = 2;
/// Handshake data of one packet number space that fits into two datagrams.
const TWO_DATAGRAMS: usize = 2200;
/// How often a server asks for the rest of a ClientHello without waiting for its probe timer.
const MAX_HELLO_REQUESTS: u8 = 4;
/// How many late Handshake packets of a client have HANDSHAKE_DONE sent again. Anyone can forge such packets: their keys are gone.
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

    /// A packet shows that the peer has not received something that was sent: it repeats earlier data, or it is
    /// protected with keys that are not available yet. Waiting for the timer, which often has no round-trip time
    /// sample yet, would take a second or more (RFC 9002 §6.2.3).
    pub(super) fn hasten_handshake(&mut self) {
        let is_probing = SpaceId::ALL.into_iter().any(|space| *self.outgoing.probes.get(space) > 0);
        let is_over = self.lifecycle.is_confirmed() || self.lifecycle.is_closed();
        if !is_over && !is_probing && self.flags.early_probes < MAX_EARLY_PROBES {
            self.flags.early_probes = self.flags.early_probes.saturating_add(1);
            self.probe_handshake(None, 1);
        }
    }

    /// A server has a part of a ClientHello, and packets with others were lost. Its ACK of that part, which is not sent again,
    /// may be lost as well, and the client sends no more than two datagrams in each of its probe timeouts, which double from
    /// a second on. A PING with the ACK is sent until the client acknowledges it: the client then knows the round-trip time,
    /// and what is missing.
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

    /// A Handshake packet came to a server that has discarded the keys. A client that goes on sending them has not received
    /// HANDSHAKE_DONE, for which the server's probe timer may be long: its round-trip time sample is one of a handshake
    /// that lost packets.
    pub(super) fn repeat_handshake_done(&mut self) {
        let is_coming = self.flags.handshake_done_pending;
        if !is_coming && self.flags.handshake_done_repeats > 0 && !self.lifecycle.is_closed() {
            let repeats = &mut self.flags.handshake_done_repeats;
            *repeats = repeats.saturating_sub(1);
            self.flags.handshake_done_pending = true;
        }
    }

    /// Probes the space whose timer expired and every other space in which something is outstanding, so
    /// that their packets share datagrams: the peer may have keys for only one of them (RFC 9002 §6.2.4).
    /// Before a timer has expired, those are the spaces of the handshake (RFC 9002 §6.2.3).
    ///
    /// The same holds for a space with handshake data that was lost, or that was never sent, and that the congestion window
    /// holds back. Packets of a later space may fill the window, and the peer cannot read, nor acknowledge, these before
    /// it has that data: a ServerHello of which a few bytes are missing.
    ///
    /// So does early data that is outstanding: what lost the ClientHello may have lost the 0-RTT packets behind it.
    ///
    /// A client probes two spaces in any case. A packet in the newest space of the handshake shows the
    /// server that its Initial packets were received, and that the address is valid. Once the client's handshake is
    /// complete, the server's may be confirmed: then it has discarded its Handshake keys, and only a 1-RTT
    /// packet reaches it and shows it an address that has changed (RFC 9000 §9.3).
    pub(super) fn probe_handshake(&mut self, expired: Option<SpaceId>, count: u8) {
        let can_seal = |space: &SpaceId| self.handshake.protection().can_seal(*space);
        let newest = [SpaceId::Handshake, SpaceId::Initial].into_iter().find(can_seal);
        let newest = newest.filter(|_| self.side.is_client());
        let last = Some(SpaceId::Application);
        let last = last.filter(|_| self.side.is_client() && self.handshake.is_complete());
        for space in SpaceId::ALL {
            let is_too_soon = expired.is_none() && space == SpaceId::Application;
            let is_asked = [expired, newest, last].contains(&Some(space));
            let can_seal = self.can_send(space) && !is_too_soon;
            let has_pending = space != SpaceId::Application && self.handshake.has_pending(space);
            if can_seal
                && (self.recovery.get_mut().begin_probing(space) > 0 || is_asked || has_pending)
            {
                self.probe(space, count);
            }
        }
    }

    /// A probe carries new data if there is some, otherwise the data that has been unacknowledged for the longest time
    /// (RFC 9002 §6.2.4). Handshake data of which two datagrams hold all is sent whole: packets that repeat one part each
    /// may leave out the one part that never arrives, and the next probe may be seconds away.
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

    /// A probe of `space` was built. If it held all handshake data, so does the next.
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
