//! Reads the data of each event from its JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use super::any_text::AnyText;
use super::controller_metrics::ControllerData;
use super::dialect::EventName;
use super::event::{
    Blocked, BlockedUpdate, Close, CongestionState, EventKind, LossTrigger, Lost, Metrics, Packet,
    PacketType, Parameters, RecoveryParameters, Timer, TimerEvent,
};
use super::frames::Frames;
use super::number::{Decimal, Milliseconds, Number, number_or_word};

/// The maximum number of growth-suppressing conditions that are read from one event, and the length
/// in characters at which their names are truncated.
const MAX_SUPPRESSORS: usize = 64;
const MAX_NAME: usize = 100;

type Text<'a> = Option<Cow<'a, str>>;

fn boxed(text: &Text<'_>) -> Option<Box<str>> {
    text.as_deref().map(Into::into)
}

/// Reads the data of an event. An error describes what does not match any draft.
pub(super) fn event_kind<'de, D: Deserializer<'de>>(
    name: EventName,
    full_name: &str,
    data: D,
) -> Result<EventKind, D::Error> {
    Ok(match name {
        EventName::PacketSent => EventKind::PacketSent(PacketData::deserialize(data)?.packet()),
        EventName::PacketReceived => {
            EventKind::PacketReceived(PacketData::deserialize(data)?.packet())
        }
        EventName::PacketLost => EventKind::PacketLost(PacketData::deserialize(data)?.lost()),
        EventName::PacketDropped => {
            let data = PacketData::deserialize(data)?;
            EventKind::PacketDropped {
                packet_type: data.packet_type(),
                length: data.length(),
                reason: boxed(&data.trigger),
            }
        }
        EventName::Metrics => {
            EventKind::Metrics(Box::new(MetricsData::deserialize(data)?.metrics()))
        }
        EventName::CongestionState => {
            EventKind::CongestionState(CongestionState::of_name(&NewState::deserialize(data)?.new))
        }
        EventName::Blocked { of_stream } => BlockedData::deserialize(data)?.kind(of_stream),
        EventName::Timer => TimerData::deserialize(data)?.kind(),
        EventName::Parameters => {
            EventKind::Parameters(Box::new(ParametersData::deserialize(data)?.parameters()))
        }
        EventName::RecoveryParameters => EventKind::RecoveryParameters(Box::new(
            RecoveryParametersData::deserialize(data)?.parameters(),
        )),
        EventName::ConnectionState => {
            EventKind::ConnectionState(NewState::deserialize(data)?.new.as_ref().into())
        }
        EventName::Path => EventKind::Path(NewState::deserialize(data)?.new.as_ref().into()),
        EventName::Ecn => EventKind::Ecn(NewState::deserialize(data)?.new.as_ref().into()),
        EventName::Closed => EventKind::Closed(Box::new(ClosedData::deserialize(data)?.close())),
        EventName::KeyUpdated => KeyUpdatedData::deserialize(data)?.kind(full_name),
        EventName::Mtu => {
            let data = MtuData::deserialize(data)?;
            EventKind::Mtu { new: data.new.0, is_done: data.done.unwrap_or_default() }
        }
        EventName::Suppressors => SuppressorsData::deserialize(data)?.kind(),
        EventName::CongestionEvents => {
            let data = CongestionEventsData::deserialize(data)?;
            EventKind::CongestionEvents {
                events: data.congestion_events.0,
                undone: data.undone_events.0,
            }
        }
        EventName::Controller => {
            EventKind::Controller(ControllerData::deserialize(data)?.metrics())
        }
        EventName::SpuriousLoss => {
            EventKind::SpuriousLoss { number: SpuriousLossData::deserialize(data)?.packet_number.0 }
        }
        EventName::StreamDataMoved => DataMoved::deserialize(data)?.kind(),
        EventName::Other => {
            IgnoredAny::deserialize(data)?;
            EventKind::Other(full_name.into())
        }
    })
}

