use core::net::SocketAddr;
use std::sync::Arc;

use clearway_transport::{
    ConnectionState, EcnState, Observation, SendLimit, Side, SpaceId, TimerChange,
};
use clearway_units::Timestamp;
use clearway_wire::{ConnectionId, PacketNumber, PacketType, TransportParameters, Version};

use super::controller_metrics::ControllerMetricsLog;
use super::destination::Destination;
use super::folder::Folder;
use super::json::Object;
use super::metrics::MetricsLog;
use super::path::{self, Tuples};
use super::records::Records;
use super::{QlogError, TraceOptions, closing, frames, header, names, packets, parameters};

/// The data of an [`Observation::Started`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    pub(super) side: Side,
    pub(super) original_destination_id: ConnectionId,
    remote: SocketAddr,
    local_id: ConnectionId,
    remote_id: ConnectionId,
}

impl Beginning {
    pub(super) fn of(observation: &Observation<'_>) -> Option<Self> {
        match *observation {
            Observation::Started { side, remote, local_id, remote_id, original_destination_id } => {
                Some(Self { side, original_destination_id, remote, local_id, remote_id })
            }
            _ => None,
        }
    }
}

/// A log that is being written. It maps observations to events.
#[derive(Debug)]
pub(super) struct Trace {
    records: Records,
    side: Side,
    state: Option<ConnectionState>,
    metrics: MetricsLog,
    controller_metrics: ControllerMetricsLog,
    tuples: Tuples,
    /// The packet number of the last MTU probe.
    mtu_probe: Option<PacketNumber>,
    /// The packet number of the last 0-RTT packet that was sent. All later ones are 1-RTT packets
    /// (RFC 9001 §5.6).
    last_early: Option<PacketNumber>,
    /// The number of 1-RTT key updates so far.
    key_phase: u64,
    ack_delay_exponents: AckDelayExponents,
}

/// The exponents by which each endpoint's ACK delays are scaled (`ack_delay_exponent`, RFC 9000
/// §18.2).
#[derive(Debug)]
struct AckDelayExponents {
    local: u64,
    remote: u64,
}

impl Trace {
    pub(super) fn begin(
        destination: Destination,
        options: &TraceOptions,
        now: Timestamp,
        beginning: &Beginning,
    ) -> Self {
        let mut records = Records::new(destination, options, now);
        let side = beginning.side;
        records.record(now, |json| {
            header::write(json, options, side, &beginning.original_destination_id, now);
        });
        records.event(now, "quic:connection_started", |json| connection_started(json, beginning));
        let metrics = MetricsLog::begin(&mut records, now, &options.recovery_parameters);
        records.flush(now);
        let default_exponent = TransportParameters::default().ack_delay_exponent.get();
        Self {
            records,
            side,
            state: None,
            metrics,
            controller_metrics: ControllerMetricsLog::default(),
            tuples: Tuples::new(beginning.remote),
            mtu_probe: None,
            last_early: None,
            key_phase: 0,
            ack_delay_exponents: AckDelayExponents {
                local: default_exponent,
                remote: default_exponent,
            },
        }
    }

    /// Makes the log end when `folder` has no room.
    pub(super) fn within(mut self, folder: Option<Arc<Folder>>) -> Self {
        self.records.within(folder);
        self
    }

