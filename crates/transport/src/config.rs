//! Connection settings.

mod builder;

use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::ControllerFactory;
use clearway_wire::{VarInt, Version};

use crate::datagram::{DatagramsConfig, QueueLimits};
use crate::path::{MtuConfig, SpinBit};
use crate::streams::StreamsConfig;

pub use self::builder::{InvalidSetting, TransportConfigBuilder};

/// The transport settings of one connection. The defaults suit a client or a server on the
/// Internet; [`TransportConfig::builder`] changes and checks them.
///
/// ```
/// use clearway_transport::TransportConfig;
/// use std::time::Duration;
///
/// let config = TransportConfig::builder()
///     .max_idle_timeout(Some(Duration::from_secs(10)))
///     .max_datagram_size(1400)
///     .build()?;
/// assert_eq!((config.initial_datagram_size(), config.max_datagram_size()), (1200, 1400));
///
/// let error = TransportConfig::builder().max_datagram_size(70_000).build().unwrap_err();
/// assert_eq!(error.setting, "max_datagram_size");
/// # Ok::<(), clearway_transport::InvalidSetting>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransportConfig {
    pub(crate) max_idle_timeout: Option<Duration>,
    pub(crate) keep_alive_interval: Option<Duration>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) initial_datagram_size: u16,
    pub(crate) max_datagram_size: u16,
    pub(crate) discover_path_mtu: bool,
    pub(crate) max_concurrent_bidirectional_streams: u64,
    pub(crate) max_concurrent_unidirectional_streams: u64,
    pub(crate) initial_stream_receive_window: u64,
    pub(crate) max_stream_receive_window: u64,
    pub(crate) initial_connection_receive_window: u64,
    pub(crate) max_connection_receive_window: u64,
    pub(crate) send_buffer: u64,
    pub(crate) max_datagram_frame_size: Option<u64>,
    pub(crate) datagram_receive_buffer: u64,
    pub(crate) datagram_receive_limit: usize,
    pub(crate) datagram_send_buffer: u64,
    pub(crate) datagram_send_limit: usize,
    pub(crate) datagram_drops_oldest: bool,
    pub(crate) datagram_notices: bool,
    pub(crate) reset_stream_at: bool,
    pub(crate) max_ack_delay: Duration,
    pub(crate) ack_eliciting_threshold: u32,
    pub(crate) min_ack_delay: Option<Duration>,
    pub(crate) ack_frequency: bool,
    pub(crate) initial_rtt: Duration,
    pub(crate) packet_threshold: u64,
    pub(crate) controller: Arc<dyn ControllerFactory>,
    pub(crate) initial_window: Option<u64>,
    pub(crate) maximum_window: u64,
    pub(crate) skip_packet_numbers: bool,
    pub(crate) ecn: bool,
    pub(crate) key_update_after: Option<u64>,
    pub(crate) versions: Vec<Version>,
    pub(crate) first_version: Option<Version>,
    pub(crate) prefers_own_version: bool,
    pub(crate) version_information: bool,
    pub(crate) grease_quic_bit: bool,
    pub(crate) spin_bit: SpinBit,
    pub(crate) allow_active_migration: bool,
    pub(crate) follow_preferred_address: bool,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            max_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_interval: None,
            handshake_timeout: Duration::from_secs(20),
            initial_datagram_size: 1200,
            max_datagram_size: 65_527,
            discover_path_mtu: true,
            max_concurrent_bidirectional_streams: 100,
            max_concurrent_unidirectional_streams: 100,
            initial_stream_receive_window: 256 << 10,
            max_stream_receive_window: 32 << 20,
            initial_connection_receive_window: 1 << 20,
            max_connection_receive_window: 48 << 20,
            send_buffer: 32 << 20,
            max_datagram_frame_size: None,
            datagram_receive_buffer: 1 << 20,
            datagram_receive_limit: 1 << 14,
            datagram_send_buffer: 1 << 20,
            datagram_send_limit: 1 << 14,
            datagram_drops_oldest: false,
            datagram_notices: false,
            reset_stream_at: true,
            max_ack_delay: Duration::from_millis(25),
            ack_eliciting_threshold: 2,
            min_ack_delay: Some(Duration::from_millis(1)),
            ack_frequency: true,
            initial_rtt: Duration::from_millis(333),
            packet_threshold: 3,
            controller: Arc::new(clearway_congestion::Algorithm::default()),
            initial_window: None,
            maximum_window: 1 << 30,
            skip_packet_numbers: true,
            ecn: true,
            key_update_after: None,
            versions: vec![Version::V2, Version::V1],
            first_version: None,
            prefers_own_version: false,
            version_information: true,
            grease_quic_bit: true,
            spin_bit: SpinBit::default(),
            allow_active_migration: true,
            follow_preferred_address: true,
        }
    }
}

impl TransportConfig {
    /// Returns a builder that starts from the defaults.
    pub fn builder() -> TransportConfigBuilder {
        Self::default().to_builder()
    }

    /// Returns a builder that starts from these settings.
    pub fn to_builder(&self) -> TransportConfigBuilder {
        TransportConfigBuilder::from(self.clone())
    }

