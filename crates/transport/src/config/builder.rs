//! A builder that checks the transport settings.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::ControllerFactory;
use clearway_wire::Version;

use super::TransportConfig;
use crate::path::SpinBit;

/// The largest variable-length integer (RFC 9000 §16).
const MAX_VARINT: u64 = (1 << 62) - 1;
/// The UDP payload size that every QUIC path supports, in bytes (RFC 9000 §14).
const LEAST_DATAGRAM_SIZE: usize = 1200;
/// The largest UDP payload of IPv6 without jumbograms, in bytes (RFC 9000 §18.2).
const LARGEST_DATAGRAM_SIZE: usize = 65_527;
/// The largest stream limit; a larger one would allow stream IDs that cannot be encoded (RFC 9000
/// §4.6).
const MAX_STREAMS: u64 = 1 << 60;
/// Exclusive upper bound of the `max_ack_delay` transport parameter (RFC 9000 §18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(1 << 14);

/// Error for a setting with an invalid value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The name of the setting and of its builder method.
    pub setting: &'static str,
    /// The rejected value, with its unit.
    pub value: String,
    /// The valid values, and the RFC section that requires them.
    pub permitted: String,
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is {}; it must be {}", self.setting, self.value, self.permitted)
    }
}

impl core::error::Error for InvalidSetting {}

/// A builder of [`TransportConfig`]. [`build`](Self::build) checks the values.
#[derive(Clone, Debug)]
#[must_use]
pub struct TransportConfigBuilder {
    config: TransportConfig,
    /// A wider type than the setting itself, so that a value that is too large can be reported.
    initial_datagram_size: usize,
    max_datagram_size: usize,
}

impl From<TransportConfig> for TransportConfigBuilder {
    fn from(config: TransportConfig) -> Self {
        Self {
            initial_datagram_size: usize::from(config.initial_datagram_size),
            max_datagram_size: usize::from(config.max_datagram_size),
            config,
        }
    }
}

impl TransportConfigBuilder {
    /// The idle timeout: the connection ends when nothing has been received for this long; `None`
    /// disables it (RFC 9000 §10.1).
    pub fn max_idle_timeout(mut self, value: Option<Duration>) -> Self {
        self.config.max_idle_timeout = value;
        self
    }

    /// Sends a PING when nothing has been sent or received for this long (RFC 9000 §10.1.2); `None`
    /// disables keep-alive.
    pub fn keep_alive_interval(mut self, value: Option<Duration>) -> Self {
        self.config.keep_alive_interval = value;
        self
    }

    /// The time after which an incomplete handshake fails.
    pub fn handshake_timeout(mut self, value: Duration) -> Self {
        self.config.handshake_timeout = value;
        self
    }

    /// Whether the peer may intentionally migrate to another local address. If not,
    /// `disable_active_migration` is sent (RFC 9000 §18.2). NAT rebinding is tolerated either way.
    /// The default is `true`.
    pub fn allow_active_migration(mut self, value: bool) -> Self {
        self.config.allow_active_migration = value;
        self
    }

    /// Whether a client moves to the preferred address that its server announces (RFC 9000 §9.6). The default is `true`.
    pub fn follow_preferred_address(mut self, value: bool) -> Self {
        self.config.follow_preferred_address = value;
        self
    }

    /// The largest UDP payload that is sent before a larger one is known to fit the path, in bytes:
    /// 1200 to 65527, and at most [`max_datagram_size`](Self::max_datagram_size). A value above
    /// 1200 needs paths that are known to carry it (RFC 9000 §14). Without [path MTU
    /// discovery](Self::discover_path_mtu), all full datagrams have this size.
    pub fn initial_datagram_size(mut self, bytes: usize) -> Self {
        self.initial_datagram_size = bytes;
        self
    }

    /// The largest UDP payload that path MTU discovery tries, in bytes: 1200 to 65527. The peer's
    /// `max_udp_payload_size` is an additional limit (RFC 9000 §18.2).
    pub fn max_datagram_size(mut self, bytes: usize) -> Self {
        self.max_datagram_size = bytes;
        self
    }