#[derive(Deserialize, Default)]
struct Raw {
    length: Option<Number>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Header<'a> {
    #[serde(borrow)]
    packet_type: Text<'a>,
    packet_number: Option<Number>,
    /// The packet's length in version 0.3.
    packet_size: Option<Number>,
    /// The packet's length in quinn's logs.
    length: Option<Number>,
}

#[derive(Deserialize)]
struct PacketData<'a> {
    #[serde(borrow)]
    header: Option<Header<'a>>,
    frames: Option<Frames>,
    raw: Option<Raw>,
    #[serde(borrow)]
    trigger: Text<'a>,
    is_mtu_probe_packet: Option<bool>,
    /// The packet type in aioquic's loss events, named as in early drafts.
    #[serde(borrow, alias = "type")]
    packet_type: Text<'a>,
    packet_number: Option<Number>,
}

impl PacketData<'_> {
    fn packet_type(&self) -> PacketType {
        let in_header = self.header.as_ref().and_then(|header| header.packet_type.as_deref());
        in_header.or(self.packet_type.as_deref()).map(PacketType::of_name).unwrap_or_default()
    }

    fn number(&self) -> Option<u64> {
        let in_header = self.header.as_ref().and_then(|header| header.packet_number);
        in_header.or(self.packet_number).map(|number| number.0)
    }

    fn length(&self) -> Option<u64> {
        let in_raw = self.raw.as_ref().and_then(|raw| raw.length);
        let in_header =
            self.header.as_ref().and_then(|header| header.packet_size.or(header.length));
        in_raw.or(in_header).map(|length| length.0)
    }

    fn packet(mut self) -> Packet {
        Packet {
            packet_type: self.packet_type(),
            number: self.number(),
            length: self.length(),
            frames: self.frames.take().map(|frames| frames.0),
            is_probe: self.trigger.as_deref() == Some("pto_probe"),
            is_mtu_probe: self.is_mtu_probe_packet.unwrap_or_default(),
        }
    }

    fn lost(&self) -> Lost {
        Lost {
            packet_type: self.packet_type(),
            number: self.number(),
            length: self.length(),
            trigger: self.trigger.as_deref().and_then(|trigger| match trigger {
                "reordering_threshold" => Some(LossTrigger::ReorderingThreshold),
                "time_threshold" => Some(LossTrigger::TimeThreshold),
                "pto_expired" => Some(LossTrigger::ProbeTimeout),
                _ => None,
            }),
            is_mtu_probe: self.is_mtu_probe_packet.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct Total {
    total: Option<Number>,
}

#[derive(Deserialize)]
struct MetricsData {
    #[serde(alias = "cwnd")]
    congestion_window: Option<Number>,
    bytes_in_flight: Option<Number>,
    packets_in_flight: Option<Number>,
    ssthresh: Option<Number>,
    pacing_rate: Option<Number>,
    min_rtt: Option<Milliseconds>,
    smoothed_rtt: Option<Milliseconds>,
    latest_rtt: Option<Milliseconds>,
    rtt_variance: Option<Milliseconds>,
    pto_count: Option<Number>,
    cf_lost_packets: Option<Total>,
    cf_app_limited: Option<bool>,
}

impl MetricsData {
    fn metrics(&self) -> Metrics {
        let number = |value: Option<Number>| value.map(|value| value.0);
        let duration = |value: Option<Milliseconds>| value.map(Milliseconds::duration);
        Metrics {
            congestion_window: number(self.congestion_window),
            bytes_in_flight: number(self.bytes_in_flight),
            packets_in_flight: number(self.packets_in_flight),
            slow_start_threshold: number(self.ssthresh),
            pacing_rate: number(self.pacing_rate),
            minimum_rtt: duration(self.min_rtt),
            smoothed_rtt: duration(self.smoothed_rtt),
            latest_rtt: duration(self.latest_rtt),
            rtt_variation: duration(self.rtt_variance),
            pto_count: number(self.pto_count),
            lost_packets: self.cf_lost_packets.as_ref().and_then(|lost| number(lost.total)),
            is_application_limited: self.cf_app_limited,
        }
    }
}

#[derive(Deserialize)]
struct NewState<'a> {
    #[serde(borrow)]
    new: Cow<'a, str>,
}

#[derive(Deserialize)]
struct BlockedData<'a> {
    #[serde(borrow)]
    new: Cow<'a, str>,
    #[serde(borrow)]
    reason: Text<'a>,
    stream_id: Option<Number>,
}