    pub(super) fn observe(&mut self, now: Timestamp, observation: &Observation<'_>) {
        let records = &mut self.records;
        match *observation {
            Observation::PacketSent(packet) => {
                self.mtu_probe =
                    Some(packet.number).filter(|_| packet.is_mtu_probe).or(self.mtu_probe);
                if packet.packet_type == PacketType::ZeroRtt {
                    self.last_early = Some(packet.number);
                }
                records.event(now, "quic:packet_sent", |json| {
                    packets::write(json, &packet, self.ack_delay_exponents.local, usize::MAX);
                });
            }
            Observation::PacketReceived(packet) => {
                records.event(now, "quic:packet_received", |json| {
                    let exponent = self.ack_delay_exponents.remote;
                    packets::write(json, &packet, exponent, frames::MAX_RECEIVED);
                });
            }
            Observation::PacketDropped { size, reason } => {
                records.event(now, "quic:packet_dropped", |json| {
                    packets::write_dropped(json, size, reason);
                });
            }
            Observation::PacketBuffered { size } => {
                records.event(now, "quic:packet_buffered", |json| {
                    packets::write_buffered(json, size);
                });
            }
            Observation::PacketLost(packet) => {
                let is_mtu_probe =
                    packet.space == SpaceId::Application && Some(packet.number) == self.mtu_probe;
                let is_early = self.last_early.is_some_and(|last| packet.number <= last);
                records.event(now, "quic:packet_lost", |json| {
                    packets::write_lost(json, &packet, is_early, is_mtu_probe);
                });
            }
            Observation::Metrics(metrics) => self.metrics.update(records, now, metrics),
            Observation::Controller(controller) => {
                self.controller_metrics.update(records, now, controller)
            }
            Observation::CongestionStateUpdated { old, new } => {
                records.event(now, "quic:congestion_state_updated", |json| {
                    json.text("old", old.name());
                    json.text("new", new.name());
                });
            }
            Observation::SendLimitUpdated { old, new } => {
                records.event(now, "quic:connection_data_blocked_updated", |json| {
                    data_blocked(json, old, new);
                });
            }
            Observation::TimerUpdated { timer, change } => {
                if let Some(name) = names::timer(timer) {
                    records.event(now, "quic:timer_updated", |json| {
                        timer_updated(json, now, name, change);
                    });
                }
            }
            _ => self.observe_life(now, observation),
        }
    }

    /// Writes the events that happen only a few times per connection.
    fn observe_life(&mut self, now: Timestamp, observation: &Observation<'_>) {
        let records = &mut self.records;
        match *observation {
            Observation::ParametersSet { owner, parameters } => {
                let exponents = &mut self.ack_delay_exponents;
                let exponent =
                    if owner == self.side { &mut exponents.local } else { &mut exponents.remote };
                *exponent = parameters.ack_delay_exponent.get();
                records.event(now, "quic:parameters_set", |json| {
                    parameters::write(json, owner, self.side, parameters);
                });
            }
            Observation::ParametersRestored(parameters) => {
                records.event(now, "quic:parameters_restored", |json| {
                    parameters::write_restored(json, parameters);
                });
            }
            Observation::VersionInformation { client, server, chosen } => {
                records.event(now, "quic:version_information", |json| {
                    version_information(json, client, server, chosen);
                });
            }
            Observation::ApplicationProtocol(protocol) => {
                records.event(now, "quic:alpn_information", |json| {
                    json.object("chosen_alpn", |json| application_protocol(json, protocol));
                });
            }
            Observation::StateUpdated(state) => {
                let old = self.state.replace(state);
                records.event(now, "quic:connection_state_updated", |json| {
                    if let Some(old) = old {
                        json.text("old", names::connection_state(old));
                    }
                    json.text("new", names::connection_state(state));
                });
            }
            Observation::KeyDiscarded(space) => {
                for key_type in names::key_types(space) {
                    records.event(now, "quic:key_discarded", |json| {
                        json.text("key_type", key_type);
                    });
                }
            }
            Observation::KeyUpdated { is_local } => self.update_keys(now, is_local),
            Observation::PathUpdated { remote, is_validated, .. } => {
                self.tuples.update(records, now, remote, is_validated);
            }
            Observation::MtuUpdated { old, new, is_done } => {
                self.metrics.on_datagram_size(u64::from(new));
                records.event(now, "quic:mtu_updated", |json| mtu_updated(json, old, new, is_done));
            }
            Observation::EcnStateUpdated { old, new } => {
                if let Some(name) = new.name() {
                    let old = old.and_then(EcnState::name);
                    records.event(now, "quic:ecn_state_updated", |json| {
                        if let Some(old) = old {
                            json.text("old", old);
                        }
                        json.text("new", name);
                    });
                }
            }
            Observation::Closed(error) => {
                records.event(now, "quic:connection_closed", |json| closing::write(json, error));
                records.flush(now);
            }
            _ => {}
        }
    }