    /// Whether to discover the largest UDP payload that the path carries, and to detect a path that
    /// no longer carries it (DPLPMTUD, RFC 8899 and RFC 9000 §14.3). The default is `true`.
    /// Discovery needs a driver that sends datagrams with the Don't Fragment bit set (RFC 9000
    /// §14).
    pub fn discover_path_mtu(mut self, value: bool) -> Self {
        self.config.discover_path_mtu = value;
        self
    }

    /// The maximum number of bidirectional streams that the peer may have open at the same time.
    pub fn max_concurrent_bidirectional_streams(mut self, value: u64) -> Self {
        self.config.max_concurrent_bidirectional_streams = value;
        self
    }

    /// The maximum number of unidirectional streams that the peer may have open at the same time.
    pub fn max_concurrent_unidirectional_streams(mut self, value: u64) -> Self {
        self.config.max_concurrent_unidirectional_streams = value;
        self
    }

    /// The initial receive window of a stream, in bytes. It grows up to `max_stream_receive_window` as the application
    /// reads.
    pub fn initial_stream_receive_window(mut self, value: u64) -> Self {
        self.config.initial_stream_receive_window = value;
        self
    }

    /// The largest receive window of a stream, in bytes; 32 MiB by default, which suffices for 1
    /// Gbit/s over 100 ms, even while a lost packet delays the data behind it.
    pub fn max_stream_receive_window(mut self, value: u64) -> Self {
        self.config.max_stream_receive_window = value;
        self
    }

    /// The initial receive window of the connection, in bytes.
    pub fn initial_connection_receive_window(mut self, value: u64) -> Self {
        self.config.initial_connection_receive_window = value;
        self
    }

    /// The largest receive window of the connection, in bytes; 48 MiB by default. This bounds what
    /// a peer can make this endpoint buffer if its application reads fast at first and then stops
    /// reading.
    pub fn max_connection_receive_window(mut self, value: u64) -> Self {
        self.config.max_connection_receive_window = value;
        self
    }

    /// The maximum number of bytes that the application has written and the peer has not
    /// acknowledged yet, whether sent or not. The limit is lower, but at least 256 KiB, while the
    /// congestion window is too small to use it.
    pub fn send_buffer(mut self, value: u64) -> Self {
        self.config.send_buffer = value;
        self
    }

    /// The largest DATAGRAM frame to accept, in bytes (RFC 9221 §3); `None` disables them.
    pub fn max_datagram_frame_size(mut self, value: Option<u64>) -> Self {
        self.config.max_datagram_frame_size = value;
        self
    }

    /// The maximum total size of the received unreliable datagrams that are buffered for the
    /// application, in bytes; each counts 64 bytes in addition to its payload. On overflow the
    /// oldest are dropped. 1 MiB by default.
    pub fn datagram_receive_buffer(mut self, value: u64) -> Self {
        self.config.datagram_receive_buffer = value;
        self
    }

    /// The maximum number of received unreliable datagrams that are buffered for the application.
    /// On overflow the oldest are dropped. 16,384 by default.
    pub fn datagram_receive_limit(mut self, value: usize) -> Self {
        self.config.datagram_receive_limit = value;
        self
    }

    /// The maximum total size of the queued unreliable datagrams, in bytes; each counts 64 bytes in
    /// addition to its payload. 1 MiB by default.
    pub fn datagram_send_buffer(mut self, value: u64) -> Self {
        self.config.datagram_send_buffer = value;
        self
    }

    /// The maximum number of queued unreliable datagrams; 16,384 by default.
    pub fn datagram_send_limit(mut self, value: usize) -> Self {
        self.config.datagram_send_limit = value;
        self
    }

    /// Whether an unreliable datagram that does not fit the send queue displaces the oldest queued
    /// ones. By default, it does not, and the new datagram is rejected.
    pub fn datagram_drops_oldest(mut self, value: bool) -> Self {
        self.config.datagram_drops_oldest = value;
        self
    }

    /// Whether an event reports for each unreliable datagram whether it was acknowledged, lost, or
    /// dropped before it was sent (RFC 9221 §5.2). Off by default.
    pub fn datagram_notices(mut self, value: bool) -> Self {
        self.config.datagram_notices = value;
        self
    }

    /// Whether the peer may send RESET_STREAM_AT frames, which guarantee delivery of the beginning
    /// of a stream that is reset (draft-ietf-quic-reliable-stream-reset §3). On by default.
    pub fn reset_stream_at(mut self, value: bool) -> Self {
        self.config.reset_stream_at = value;
        self
    }