impl BlockedData<'_> {
    fn kind(&self, of_stream: bool) -> EventKind {
        let is_blocked = self.new == "blocked";
        let reason = self.reason.as_deref().map_or(Blocked::Other, Blocked::of_name);
        EventKind::Blocked(BlockedUpdate {
            stream: self.stream_id.filter(|_| of_stream).map(|id| id.0),
            reason: is_blocked.then_some(reason),
        })
    }
}

#[derive(Deserialize)]
struct TimerData<'a> {
    #[serde(borrow)]
    timer_type: Text<'a>,
    #[serde(borrow)]
    event_type: Cow<'a, str>,
    delta: Option<Milliseconds>,
}

impl TimerData<'_> {
    fn kind(&self) -> EventKind {
        let event = match self.event_type.as_ref() {
            "set" => TimerEvent::Set(self.delta.map(Milliseconds::duration)),
            "expired" => TimerEvent::Expired,
            _ => TimerEvent::Cancelled,
        };
        EventKind::Timer(Timer { timer: boxed(&self.timer_type).unwrap_or_default(), event })
    }
}

#[derive(Deserialize)]
struct ParametersData<'a> {
    #[serde(borrow, alias = "owner")]
    initiator: Text<'a>,
    max_idle_timeout: Option<Milliseconds>,
    max_ack_delay: Option<Milliseconds>,
    initial_max_data: Option<Number>,
    initial_max_stream_data_bidi_local: Option<Number>,
    initial_max_stream_data_bidi_remote: Option<Number>,
    initial_max_stream_data_uni: Option<Number>,
}

impl ParametersData<'_> {
    fn parameters(&self) -> Parameters {
        let number = |value: Option<Number>| value.map(|value| value.0);
        Parameters {
            is_local: self.initiator.as_deref().map(|initiator| initiator == "local"),
            max_idle_timeout: self.max_idle_timeout.map(Milliseconds::duration),
            max_ack_delay: self.max_ack_delay.map(Milliseconds::duration),
            initial_max_data: number(self.initial_max_data),
            initial_max_stream_data_bidi_local: number(self.initial_max_stream_data_bidi_local),
            initial_max_stream_data_bidi_remote: number(self.initial_max_stream_data_bidi_remote),
            initial_max_stream_data_uni: number(self.initial_max_stream_data_uni),
        }
    }
}

#[derive(Deserialize)]
struct RecoveryParametersData<'a> {
    max_datagram_size: Option<Number>,
    initial_congestion_window: Option<Number>,
    minimum_congestion_window: Option<Number>,
    #[serde(default, deserialize_with = "number_or_word")]
    reordering_threshold: Option<Number>,
    time_threshold: Option<Decimal>,
    #[serde(borrow)]
    congestion_controller: Text<'a>,
}

impl RecoveryParametersData<'_> {
    fn parameters(&self) -> RecoveryParameters {
        let number = |value: Option<Number>| value.map(|value| value.0);
        RecoveryParameters {
            max_datagram_size: number(self.max_datagram_size),
            initial_window: number(self.initial_congestion_window),
            minimum_window: number(self.minimum_congestion_window),
            reordering_threshold: number(self.reordering_threshold),
            time_threshold: self.time_threshold.map(|value| value.0),
            controller: boxed(&self.congestion_controller),
        }
    }
}

