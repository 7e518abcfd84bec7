//! Resolves the settings of an endpoint.

use core::ops::RangeInclusive;

use clearway_network::Moment;
use clearway_transport::SpinBit;
use clearway_wire::Version;

use crate::scenario::error::Fault;
use crate::scenario::file::endpoint::{EndpointSettings, MigrationSettings, SpinName, StackName};
use crate::setup::{EndSetup, Migration, StackKind};

/// The permitted datagram sizes (RFC 9000, Sections 14.1 and 18.2).
const DATAGRAM_SIZES: RangeInclusive<u16> = 1200..=65527;

/// Lower limit for the configured maximum window, in datagrams: the largest of the controllers'
/// minimum windows.
const LEAST_MAXIMUM_WINDOW: u64 = 4;

/// Returns the default settings, overridden by `settings`.
pub(super) fn end(settings: &EndpointSettings) -> Result<EndSetup, Fault> {
    let default = EndSetup::default();
    let max_datagram_size = match &settings.datagram_size {
        Some(size) if !DATAGRAM_SIZES.contains(size.get_ref()) => {
            return Err(Fault::new(
                size.span(),
                "a datagram size must be between 1200 and 65527 bytes",
            ));
        }
        size => size.as_ref().map_or(default.max_datagram_size, |size| *size.get_ref()),
    };
    let threshold = settings.ack_eliciting_threshold.as_ref();
    let threshold = super::at_least_one(threshold, "ack_eliciting_threshold")?;
    Ok(EndSetup {
        stack: match settings.stack {
            None | Some(StackName::Clearway) => StackKind::Clearway,
            Some(StackName::Quinn) => StackKind::Quinn,
        },
        max_datagram_size,
        discovers_mtu: settings.discover_mtu.unwrap_or(default.discovers_mtu),
        ack_eliciting_threshold: threshold.unwrap_or(default.ack_eliciting_threshold),
        max_ack_delay: settings.max_ack_delay.map_or(default.max_ack_delay, |time| time.0),
        max_idle_timeout: settings.idle_timeout.map_or(default.max_idle_timeout, |time| time.0),
        keep_alive_interval: settings.keep_alive.map_or(default.keep_alive_interval, |time| time.0),
        handshake_timeout: settings
            .handshake_timeout
            .map_or(default.handshake_timeout, |time| time.0),
        initial_rtt: settings.initial_rtt.map_or(default.initial_rtt, |time| time.0),
        packet_threshold: settings.packet_threshold.map_or(default.packet_threshold, |it| it.0),
        maximum_window: maximum_window(settings, &default, max_datagram_size)?,
        versions: versions(settings)?,
        first_version: first_version(settings)?,
        http3_extensions: settings.http3_extensions.unwrap_or(default.http3_extensions),
        ack_frequency: settings.ack_frequency.unwrap_or(default.ack_frequency),
        migrations: migrations(settings)?,
        host_changes: default.host_changes.clone(),
        prefers_address: settings.preferred_address.unwrap_or(default.prefers_address),
        marks_ecn: settings.ecn.unwrap_or(default.marks_ecn),
        grease_quic_bit: settings.grease_quic_bit.unwrap_or(default.grease_quic_bit),
        spin_bit: match settings.spin_bit {
            None => default.spin_bit,
            Some(SpinName::Zero) => SpinBit::Zero,
            Some(SpinName::Random) => SpinBit::Random,
            Some(SpinName::Enabled) => SpinBit::Enabled,
        },
        ..windows(settings, default)
    })
}

/// The maximum number of migrations of a client: the number of additional client sockets that the
/// network distinguishes.
const MAXIMUM_MIGRATIONS: usize = 15;

/// Returns the migrations in chronological order.
fn migrations(settings: &EndpointSettings) -> Result<Vec<Migration>, Fault> {
    let Some(listed) = &settings.migrations else { return Ok(Vec::new()) };
    let migrations = listed.get_ref();
    let is_ordered = migrations.is_sorted_by(|first, second| first.at.0 < second.at.0);
    if !is_ordered || migrations.len() > MAXIMUM_MIGRATIONS {
        let message = format!(
            "there can be at most {MAXIMUM_MIGRATIONS} migrations, each later than the previous one"
        );
        return Err(Fault::new(listed.span(), message));
    }
    let of = |it: &MigrationSettings| Migration { at: Moment::After(it.at.0), to: it.to.into() };
    Ok(migrations.iter().map(of).collect())
}

/// Returns the QUIC versions that are negotiated, without duplicates.
fn versions(settings: &EndpointSettings) -> Result<Option<Vec<Version>>, Fault> {
    let Some(listed) = &settings.quic_versions else { return Ok(None) };
    let versions: Vec<Version> = listed.get_ref().iter().map(|version| version.0).collect();
    let is_twice = |version| versions.iter().filter(|other| *other == version).count() > 1;
    if versions.is_empty() || versions.iter().any(is_twice) {
        let message = "quic_versions must have one version or two different ones";
        return Err(Fault::new(listed.span(), message));
    }
    Ok(Some(versions))
}

/// Returns the QUIC version of a client's first flight, which must be one of the negotiated
/// versions.
fn first_version(settings: &EndpointSettings) -> Result<Option<Version>, Fault> {
    let Some(first) = &settings.first_quic_version else { return Ok(None) };
    let is_listed = settings
        .quic_versions
        .as_ref()
        .is_some_and(|listed| listed.get_ref().contains(first.get_ref()));
    if !is_listed {
        let message = "first_quic_version must be one of quic_versions";
        return Err(Fault::new(first.span(), message));
    }
    Ok(Some(first.get_ref().0))
}

/// Returns a maximum window that is not below any controller's minimum window.
fn maximum_window(
    settings: &EndpointSettings,
    default: &EndSetup,
    datagram_size: u16,
) -> Result<u64, Fault> {
    let Some(window) = &settings.maximum_window else { return Ok(default.maximum_window) };
    let least = LEAST_MAXIMUM_WINDOW * u64::from(datagram_size);
    if window.get_ref().0 < least {
        let message = format!(
            "maximum_window must be at least BBR's minimum window, {LEAST_MAXIMUM_WINDOW} \
             datagrams: {least} bytes"
        );
        return Err(Fault::new(window.span(), message));
    }
    Ok(window.get_ref().0)
}

/// Returns `end` with the windows and buffers from `settings`.
fn windows(settings: &EndpointSettings, end: EndSetup) -> EndSetup {
    EndSetup {
        initial_window: settings.initial_window.map_or(end.initial_window, |size| Some(size.0)),
        initial_stream_receive_window: settings
            .initial_stream_receive_window
            .map_or(end.initial_stream_receive_window, |size| size.0),
        max_stream_receive_window: settings
            .stream_receive_window
            .map_or(end.max_stream_receive_window, |size| size.0),
        initial_connection_receive_window: settings
            .initial_connection_receive_window
            .map_or(end.initial_connection_receive_window, |size| size.0),
        max_connection_receive_window: settings
            .connection_receive_window
            .map_or(end.max_connection_receive_window, |size| size.0),
        send_buffer: settings.send_buffer.map_or(end.send_buffer, |size| size.0),
        ..end
    }
}