    /// The shortest acknowledgment delay that the peer may request in an ACK_FREQUENCY frame
    /// (draft-ietf-quic-ack-frequency §3): 1 ms by default, and never more than `max_ack_delay`.
    /// With `None` the peer cannot send ACK_FREQUENCY.
    pub fn min_ack_delay(mut self, value: Option<Duration>) -> Self {
        self.config.min_ack_delay = value;
        self
    }

    /// Whether to request fewer acknowledgments from the peer once the window is large, and
    /// immediate ones for probes, if the peer supports that (draft-ietf-quic-ack-frequency).
    pub fn ack_frequency(mut self, value: bool) -> Self {
        self.config.ack_frequency = value;
        self
    }

    /// The longest acknowledgment delay (RFC 9000 §13.2.1), 25 ms by default. The timer is set to
    /// four fifths of it, since timers may fire late.
    pub fn max_ack_delay(mut self, value: Duration) -> Self {
        self.config.max_ack_delay = value;
        self
    }

    /// The number of ack-eliciting packets after which an acknowledgment is sent immediately (RFC
    /// 9000 §13.2.2).
    pub fn ack_eliciting_threshold(mut self, value: u32) -> Self {
        self.config.ack_eliciting_threshold = value;
        self
    }

    /// The round-trip time that timers assume until there is a sample (RFC 9002 §6.2.2).
    pub fn initial_rtt(mut self, value: Duration) -> Self {
        self.config.initial_rtt = value;
        self
    }

    /// The initial packet threshold of loss detection, which grows when reordering is observed (RFC 9002 §6.1.1).
    pub fn packet_threshold(mut self, value: u64) -> Self {
        self.config.packet_threshold = value;
        self
    }

    /// The factory for each path's congestion controller.
    pub fn controller(mut self, value: Arc<dyn ControllerFactory>) -> Self {
        self.config.controller = value;
        self
    }

    /// The initial congestion window, in bytes; `None` for the default of RFC 9002 §7.2.
    pub fn initial_window(mut self, value: Option<u64>) -> Self {
        self.config.initial_window = value;
        self
    }

    /// The maximum congestion window, in bytes.
    pub fn maximum_window(mut self, value: u64) -> Self {
        self.config.maximum_window = value;
        self
    }

    /// Whether packet numbers are skipped at random, to detect peers that acknowledge packets they
    /// have not received (RFC 9000 §21.4).
    pub fn skip_packet_numbers(mut self, value: bool) -> Self {
        self.config.skip_packet_numbers = value;
        self
    }

    /// Whether packets are marked ECT(0) on paths that pass ECN validation (RFC 9000 §13.4.2), so
    /// that queues can mark them instead of dropping them. Marks on received packets are reported
    /// to the peer in any case.
    pub fn ecn(mut self, value: bool) -> Self {
        self.config.ecn = value;
        self
    }

    /// The number of packets after which a key update is initiated; `None` initiates one only if
    /// the AEAD's limit requires it (RFC 9001 §6.6).
    pub fn key_update_after(mut self, value: Option<u64>) -> Self {
        self.config.key_update_after = value;
        self
    }

    /// The supported QUIC versions, the preferred one first: 1 and 2 by default.
    ///
    /// A client lists them in its version information. If a server answers with a Version
    /// Negotiation packet, the client restarts with the first of these versions that the packet
    /// lists (RFC 9368 §2). A server accepts these versions, and lists them in a Version
    /// Negotiation packet to clients that use any other version.
    pub fn versions(mut self, value: impl IntoIterator<Item = Version>) -> Self {
        self.config.versions = value.into_iter().collect();
        self
    }

    /// The version of a client's first flight, one of [`versions`](Self::versions). By default it
    /// is version 1 if supported, because every server understands it, and a server that prefers
    /// version 2 can switch to it without another round trip (RFC 9368 §2.4).
    pub fn first_version(mut self, value: Version) -> Self {
        self.config.first_version = Some(value);
        self
    }

    /// Whether a server switches to the first of its [`versions`](Self::versions) that the client
    /// offers (RFC 9369 §4.1). By default it keeps the version of the client's first flight:
    /// switching does not improve a connection, and a server that may switch has to read the
    /// ClientHello before TLS does.
    pub fn prefers_own_version(mut self, value: bool) -> Self {
        self.config.prefers_own_version = value;
        self
    }