#[derive(Deserialize)]
struct ClosedData<'a> {
    #[serde(borrow, alias = "owner")]
    initiator: Text<'a>,
    /// The error's name, or its number in version 0.3.
    #[serde(alias = "connection_code")]
    connection_error: Option<AnyText>,
    #[serde(alias = "application_code")]
    application_error: Option<AnyText>,
    /// The code of an error that has no name.
    error_code: Option<AnyText>,
    reason: Option<AnyText>,
    #[serde(borrow)]
    trigger: Text<'a>,
}

impl ClosedData<'_> {
    fn close(self) -> Close {
        let number = |text: &Option<AnyText>| text.as_ref().and_then(|text| text.0.parse().ok());
        let is_of_application = match (&self.connection_error, &self.application_error) {
            (None, None) => None,
            (connection, _) => Some(connection.is_none()),
        };
        let code = number(&self.error_code);
        let code = code.or_else(|| number(&self.connection_error));
        Close {
            is_local: self.initiator.as_deref().map(|initiator| initiator == "local"),
            is_of_application,
            code: code.or_else(|| number(&self.application_error)),
            error: self.connection_error.or(self.application_error).map(|error| error.0),
            reason: self.reason.map(|reason| reason.0),
            trigger: boxed(&self.trigger),
        }
    }
}

#[derive(Deserialize)]
struct KeyUpdatedData<'a> {
    #[serde(borrow)]
    key_type: Text<'a>,
    #[serde(borrow)]
    trigger: Text<'a>,
}

impl KeyUpdatedData<'_> {
    /// Returns the event for a key update. Keys that the handshake yields are not an update.
    fn kind(&self, full_name: &str) -> EventKind {
        let is_of_1rtt = self.key_type.as_deref().is_some_and(|name| name.contains("1rtt"));
        match self.trigger.as_deref().map(|trigger| trigger.strip_suffix("_update")) {
            Some(Some(end)) if is_of_1rtt => {
                EventKind::KeyUpdated { is_local: Some(end == "local") }
            }
            _ => EventKind::Other(full_name.into()),
        }
    }
}

#[derive(Deserialize)]
struct MtuData {
    new: Number,
    done: Option<bool>,
}

#[derive(Deserialize)]
struct SuppressorsData<'a> {
    #[serde(borrow)]
    suppressors: Vec<SuppressorData<'a>>,
}

#[derive(Deserialize)]
struct SuppressorData<'a> {
    #[serde(borrow)]
    suppressor: Cow<'a, str>,
    since_round: Number,
}

impl SuppressorsData<'_> {
    fn kind(&self) -> EventKind {
        let each = self.suppressors.iter().take(MAX_SUPPRESSORS);
        let each = each.map(|each| {
            let name: String = each.suppressor.chars().take(MAX_NAME).collect();
            (name.into(), each.since_round.0)
        });
        EventKind::Suppressors(each.collect())
    }
}

#[derive(Deserialize)]
struct CongestionEventsData {
    congestion_events: Number,
    undone_events: Number,
}

#[derive(Deserialize)]
struct SpuriousLossData {
    packet_number: Number,
}

#[derive(Deserialize)]
struct DataMoved<'a> {
    stream_id: Option<Number>,
    offset: Option<Number>,
    length: Option<Number>,
    raw: Option<Raw>,
    #[serde(borrow)]
    from: Text<'a>,
    #[serde(borrow)]
    to: Text<'a>,
}

impl DataMoved<'_> {
    fn kind(&self) -> EventKind {
        let length = self.length.or(self.raw.as_ref().and_then(|raw| raw.length));
        let is_application =
            |end: &Text<'_>| matches!(end.as_deref(), Some("application" | "user"));
        EventKind::StreamDataMoved {
            stream: self.stream_id.unwrap_or_default().0,
            offset: self.offset.unwrap_or_default().0,
            length: length.unwrap_or_default().0,
            from_application: is_application(&self.from),
            to_application: is_application(&self.to),
        }
    }
}
