//! A connection's properties, and the settings that can be changed while it exists.

use core::net::IpAddr;
use core::time::Duration;

use clearway_transport::{ConnectionError, Side};
use clearway_wire::VarInt;

use super::{Connecting, Connection};
use crate::bridge::{Requests, Signal};
use crate::connection_ref::CLOSED;
use crate::error::ConnectError;
use crate::handshake_data::HandshakeData;
use crate::streams::{Negotiation, State};

impl Connecting {
    /// Waits until the application protocol is negotiated, about one round trip before a server's
    /// handshake is complete. The peer is not authenticated yet.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn handshake_data(&mut self) -> Result<HandshakeData, ConnectError> {
        // There is no connection after the future was polled to its end.
        let Some(reference) = &self.reference else { return Err(CLOSED) };
        let wanted = reference.wait_acting(Signal::Connection, |state, effects| {
            if let Some(known) = negotiated(state) {
                return Some(Ok(known));
            }
            if let Some(error) = &state.error {
                return Some(Err(error.clone()));
            }
            if matches!(state.app.negotiation, Negotiation::Unwanted) {
                state.app.negotiation = Negotiation::Wanted;
                effects.wake_shard();
            }
            None
        });
        wanted.await
    }

    /// Returns the local address that the peer sends to; `None` until a datagram has arrived, or if
    /// the socket does not report it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.reference.as_ref()?.lock().app.local_ip
    }
}

/// Returns what the handshake has negotiated, if it is known.
fn negotiated(state: &State) -> Option<HandshakeData> {
    match (&state.established, &state.app.negotiation) {
        (Some(established), _) => Some(HandshakeData {
            application_protocol: established.application_protocol.clone(),
            server_name: established.server_name.clone(),
        }),
        (None, Negotiation::Known(known)) => Some(HandshakeData::clone(known)),
        (None, Negotiation::Unwanted | Negotiation::Wanted) => None,
    }
}

impl Connection {
    /// Returns a number that identifies the connection: the same for all of its clones, and another
    /// for each connection that exists at the same time.
    pub fn stable_id(&self) -> usize {
        core::ptr::from_ref(&*self.reference).addr()
    }

    /// Returns this endpoint's role: client or server.
    pub fn side(&self) -> Side {
        self.first.side
    }

    /// Returns the local address that the peer sends to, as of the last batch of datagrams; `None`
    /// if the socket does not report it.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.reference.lock().app.local_ip
    }

    /// Returns the smoothed round-trip time, as of the last batch of datagrams; `None` until there
    /// is a sample.
    pub fn rtt(&self) -> Option<Duration> {
        self.statistics().smoothed_rtt
    }

    /// Returns the smallest round-trip time, as of the last batch of datagrams; `None` until there
    /// is a sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.statistics().minimum_rtt
    }

    /// Waits until the handshake is complete and the peer authenticated, which matters only on a
    /// connection of [`Connecting::into_0rtt`]: other connections are authenticated from the
    /// beginning.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn authenticated(&self) -> Result<(), ConnectionError> {
        self.wait_for(|state| state.established.is_some()).await
    }

    /// Waits until the handshake is confirmed (RFC 9001 §4.1.2): the peer has completed it, too.
    ///
    /// # Errors
    /// Fails if the connection ends earlier.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is lost.
    pub async fn handshake_confirmed(&self) -> Result<(), ConnectionError> {
        self.wait_for(|state| state.app.is_confirmed).await
    }

    async fn wait_for(&self, is_met: impl Fn(&State) -> bool) -> Result<(), ConnectionError> {
        let wanted = self.reference.wait(Signal::Connection, |state| match is_met(state) {
            true => Some(Ok(())),
            false => state.lost().map(Err),
        });
        wanted.await
    }

    /// Updates the keys of packet protection (RFC 9001 §6), once the handshake is confirmed and an
    /// earlier update is complete. Until then, further calls have no effect. The new keys protect
    /// the packets that are sent afterward; this sends none.
    ///
    /// Keys are also updated automatically, well before their usage limits are reached.
    pub fn force_key_update(&self) {
        self.request(|requests| requests.key_update = true);
    }

    /// Sets how many bidirectional streams the peer may have open at the same time, instead of
    /// [`max_concurrent_bidirectional_streams`](crate::TransportConfigBuilder::max_concurrent_bidirectional_streams).
    /// A lower number takes effect as streams end, since the peer may open the streams that it was
    /// already permitted to open (RFC 9000 §4.6).
    pub fn set_max_concurrent_bi_streams(&self, count: VarInt) {
        self.request(|requests| requests.max_bidirectional = Some(count.get()));
    }

    /// Sets how many unidirectional streams the peer may have open at the same time, like
    /// [`set_max_concurrent_bi_streams`](Self::set_max_concurrent_bi_streams).
    pub fn set_max_concurrent_uni_streams(&self, count: VarInt) {
        self.request(|requests| requests.max_unidirectional = Some(count.get()));
    }

    /// Sets the maximum receive window of the connection in bytes, instead of
    /// [`max_connection_receive_window`](crate::TransportConfigBuilder::max_connection_receive_window).
    /// The window grows up to the maximum when the application reads fast. A larger window shrinks
    /// as data is read: the credit that the peer already has stays valid (RFC 9000 §4.1).
    pub fn set_receive_window(&self, bytes: VarInt) {
        self.request(|requests| requests.receive_window = Some(bytes.get()));
    }

    /// Sets the maximum number of bytes that the transport keeps until the peer acknowledges them,
    /// instead of [`send_buffer`](crate::TransportConfigBuilder::send_buffer). Each stream buffers
    /// up to 1 MiB in addition to this.
    pub fn set_send_window(&self, bytes: u64) {
        self.request(|requests| requests.send_buffer = Some(bytes));
    }

    /// Passes a change to the shard. It is dropped if the connection has ended.
    fn request(&self, change: impl FnOnce(&mut Requests)) {
        self.reference.act(|state, effects| {
            if state.error.is_none() {
                change(state.app.requests.get_or_insert_default());
                effects.wake_shard();
            }
        });
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