    /// Whether to send version information (RFC 9368 §3); on by default. Without it no version is
    /// negotiated: a client supports only the version of its first flight, and a server does not
    /// switch the client's version. Disabling it is meant for simulations that have to reproduce
    /// the bytes of earlier runs.
    pub fn version_information(mut self, value: bool) -> Self {
        self.config.version_information = value;
        self
    }

    /// Whether to grease the fixed bit (RFC 9287); on by default. Packets with the bit cleared are
    /// accepted, and the bit is random in packets to a peer that accepts that too.
    pub fn grease_quic_bit(mut self, value: bool) -> Self {
        self.config.grease_quic_bit = value;
        self
    }

    /// How to use the latency spin bit, which is disabled by default (RFC 9000 §17.4).
    pub fn spin_bit(mut self, value: SpinBit) -> Self {
        self.config.spin_bit = value;
        self
    }

    /// Checks the settings and returns them.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid. The error describes the first invalid
    /// setting.
    pub fn build(mut self) -> Result<TransportConfig, InvalidSetting> {
        self.check_timeouts()?;
        self.check_datagram_sizes()?;
        self.check_streams()?;
        self.check_acknowledgements()?;
        self.check_windows()?;
        self.check_versions()?;
        Ok(self.config)
    }

    fn check_timeouts(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        let millisecond = Duration::from_millis(1);
        if let Some(timeout) = config.max_idle_timeout {
            let parameter = timeout.as_millis() <= u128::from(MAX_VARINT);
            let permitted =
                "at least 1 ms and less than 2^62 ms (RFC 9000 §18.2); None for no timeout";
            check(
                timeout >= millisecond && parameter,
                "max_idle_timeout",
                Time(timeout),
                permitted,
            )?;
        }
        if let Some(interval) = config.keep_alive_interval {
            let permitted = "more than 0; None disables keep-alive";
            check(!interval.is_zero(), "keep_alive_interval", Time(interval), permitted)?;
        }
        let is_some = !config.handshake_timeout.is_zero();
        check(is_some, "handshake_timeout", Time(config.handshake_timeout), "more than 0")?;
        let is_some = !config.initial_rtt.is_zero();
        check(is_some, "initial_rtt", Time(config.initial_rtt), "more than 0 (RFC 9002 §6.2.2)")
    }

    fn check_datagram_sizes(&mut self) -> Result<(), InvalidSetting> {
        let largest =
            datagram_size("max_datagram_size", self.max_datagram_size, LARGEST_DATAGRAM_SIZE)?;
        let initial = datagram_size(
            "initial_datagram_size",
            self.initial_datagram_size,
            usize::from(largest),
        )?;
        self.config.max_datagram_size = largest;
        self.config.initial_datagram_size = initial;
        Ok(())
    }

    fn check_streams(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        for (setting, count) in [
            ("max_concurrent_bidirectional_streams", config.max_concurrent_bidirectional_streams),
            ("max_concurrent_unidirectional_streams", config.max_concurrent_unidirectional_streams),
        ] {
            check(count <= MAX_STREAMS, setting, count, "at most 2^60 (RFC 9000 §4.6)")?;
        }
        for (initial_name, initial, max_name, max) in [
            (
                "initial_stream_receive_window",
                config.initial_stream_receive_window,
                "max_stream_receive_window",
                config.max_stream_receive_window,
            ),
            (
                "initial_connection_receive_window",
                config.initial_connection_receive_window,
                "max_connection_receive_window",
                config.max_connection_receive_window,
            ),
        ] {
            let permitted = "less than 2^62 bytes (RFC 9000 §16)";
            check(max <= MAX_VARINT, max_name, Bytes(max), permitted)?;
            let permitted = format!("at most {max_name}, which is {}", Bytes(max));
            check(initial <= max, initial_name, Bytes(initial), permitted)?;
        }
        let permitted = "at least 1 byte";
        check(config.send_buffer > 0, "send_buffer", Bytes(config.send_buffer), permitted)?;
        let size = config.max_datagram_frame_size.unwrap_or(0);
        let permitted = "less than 2^62 bytes (RFC 9221 §3)";
        check(size <= MAX_VARINT, "max_datagram_frame_size", Bytes(size), permitted)?;
        let permitted = "at least 1 datagram";
        let limit = config.datagram_receive_limit;
        check(limit > 0, "datagram_receive_limit", limit, permitted)?;
        let limit = config.datagram_send_limit;
        check(limit > 0, "datagram_send_limit", limit, permitted)
    }

