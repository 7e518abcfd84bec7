//! The builder of transport settings, which checks them.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use clearway_congestion::ControllerFactory;

use super::TransportConfig;

/// The largest variable-length integer (RFC 9000 §16).
const MAX_VARINT: u64 = (1 << 62) - 1;
/// Every path that carries QUIC carries UDP payloads of this many bytes (RFC 9000 §14).
const LEAST_DATAGRAM_SIZE: usize = 1200;
/// The largest UDP payload of IPv6 without jumbograms, in bytes (RFC 9000 §18.2).
const LARGEST_DATAGRAM_SIZE: usize = 65_527;
/// A greater stream limit would permit stream IDs that cannot be encoded (RFC 9000 §4.6).
const MAX_STREAMS: u64 = 1 << 60;
/// The max_ack_delay transport parameter is less than this (RFC 9000 §18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(1 << 14);

/// A setting has a value that is not permitted.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The name of the setting, which is also that of its method.
    pub setting: &'static str,
    /// The value that it was given, with its unit.
    pub value: String,
    /// The permitted values, and the section that requires them.
    pub permitted: String,
}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is {}; it has to be {}", self.setting, self.value, self.permitted)
    }
}

impl core::error::Error for InvalidSetting {}

/// A builder of [`TransportConfig`]. [`build`](Self::build) checks the values.
#[derive(Clone, Debug)]
#[must_use]
pub struct TransportConfigBuilder {
    config: TransportConfig,
    /// A wider type than that of the setting, so that a value that is too large can be reported.
    max_datagram_size: usize,
}

impl From<TransportConfig> for TransportConfigBuilder {
    fn from(config: TransportConfig) -> Self {
        Self { max_datagram_size: usize::from(config.max_datagram_size), config }
    }
}

impl TransportConfigBuilder {
    /// The idle timeout: the connection ends when nothing was received for this long; `None` for no timeout (RFC 9000
    /// §10.1).
    pub fn max_idle_timeout(mut self, value: Option<Duration>) -> Self {
        self.config.max_idle_timeout = value;
        self
    }

    /// A PING is sent when nothing was sent or received for this long (RFC 9000 §10.1.2); `None` sends none.
    pub fn keep_alive_interval(mut self, value: Option<Duration>) -> Self {
        self.config.keep_alive_interval = value;
        self
    }

    /// The time after which a handshake that is not complete fails.
    pub fn handshake_timeout(mut self, value: Duration) -> Self {
        self.config.handshake_timeout = value;
        self
    }

    /// The largest UDP payload that is sent, in bytes: 1200 to 65527. There is no path MTU discovery yet, so a value
    /// above 1200 needs a path that is known to carry it (RFC 9000 §14).
    pub fn max_datagram_size(mut self, bytes: usize) -> Self {
        self.max_datagram_size = bytes;
        self
    }

    /// How many bidirectional streams the peer may have open at a time.
    pub fn max_concurrent_bidirectional_streams(mut self, value: u64) -> Self {
        self.config.max_concurrent_bidirectional_streams = value;
        self
    }

    /// How many unidirectional streams the peer may have open at a time.
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

    /// The largest receive window of a stream, in bytes.
    pub fn max_stream_receive_window(mut self, value: u64) -> Self {
        self.config.max_stream_receive_window = value;
        self
    }

    /// The initial receive window of the connection, in bytes.
    pub fn initial_connection_receive_window(mut self, value: u64) -> Self {
        self.config.initial_connection_receive_window = value;
        self
    }

    /// The largest receive window of the connection, in bytes.
    pub fn max_connection_receive_window(mut self, value: u64) -> Self {
        self.config.max_connection_receive_window = value;
        self
    }

    /// The largest number of bytes that the application has written and that are not yet acknowledged, sent or not. The
    /// limit is lower, but at least 256 KiB, while the congestion window is too small to use them.
    pub fn send_buffer(mut self, value: u64) -> Self {
        self.config.send_buffer = value;
        self
    }

    /// The largest DATAGRAM frame that is accepted, in bytes (RFC 9221 §3); `None` accepts none.
    pub fn max_datagram_frame_size(mut self, value: Option<u64>) -> Self {
        self.config.max_datagram_frame_size = value;
        self
    }

    /// The longest delay of an acknowledgment (RFC 9000 §13.2.1).
    pub fn max_ack_delay(mut self, value: Duration) -> Self {
        self.config.max_ack_delay = value;
        self
    }

    /// The number of ack-eliciting packets after which an acknowledgment is sent at once (RFC 9000 §13.2.2).
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