    /// See [`TransportConfigBuilder::initial_datagram_size`].
    pub fn initial_datagram_size(&self) -> u16 {
        self.initial_datagram_size
    }

    /// See [`TransportConfigBuilder::max_datagram_size`].
    pub fn max_datagram_size(&self) -> u16 {
        self.max_datagram_size
    }

    /// See [`TransportConfigBuilder::discover_path_mtu`].
    pub fn discover_path_mtu(&self) -> bool {
        self.discover_path_mtu
    }

    /// The factory for each path's congestion controller.
    pub fn controller(&self) -> &Arc<dyn ControllerFactory> {
        &self.controller
    }

    /// The initial congestion window, in bytes; `None` for the default of RFC 9002 §7.2.
    pub fn initial_window(&self) -> Option<u64> {
        self.initial_window
    }

    /// The maximum congestion window, in bytes.
    pub fn maximum_window(&self) -> u64 {
        self.maximum_window
    }

    /// The initial packet threshold of loss detection (RFC 9002 §6.1.1).
    pub fn packet_threshold(&self) -> u64 {
        self.packet_threshold
    }

    /// The round-trip time assumed until there is a sample (RFC 9002 §6.2.2).
    pub fn initial_rtt(&self) -> Duration {
        self.initial_rtt
    }

    /// See [`TransportConfigBuilder::max_idle_timeout`].
    pub fn max_idle_timeout(&self) -> Option<Duration> {
        self.max_idle_timeout
    }

    /// See [`TransportConfigBuilder::keep_alive_interval`].
    pub fn keep_alive_interval(&self) -> Option<Duration> {
        self.keep_alive_interval
    }

    /// See [`TransportConfigBuilder::handshake_timeout`].
    pub fn handshake_timeout(&self) -> Duration {
        self.handshake_timeout
    }

    /// See [`TransportConfigBuilder::max_concurrent_bidirectional_streams`].
    pub fn max_concurrent_bidirectional_streams(&self) -> u64 {
        self.max_concurrent_bidirectional_streams
    }

    /// See [`TransportConfigBuilder::max_concurrent_unidirectional_streams`].
    pub fn max_concurrent_unidirectional_streams(&self) -> u64 {
        self.max_concurrent_unidirectional_streams
    }

    /// See [`TransportConfigBuilder::initial_stream_receive_window`].
    pub fn initial_stream_receive_window(&self) -> u64 {
        self.initial_stream_receive_window
    }

    /// See [`TransportConfigBuilder::max_stream_receive_window`].
    pub fn max_stream_receive_window(&self) -> u64 {
        self.max_stream_receive_window
    }

    /// See [`TransportConfigBuilder::initial_connection_receive_window`].
    pub fn initial_connection_receive_window(&self) -> u64 {
        self.initial_connection_receive_window
    }

    /// See [`TransportConfigBuilder::max_connection_receive_window`].
    pub fn max_connection_receive_window(&self) -> u64 {
        self.max_connection_receive_window
    }

    /// See [`TransportConfigBuilder::send_buffer`].
    pub fn send_buffer(&self) -> u64 {
        self.send_buffer
    }

    /// See [`TransportConfigBuilder::max_datagram_frame_size`].
    pub fn max_datagram_frame_size(&self) -> Option<u64> {
        self.max_datagram_frame_size
    }

    /// See [`TransportConfigBuilder::datagram_receive_buffer`].
    pub fn datagram_receive_buffer(&self) -> u64 {
        self.datagram_receive_buffer
    }

    /// See [`TransportConfigBuilder::datagram_receive_limit`].
    pub fn datagram_receive_limit(&self) -> usize {
        self.datagram_receive_limit
    }

    /// See [`TransportConfigBuilder::datagram_send_buffer`].
    pub fn datagram_send_buffer(&self) -> u64 {
        self.datagram_send_buffer
    }

    /// See [`TransportConfigBuilder::datagram_send_limit`].
    pub fn datagram_send_limit(&self) -> usize {
        self.datagram_send_limit
    }

    /// See [`TransportConfigBuilder::datagram_drops_oldest`].
    pub fn datagram_drops_oldest(&self) -> bool {
        self.datagram_drops_oldest
    }

    /// See [`TransportConfigBuilder::datagram_notices`].
    pub fn datagram_notices(&self) -> bool {
        self.datagram_notices
    }

    /// See [`TransportConfigBuilder::reset_stream_at`].
    pub fn reset_stream_at(&self) -> bool {
        self.reset_stream_at
    }

    /// See [`TransportConfigBuilder::min_ack_delay`].
    pub fn min_ack_delay(&self) -> Option<Duration> {
        self.min_ack_delay
    }

    /// See [`TransportConfigBuilder::ack_frequency`].
    pub fn ack_frequency(&self) -> bool {
        self.ack_frequency
    }

