//! Settings for QUIC versions, and the errors with which connections end.

use clearway_transport::{
    ConnectionError, Event, TransportConfig, TransportConfigBuilder, TransportError,
};
use clearway_wire::Version;

use super::{Pair, delayed, quiet};

pub const V1: Version = Version::V1;
pub const V2: Version = Version::V2;

pub fn settings(
    change: impl FnOnce(TransportConfigBuilder) -> TransportConfigBuilder,
) -> TransportConfig {
    change(quiet().to_builder()).build().unwrap()
}

/// Returns the settings of a client that begins with `first` and prefers the versions in this
/// order.
pub fn client(first: Version, versions: &[Version]) -> TransportConfig {
    settings(|it| it.versions(versions.iter().copied()).first_version(first))
}

/// Returns the settings of a server that stays with the client's version.
pub fn staying(versions: &[Version]) -> TransportConfig {
    settings(|it| it.versions(versions.iter().copied()))
}

/// Returns the settings of a server that changes to its preferred version.
pub fn changing(versions: &[Version]) -> TransportConfig {
    settings(|it| it.versions(versions.iter().copied()).prefers_own_version(true))
}

pub fn pair(client: &TransportConfig, server: &TransportConfig) -> Pair {
    Pair::with(delayed(10, 1), client.clone(), server.clone())
}

pub fn closed(events: &[Event]) -> Option<&ConnectionError> {
    events.iter().find_map(|event| match event {
        Event::Closed(error) => Some(error),
        _ => None,
    })
}

/// Returns the error with which this endpoint closed the connection.
pub fn own_error(events: &[Event]) -> &TransportError {
    match closed(events) {
        Some(ConnectionError::TransportError(error)) => error,
        other => panic!("{other:?}"),
    }
}