    /// Writes a key update, which changes the keys of both directions at once (RFC 9001 §6).
    fn update_keys(&mut self, now: Timestamp, is_local: bool) {
        self.key_phase = self.key_phase.saturating_add(1);
        let trigger = if is_local { "local_update" } else { "remote_update" };
        for key_type in names::key_types(SpaceId::Application) {
            self.records.event(now, "quic:key_updated", |json| {
                json.text("key_type", key_type);
                json.number("key_phase", self.key_phase);
                json.text("trigger", trigger);
            });
        }
    }

    /// Passes everything held so far on to `destination`, because the connection gets a log.
    pub(super) fn release(&mut self, now: Timestamp, destination: Destination) {
        self.records.release(now, destination);
    }

    /// Passes on the records that are still buffered.
    pub(super) fn finish(&mut self) {
        let now = self.records.flushed_at();
        self.records.finish(now);
    }

    /// Returns whether the log has ended and the reason has been reported.
    pub(super) const fn has_ended(&self) -> bool {
        self.records.has_ended()
    }

    /// Takes the reason that the log ended early, if it did.
    pub(super) fn take_failure(&mut self) -> Option<QlogError> {
        self.records.take_failure()
    }
}

/// Writes the data of `connection_started` (quic-events §4.2). Only the I/O driver knows the local
/// address.
fn connection_started(json: &mut Object<'_>, beginning: &Beginning) {
    json.object("local", |json| {
        json.array("connection_ids", |json| json.hex(beginning.local_id.as_bytes()));
    });
    json.object("remote", |json| {
        path::address(json, beginning.remote.ip(), beginning.remote.port());
        json.array("connection_ids", |json| json.hex(beginning.remote_id.as_bytes()));
    });
}

/// Writes the data of `version_information` (quic-events §5.1).
fn version_information(
    json: &mut Object<'_>,
    client: &[Version],
    server: &[Version],
    chosen: Option<Version>,
) {
    for (name, versions) in [("server_versions", server), ("client_versions", client)] {
        if !versions.is_empty() {
            json.array(name, |json| {
                for version in versions {
                    json.hex(&version.0.to_be_bytes());
                }
            });
        }
    }
    if let Some(chosen) = chosen {
        json.hex("chosen_version", &chosen.0.to_be_bytes());
    }
}

/// Writes an ALPNIdentifier (quic-events §5.2).
fn application_protocol(json: &mut Object<'_>, protocol: &[u8]) {
    match core::str::from_utf8(protocol) {
        Ok(text) => json.text("string_value", text),
        Err(_) => json.hex("byte_value", protocol),
    }
}

/// Writes the data of `connection_data_blocked_updated` (quic-events §5.17).
fn data_blocked(json: &mut Object<'_>, old: Option<SendLimit>, new: SendLimit) {
    let state = |limit| match names::blocked_reason(limit) {
        Some(_) => "blocked",
        None => "unblocked",
    };
    if let Some(old) = old {
        json.text("old", state(old));
    }
    json.text("new", state(new));
    if let Some(reason) = names::blocked_reason(new) {
        json.text("reason", reason);
    }
}

/// Writes the data of `mtu_updated` (quic-events §4.8).
fn mtu_updated(json: &mut Object<'_>, old: u16, new: u16, is_done: bool) {
    json.number("old", u64::from(old));
    json.number("new", u64::from(new));
    json.boolean("done", is_done);
}

/// Writes the data of `timer_updated` (quic-events §5.21).
fn timer_updated(json: &mut Object<'_>, now: Timestamp, name: &str, change: TimerChange) {
    json.text("timer_type", name);
    let (event_type, deadline) = match change {
        TimerChange::Set(deadline) => ("set", Some(deadline)),
        TimerChange::Paced(release) => ("set", Some(release.deadline())),
        TimerChange::Expired => ("expired", None),
        TimerChange::Cancelled => ("cancelled", None),
    };
    json.text("event_type", event_type);
    if let Some(deadline) = deadline {
        json.milliseconds("delta", deadline.saturating_since(now));
    }
}