    /// The factory that makes a congestion controller for each path.
    pub fn controller(mut self, value: Arc<dyn ControllerFactory>) -> Self {
        self.config.controller = value;
        self
    }

    /// The initial congestion window, in bytes; `None` for that of RFC 9002 §7.2.
    pub fn initial_window(mut self, value: Option<u64>) -> Self {
        self.config.initial_window = value;
        self
    }

    /// The largest congestion window, in bytes.
    pub fn maximum_window(mut self, value: u64) -> Self {
        self.config.maximum_window = value;
        self
    }

    /// Whether packet numbers are skipped at random, to detect peers that acknowledge packets that they have not
    /// received (RFC 9000 §21.4).
    pub fn skip_packet_numbers(mut self, value: bool) -> Self {
        self.config.skip_packet_numbers = value;
        self
    }

    /// The number of packets after which a key update is initiated; `None` initiates one only where the AEAD's limit
    /// requires it (RFC 9001 §6.6).
    pub fn key_update_after(mut self, value: Option<u64>) -> Self {
        self.config.key_update_after = value;
        self
    }

    /// Checks the settings and returns them.
    ///
    /// # Errors
    /// The first setting whose value is not permitted.
    pub fn build(mut self) -> Result<TransportConfig, InvalidSetting> {
        self.check_timeouts()?;
        self.config.max_datagram_size = self.check_datagram_size()?;
        self.check_streams()?;
        self.check_acknowledgements()?;
        self.check_windows()?;
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
            let permitted = "more than 0; None sends no PING";
            check(!interval.is_zero(), "keep_alive_interval", Time(interval), permitted)?;
        }
        let is_some = !config.handshake_timeout.is_zero();
        check(is_some, "handshake_timeout", Time(config.handshake_timeout), "more than 0")?;
        let is_some = !config.initial_rtt.is_zero();
        check(is_some, "initial_rtt", Time(config.initial_rtt), "more than 0 (RFC 9002 §6.2.2)")
    }

    fn check_datagram_size(&self) -> Result<u16, InvalidSetting> {
        let size = self.max_datagram_size;
        let is_permitted = (LEAST_DATAGRAM_SIZE..=LARGEST_DATAGRAM_SIZE).contains(&size);
        u16::try_from(size).ok().filter(|_| is_permitted).ok_or_else(|| InvalidSetting {
            setting: "max_datagram_size",
            value: format!("{size} bytes"),
            permitted: format!(
                "{LEAST_DATAGRAM_SIZE} to {LARGEST_DATAGRAM_SIZE} bytes (RFC 9000 §14, §18.2)"
            ),
        })
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
        check(size <= MAX_VARINT, "max_datagram_frame_size", Bytes(size), permitted)
    }

    fn check_acknowledgements(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        let delay = config.max_ack_delay;
        let permitted = "less than 16.384 s (RFC 9000 §18.2)";
        check(delay < MAX_ACK_DELAY, "max_ack_delay", Time(delay), permitted)?;
        let threshold = config.ack_eliciting_threshold;
        let permitted = "at least 1 packet (RFC 9000 §13.2.2)";
        check(threshold > 0, "ack_eliciting_threshold", threshold, permitted)?;
        let threshold = config.packet_threshold;
        let permitted = "at least 1 packet, and should be 3 or more (RFC 9002 §6.1.1)";
        check(threshold > 0, "packet_threshold", threshold, permitted)?;
        let is_permitted = config.key_update_after != Some(0);
        check(is_permitted, "key_update_after", "0 packets", "at least 1 packet, or None")
    }

    fn check_windows(&self) -> Result<(), InvalidSetting> {
        let config = &self.config;
        let datagram = u64::from(config.max_datagram_size);
        let least = datagram.saturating_mul(LEAST_WINDOW);
        let permitted = format!("at least {LEAST_WINDOW} datagrams, {}", Bytes(least));
        let maximum = config.maximum_window;
        check(maximum >= least, "maximum_window", Bytes(maximum), permitted)?;
        if let Some(window) = config.initial_window {
            let permitted = format!(
                "at least one datagram, {}, and at most maximum_window, {}",
                Bytes(datagram),
                Bytes(maximum)
            );
            let is_permitted = (datagram..=maximum).contains(&window);
            check(is_permitted, "initial_window", Bytes(window), permitted)?;
        }
        Ok(())
    }
}

/// Every controller can work with a window of so many datagrams: RFC 9002 §7.2 has two, BBR needs four.
const LEAST_WINDOW: u64 = 4;

struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.0)
    }
}

/// A time as people write it.
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
