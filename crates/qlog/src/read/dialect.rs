use core::time::Duration;

use serde::Deserialize;
use std::borrow::Cow;

use super::number::Decimal;
use super::reading::{Reading, VantagePoint};

/// The members of a file's first record, or those of a contained file except its traces.
#[derive(Deserialize, Default)]
pub(super) struct FileHeader<'a> {
    #[serde(borrow)]
    qlog_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    file_schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    trace: Option<TraceHeader<'a>>,
}

/// The members of a trace except its events.
#[derive(Deserialize, Default)]
pub(super) struct TraceHeader<'a> {
    #[serde(borrow)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    common_fields: Option<CommonFields<'a>>,
    #[serde(borrow)]
    vantage_point: Option<VantagePointText<'a>>,
    #[serde(borrow)]
    event_schemas: Option<Vec<Cow<'a, str>>>,
}

#[derive(Deserialize, Default)]
struct CommonFields<'a> {
    #[serde(borrow)]
    time_format: Option<Cow<'a, str>>,
    /// The client's first Destination Connection ID. Version 0.3 had its own name for it.
    #[serde(borrow)]
    group_id: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "ODCID")]
    original_destination_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
struct VantagePointText<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

impl FileHeader<'_> {
    /// Whether this is the header of a qlog file: it names a version or a schema.
    pub(super) const fn is_qlog(&self) -> bool {
        self.qlog_version.is_some() || self.file_schema.is_some()
    }

    pub(super) fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        if let Some(version) = self.qlog_version.as_ref().or(self.file_schema.as_ref()) {
            reading.dialect = version.clone().into_owned();
        }
        if let Some(title) = &self.title {
            reading.title.get_or_insert_with(|| title.clone().into_owned());
        }
        if let Some(trace) = &self.trace {
            trace.apply(reading, clock);
        }
    }
}

impl TraceHeader<'_> {
    pub(super) fn apply(&self, reading: &mut Reading, clock: &mut Clock) {
        if let Some(title) = &self.title {
            reading.title = Some(title.clone().into_owned());
        }
        if let Some(vantage) = &self.vantage_point {
            let kind = vantage.kind.as_deref().unwrap_or_default();
            reading.vantage_point = VantagePoint::of_name(kind);
            reading.writer = vantage.name.as_ref().map(|name| name.clone().into_owned());
        }
        if let Some(schemas) = &self.event_schemas {
            let names = schemas.iter().filter_map(|schema| schema.rsplit([':', '/']).next());
            let names: Vec<&str> = names.collect();
            if !names.is_empty() {
                reading.dialect = names.join(", ");
            }
        }
        if let Some(fields) = &self.common_fields {
            clock.set(fields);
            let connection = fields.original_destination_id.as_ref().or(fields.group_id.as_ref());
            reading.connection = connection.map(|connection| connection.to_lowercase());
        }
    }
}

/// Converts the times of a trace to one form: the time since its first event.
///
/// The reference time does not matter then, and neither does whether it is a number or an object: `absolute`,
/// `relative` and `relative_to_epoch` are all distances from a fixed point.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Whether each time is the distance from the previous one (`delta`, `relative_to_previous_event`).
    is_incremental: bool,
    /// The time of the first event in milliseconds.
    first: Option<f64>,
    previous: f64,
}

impl Clock {
    fn set(&mut self, fields: &CommonFields<'_>) {
        let format = fields.time_format.as_deref();
        self.is_incremental = matches!(format, Some("delta" | "relative_to_previous_event"));
    }

    /// The time of an event since the first one. An event's own format takes precedence over the trace's. Time
    /// does not run backwards: events that several threads wrote out of order are treated as simultaneous.
    pub(super) fn read(&mut self, time: Decimal, format: Option<&str>) -> Duration {
        let is_incremental = match format {
            Some(format) => matches!(format, "delta" | "relative_to_previous_event"),
            None => self.is_incremental,
        };
        let absolute = if is_incremental { self.previous + time.0 } else { time.0 };
        let first = *self.first.get_or_insert(absolute);
        self.previous = absolute.max(self.previous).max(first);
        Decimal(self.previous - first).duration()
    }
}

/// Maps the various names that the drafts have given an event to one. The namespace does not matter: except for
/// HTTP's, no two namespaces use a name that is read here for different things.
pub(super) fn event_name(name: &str) -> EventName {
    let (namespace, event) = name.split_once(':').unwrap_or(("", name));
    match namespace {
        "http" | "h3" | "http3" | "qpack" | "loglevel" | "simulation" | "generic" => {
            EventName::Other
        }
        _ => EventName::of(event),
    }
}

/// The events that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EventName {
    PacketSent,
    PacketReceived,
    PacketLost,
    PacketDropped,
    Metrics,
    CongestionState,
    Blocked { of_stream: bool },
    Timer,
    Parameters,
    RecoveryParameters,
    ConnectionState,
    Closed,
    Mtu,
    Path,
    Ecn,
    Suppressors,
    CongestionEvents,
    Controller,
    SpuriousLoss,
    StreamDataMoved,
    Other,
}

impl EventName {
    fn of(name: &str) -> Self {
        match name {
            "packet_sent" => Self::PacketSent,
            "packet_received" => Self::PacketReceived,
            "packet_lost" => Self::PacketLost,
            "packet_dropped" => Self::PacketDropped,
            "recovery_metrics_updated" | "metrics_updated" => Self::Metrics,
            "congestion_state_updated" => Self::CongestionState,
            "connection_data_blocked_updated" => Self::Blocked { of_stream: false },
            "stream_data_blocked_updated" => Self::Blocked { of_stream: true },
            "timer_updated" | "loss_timer_updated" => Self::Timer,
            "parameters_set" => Self::Parameters,
            "recovery_parameters_set" => Self::RecoveryParameters,
            "connection_state_updated" => Self::ConnectionState,
            "connection_closed" => Self::Closed,
            "mtu_updated" => Self::Mtu,
            "migration_state_updated" => Self::Path,
            "ecn_state_updated" => Self::Ecn,
            "suppressors_updated" => Self::Suppressors,
            "congestion_events_updated" => Self::CongestionEvents,
            "controller_updated" => Self::Controller,
            "spurious_loss" => Self::SpuriousLoss,
            "stream_data_moved" | "data_moved" => Self::StreamDataMoved,
            _ => Self::Other,
        }
    }
}
