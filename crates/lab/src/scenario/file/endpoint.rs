//! `[endpoint]`.

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::settings::settings;
use crate::scenario::value::{AckDelay, PacketThreshold, Size, Time, TimeOrNone};

settings! {
    /// `[endpoint.client]`, `[endpoint.server]`: how one end is configured.
    struct EndpointSettings {
        stack: Option<StackName>,
        datagram_size: Option<Spanned<u16>>,
        ack_eliciting_threshold: Option<Spanned<u32>>,
        max_ack_delay: Option<AckDelay>,
        idle_timeout: Option<TimeOrNone>,
        keep_alive: Option<TimeOrNone>,
        handshake_timeout: Option<Time>,
        initial_rtt: Option<Time>,
        packet_threshold: Option<PacketThreshold>,
        initial_window: Option<Size>,
        maximum_window: Option<Spanned<Size>>,
        initial_stream_receive_window: Option<Size>,
        stream_receive_window: Option<Size>,
        initial_connection_receive_window: Option<Size>,
        connection_receive_window: Option<Size>,
        send_buffer: Option<Size>,
    }
    /// `[endpoint]`: how both ends are configured, unless their own tables override it.
    for all in EndpointsSettings { client, server }
}

/// The QUIC implementation that runs at an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scenario) enum StackName {
    Clearway,
    Quinn,
}