    fn check_acknowledgements(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        let delay = config.max_ack_delay;
        let permitted = "less than 16.384 s (RFC 9000 §18.2)";
        check(delay < MAX_ACK_DELAY, "max_ack_delay", Time(delay), permitted)?;
        if let Some(least) = config.min_ack_delay {
            let permitted = "less than 16.384 s (RFC 9000 §18.2); None disables ACK_FREQUENCY";
            check(least < MAX_ACK_DELAY, "min_ack_delay", Time(least), permitted)?;
        }
        let threshold = config.ack_eliciting_threshold;
        let permitted = "at least 1 packet (RFC 9000 §13.2.2)";
        check(threshold > 0, "ack_eliciting_threshold", threshold, permitted)?;
        let threshold = config.packet_threshold;
        let permitted = "at least 1 packet, and should be 3 or more (RFC 9002 §6.1.1)";
        check(threshold > 0, "packet_threshold", threshold, permitted)?;
        let is_permitted = config.key_update_after != Some(0);
        check(is_permitted, "key_update_after", "0 packets", "at least 1 packet, or None")
    }

    fn check_versions(&self) -> Result<(), InvalidSetting> {
        let versions = &self.config.versions;
        let is_twice = |version| versions.iter().filter(|other| *other == version).count() > 1;
        let is_permitted = !versions.is_empty()
            && versions.iter().all(|version| version.is_known() && !is_twice(version));
        let known = List(&Version::KNOWN);
        let permitted = format!("one or more of {known}, without duplicates");
        check(is_permitted, "versions", List(versions), permitted)?;
        if let Some(first) = self.config.first_version {
            let permitted = format!("one of the configured versions ({})", List(versions));
            check(versions.contains(&first), "first_version", first, permitted)?;
        }
        Ok(())
    }

    fn check_windows(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        let datagram = u64::from(config.initial_datagram_size);
        let least = datagram.saturating_mul(LEAST_WINDOW);
        let permitted = format!("at least {LEAST_WINDOW} datagrams ({})", Bytes(least));
        let maximum = config.maximum_window;
        check(maximum >= least, "maximum_window", Bytes(maximum), permitted)?;
        if let Some(window) = config.initial_window {
            let permitted = format!(
                "at least one datagram ({}) and at most maximum_window ({})",
                Bytes(datagram),
                Bytes(maximum)
            );
            let is_permitted = (datagram..=maximum).contains(&window);
            check(is_permitted, "initial_window", Bytes(window), permitted)?;
        }
        Ok(())
    }
}

/// Returns `size` as the value of `setting` if it is a valid datagram size of at most `largest`.
fn datagram_size(
    setting: &'static str,
    size: usize,
    largest: usize,
) -> Result<u16, InvalidSetting> {
    let is_permitted = (LEAST_DATAGRAM_SIZE..=largest).contains(&size);
    u16::try_from(size).ok().filter(|_| is_permitted).ok_or_else(|| InvalidSetting {
        setting,
        value: format!("{size} bytes"),
        permitted: format!("{LEAST_DATAGRAM_SIZE} to {largest} bytes (RFC 9000 §14, §18.2)"),
    })
}

/// The smallest window, in datagrams, that suffices for every controller: RFC 9002 §7.2 requires
/// two, BBR four.
const LEAST_WINDOW: u64 = 4;

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0)
    }
}

/// Displays versions separated by commas, or "empty".
struct List<'a>(&'a [Version]);

impl fmt::Display for List<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("empty");
        }
        for (index, version) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{version}")?;
        }
        Ok(())
    }
}

/// Displays a duration in a human-readable form.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

fn check(
    is_permitted: bool,
    setting: &'static str,
    value: impl fmt::Display,
    permitted: impl Into<String>,
) -> Result<(), InvalidSetting> {
    if is_permitted {
        return Ok(());
    }
    Err(InvalidSetting { setting, value: value.to_string(), permitted: permitted.into() })
}
