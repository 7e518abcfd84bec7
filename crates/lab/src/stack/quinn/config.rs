//! Converts a scenario's settings to quinn's configuration, with all randomness taken from the
//! run's seed.

use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::{hkdf, hmac};
use clearway_units::Random;
use quinn_proto::crypto;
use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout, NoneTokenStore,
    ServerConfig, TimeSource, TransportConfig, ValidationTokenConfig, VarInt,
};

use super::controller::Controller;
use crate::setup::EndSetup;

/// The connection ID length that quinn uses by default.
const CONNECTION_ID: usize = 8;
const FIRST_DESTINATION_CONNECTION_ID: usize = 20;
/// The largest UDP payload that the transport parameter can express (RFC 9000 §18.2): only the
/// network limits the size of the datagrams that an endpoint receives.
const MAX_UDP_PAYLOAD: u16 = 65_527;

/// Converts `number` to quinn's integer type; the largest value of that type if `number` is too
/// large.
pub(super) fn varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}

fn milliseconds(duration: Duration) -> VarInt {
    varint(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

pub(super) fn transport(end: &EndSetup, controller: Controller) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(end.max_datagram_size)
        .min_mtu(end.max_datagram_size)
        // As in Clearway's stack, the datagram size is determined by a setting.
        .mtu_discovery_config(None)
        .max_idle_timeout(end.max_idle_timeout.map(milliseconds).map(IdleTimeout::from))
        .keep_alive_interval(end.keep_alive_interval)
        .initial_rtt(end.initial_rtt)
        .packet_threshold(u32::try_from(end.packet_threshold).unwrap_or(u32::MAX))
        .send_window(end.send_buffer)
        .stream_receive_window(varint(end.max_stream_receive_window))
        .receive_window(varint(end.max_connection_receive_window))
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(controller.factory(end.initial_window));
    Arc::new(config)
}

pub(super) fn endpoint(random: &mut Random) -> EndpointConfig {
    let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &random.array::<64>());
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    let seed = random.array::<32>();
    config
        .rng_seed(Some(random.array()))
        .cid_generator(move || Box::new(SeededIds(Random::from_seed(seed))));
    // The value is within quinn's limits, so it is never rejected.
    let _ = config.max_udp_payload_size(MAX_UDP_PAYLOAD);
    config
}

pub(super) fn server(
    crypto: Arc<dyn crypto::ServerConfig>,
    transport: Arc<TransportConfig>,
    random: &mut Random,
) -> ServerConfig {
    let token_key = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&random.array::<64>());
    let mut config = ServerConfig::new(crypto, Arc::new(token_key));
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config
        .transport_config(transport)
        .validation_token_config(tokens)
        .time_source(Arc::new(FixedCalendar));
    config
}

pub(super) fn client(
    crypto: Arc<dyn crypto::ClientConfig>,
    transport: Arc<TransportConfig>,
    random: &mut Random,
) -> ClientConfig {
    let destination = random.array::<FIRST_DESTINATION_CONNECTION_ID>();
    let mut config = ClientConfig::new(crypto);
    config
        .transport_config(transport)
        .token_store(Arc::new(NoneTokenStore))
        .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&destination)));
    config
}

/// Generates connection IDs from a seed.
struct SeededIds(Random);

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.array::<CONNECTION_ID>())
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// A constant wall clock. Only the lifetime of tokens depends on it, and no tokens are used.
struct FixedCalendar;

impl TimeSource for FixedCalendar {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}