    /// See [`TransportConfigBuilder::max_ack_delay`].
    pub fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }

    /// See [`TransportConfigBuilder::ack_eliciting_threshold`].
    pub fn ack_eliciting_threshold(&self) -> u32 {
        self.ack_eliciting_threshold
    }

    /// See [`TransportConfigBuilder::skip_packet_numbers`].
    pub fn skip_packet_numbers(&self) -> bool {
        self.skip_packet_numbers
    }

    /// See [`TransportConfigBuilder::ecn`].
    pub fn ecn(&self) -> bool {
        self.ecn
    }

    /// See [`TransportConfigBuilder::key_update_after`].
    pub fn key_update_after(&self) -> Option<u64> {
        self.key_update_after
    }

    /// See [`TransportConfigBuilder::versions`].
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// See [`TransportConfigBuilder::first_version`].
    pub fn first_version(&self) -> Version {
        let oldest = if self.versions.contains(&Version::V1) {
            Version::V1
        } else {
            self.versions.first().copied().unwrap_or(Version::V1)
        };
        self.first_version.unwrap_or(oldest)
    }

    /// See [`TransportConfigBuilder::prefers_own_version`].
    pub fn prefers_own_version(&self) -> bool {
        self.prefers_own_version
    }

    /// See [`TransportConfigBuilder::version_information`].
    pub fn version_information(&self) -> bool {
        self.version_information
    }

    /// See [`TransportConfigBuilder::grease_quic_bit`].
    pub fn grease_quic_bit(&self) -> bool {
        self.grease_quic_bit
    }

    /// See [`TransportConfigBuilder::spin_bit`].
    pub fn spin_bit(&self) -> SpinBit {
        self.spin_bit
    }

    /// See [`TransportConfigBuilder::allow_active_migration`].
    pub fn allow_active_migration(&self) -> bool {
        self.allow_active_migration
    }

    /// See [`TransportConfigBuilder::follow_preferred_address`].
    pub fn follow_preferred_address(&self) -> bool {
        self.follow_preferred_address
    }

    /// Returns whether a server with these settings may switch to a version other than `original`,
    /// the version of the client's first flight.
    pub(crate) fn may_change_from(&self, original: Version) -> bool {
        self.version_information
            && self.prefers_own_version
            && self.versions.first().is_some_and(|preferred| *preferred != original)
    }

    /// The `max_ack_delay` transport parameter, in milliseconds.
    pub(crate) fn max_ack_delay_parameter(&self) -> VarInt {
        let milliseconds = u64::try_from(self.max_ack_delay.as_millis()).unwrap_or(u64::MAX);
        VarInt::saturating(milliseconds.min((1 << 14) - 1))
    }

    /// `min_ack_delay` as advertised: capped at the advertised `max_ack_delay`
    /// (draft-ietf-quic-ack-frequency §3).
    pub(crate) fn least_ack_delay(&self) -> Option<Duration> {
        let longest = Duration::from_millis(self.max_ack_delay_parameter().get());
        self.min_ack_delay.map(|least| least.min(longest))
    }

    /// The `max_idle_timeout` transport parameter, in milliseconds; 0 for none.
    pub(crate) fn idle_timeout_parameter(&self) -> VarInt {
        let milliseconds = self.max_idle_timeout.map_or(0, |timeout| timeout.as_millis());
        VarInt::saturating(u64::try_from(milliseconds).unwrap_or(u64::MAX))
    }

    pub(crate) fn streams(&self) -> StreamsConfig {
        StreamsConfig {
            max_concurrent_bidirectional: self.max_concurrent_bidirectional_streams,
            max_concurrent_unidirectional: self.max_concurrent_unidirectional_streams,
            initial_stream_receive_window: self.initial_stream_receive_window,
            max_stream_receive_window: self.max_stream_receive_window,
            initial_connection_receive_window: self.initial_connection_receive_window,
            max_connection_receive_window: self.max_connection_receive_window,
            send_buffer: self.send_buffer,
        }
    }

    pub(crate) fn datagrams(&self) -> DatagramsConfig {
        DatagramsConfig {
            max_frame_size: self.max_datagram_frame_size.unwrap_or(0),
            receive: QueueLimits {
                bytes: self.datagram_receive_buffer,
                datagrams: self.datagram_receive_limit,
            },
            send: QueueLimits {
                bytes: self.datagram_send_buffer,
                datagrams: self.datagram_send_limit,
            },
            drops_oldest: self.datagram_drops_oldest,
            notices: self.datagram_notices,
        }
    }

    pub(crate) fn mtu(&self) -> MtuConfig {
        MtuConfig {
            initial: self.initial_datagram_size,
            maximum: self.max_datagram_size,
            is_enabled: self.discover_path_mtu,
        }
    }

    /// Bytes available for frames in a 1-RTT packet that fills a datagram of `datagram_size` bytes,
    /// assuming the longest header and an AEAD tag.
    pub(crate) fn packet_room(datagram_size: usize) -> usize {
        datagram_size.saturating_sub(MAX_SHORT_HEADER.saturating_add(TAG))
    }
}

/// Size of the first byte, the longest connection ID and the longest packet number.
const MAX_SHORT_HEADER: usize = 1 + 20 + 4;
const TAG: usize = 16;

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
