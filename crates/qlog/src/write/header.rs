use core::time::Duration;

use clearway_transport::Side;
use clearway_units::Timestamp;
use clearway_wire::ConnectionId;

use super::json::Object;
use super::{RecoveryParameters, ReferenceTime};

/// The schema of the file: one trace, one event for each record (main schema §5).
pub const FILE_SCHEMA: &str = "urn:ietf:params:qlog:file:sequential";
/// The media type of the file (main schema §11.2).
pub const SERIALIZATION_FORMAT: &str = "application/qlog+json-seq";
/// The schema of the events of namespace `quic`, with the number of the draft that is implemented.
pub const QUIC_SCHEMA: &str = "urn:ietf:params:qlog:events:quic-13";
/// The schema of the events of namespace `loglevel`.
pub const LOGLEVEL_SCHEMA: &str = "urn:ietf:params:qlog:events:loglevel-14";
/// The schema of the events of namespace `clearway`, which the drafts do not define.
///
/// * `clearway:suppressors_updated`: `suppressors`, an array of everything that keeps the congestion
///   window from growing now; each element has `suppressor`, its name, and `since_round`, the number
///   of the packet-timed round in which it began.
/// * `clearway:congestion_events_updated`: `congestion_events`, how many times the window was reduced
///   because of congestion, and `undone_events`, how many of those reductions were undone because the losses
///   were spurious.
///
/// * `clearway:controller_updated`: the internal variables of the congestion controller, by the names of its
///   specification (`w_max`, `k`, `max_bw` …), in an object for each unit: `bytes`, `milliseconds` and
///   `bits_per_second`. Only variables that changed are written, with `null` for those that no longer exist.
///
/// * `clearway:records_dropped`: `records`, how many records are missing at this point, because too many were
///   held before it was decided that the connection gets a log, or because the disk did not keep up.
///
/// It also adds values where the QUIC schema leaves room for them: the reasons `keys` and
/// `path_validation` of `quic:connection_data_blocked_updated`, the timers `delayed_ack` and `pacing`
/// of `quic:timer_updated`, the frame types `clearway:repeated` (the frame before it follows `count` more times) and
/// `clearway:omitted` (`count` frames at the end of a received packet are left out), and `congestion_controller` in `quic:recovery_parameters_set`.
pub const CLEARWAY_SCHEMA: &str = "urn:clearway:qlog:events:clearway-072026";

/// Options for writing a log.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceOptions {
    /// A title for human readers.
    pub title: Option<String>,
    /// The reference point to which times in the log are relative.
    pub reference_time: ReferenceTime,
    /// The constants of recovery, as the connection is configured.
    pub recovery_parameters: RecoveryParameters,
    /// The maximum time, on the connection's clock, for which records are buffered while more
    /// events occur.
    pub flush_interval: Duration,
    /// The maximum size of the log in bytes, 256 MiB by default: a download of about 1 GB. The log
    /// ends before it would exceed this, with a `loglevel:warning` event that says so, because the
    /// peer controls how long a connection lasts. The connection continues.
    pub maximum_bytes: u64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            title: None,
            reference_time: ReferenceTime::Monotonic { wall_clock_at_origin: None },
            recovery_parameters: RecoveryParameters::default(),
            flush_interval: Duration::from_millis(100),
            maximum_bytes: 256 << 20,
        }
    }
}

/// Writes the first record. The schema and the format come first, so that they are within the first
/// 256 bytes (main schema §3).
pub(super) fn write(
    json: &mut Object<'_>,
    options: &TraceOptions,
    side: Side,
    original_destination_id: &ConnectionId,
    now: Timestamp,
) {
    json.text("file_schema", FILE_SCHEMA);
    json.text("serialization_format", SERIALIZATION_FORMAT);
    if let Some(title) = &options.title {
        json.text("title", title);
    }
    json.object("trace", |json| {
        json.object("common_fields", |json| {
            json.hex("group_id", original_destination_id.as_bytes());
            json.text("time_format", "relative_to_epoch");
            options.reference_time.write(now, json);
        });
        json.object("vantage_point", |json| {
            json.text("name", "clearway");
            json.text("type", super::names::side(side));
        });
        json.array("event_schemas", |json| {
            json.text(QUIC_SCHEMA);
            json.text(LOGLEVEL_SCHEMA);
            json.text(CLEARWAY_SCHEMA);
        });
    });
}
