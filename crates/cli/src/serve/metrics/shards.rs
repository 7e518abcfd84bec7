//! The shards' counters, with the shard's number as the label `shard`.

use std::fmt;

use clearway::ShardStatistics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A metric with one number per shard.
struct Single {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    kind: MetricType,
    value: fn(&ShardStatistics) -> u64,
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    value: fn(&ShardStatistics) -> u64,
) -> Single {
    Single { name, unit: None, help, kind: MetricType::Gauge, value }
}

const fn counter(
    name: &'static str,
    help: &'static str,
    value: fn(&ShardStatistics) -> u64,
) -> Single {
    Single { name, unit: None, help, kind: MetricType::Counter, value }
}

const fn bytes(
    name: &'static str,
    help: &'static str,
    value: fn(&ShardStatistics) -> u64,
) -> Single {
    Single { name, unit: Some(Unit::Bytes), help, kind: MetricType::Counter, value }
}

static SINGLE: [Single; 41] = [
    gauge(
        "connections",
        "Open connections, including those that are closing or draining",
        |shard| shard.connections,
    ),
    counter("connections_accepted", "Client connections accepted", |shard| {
        shard.connections_accepted
    }),
    gauge(
        "connections_half_open",
        "Clients whose handshake is in progress or waiting to begin",
        |shard| shard.connections_half_open,
    ),
    counter("retries_sent", "Retry packets sent", |shard| shard.retries_sent),
    counter("handshakes_completed", "Completed TLS handshakes", |shard| shard.handshakes_completed),
    counter(
        "handshakes_failed",
        "Connections that ended before their handshake was complete",
        |shard| shard.handshakes_failed,
    ),
    counter("clients_refused", "Clients refused or ignored", |shard| shard.incoming_refused),
    counter(
        "incoming_dropped",
        "UDP payloads of new clients that were dropped because more arrived than the shard \
         could process",
        |shard| shard.incoming_dropped,
    ),
    counter(
        "datagrams_unknown",
        "Datagrams received that do not belong to a connection and cannot begin one",
        |shard| shard.datagrams_unknown,
    ),
    counter("stateless_resets_sent", "Stateless resets sent", |shard| shard.stateless_resets_sent),
    bytes("received", "Bytes of UDP payloads received", |shard| shard.bytes_received),
    bytes("sent", "Bytes of UDP payloads handed to the kernel", |shard| shard.bytes_sent),
    counter("datagrams_received", "UDP payloads received", |shard| shard.datagrams_received),
    counter("datagrams_sent", "UDP payloads handed to the kernel", |shard| shard.datagrams_sent),
    counter("packets_received", "Packets received and decrypted", |shard| shard.packets_received),
    counter("packets_sent", "Packets sent, except ACK-only packets", |shard| shard.packets_sent),
    counter("packets_dropped", "Packets received and dropped", |shard| shard.packets_dropped),
    counter("packets_lost", "Packets declared lost", |shard| shard.packets_lost),
    counter(
        "packets_spuriously_lost",
        "Packets acknowledged after they were declared lost",
        |shard| shard.packets_spuriously_lost,
    ),
    counter("probe_timeouts", "Expired probe timeouts (PTO)", |shard| shard.probe_timeouts),
    counter("datagrams_handed_out", "Datagrams received and passed to another shard", |shard| {
        shard.handed_over
    }),
    counter("datagrams_handed_in", "Datagrams that other shards passed to this one", |shard| {
        shard.handed_in
    }),
    counter(
        "datagrams_hand_over_dropped",
        "Datagrams for another shard that were dropped because its queue was full",
        |shard| shard.hand_over_dropped,
    ),
    counter(
        "datagrams_forwarded_out",
        "Datagrams passed to the other process of a hot restart",
        |shard| shard.forwarded,
    ),
    counter(
        "datagrams_forwarded_in",
        "Datagrams received from the other process of a hot restart",
        |shard| shard.forwarded_in,
    ),
    counter(
        "datagrams_forward_dropped",
        "Datagrams dropped because too many were waiting for the other process of a hot restart",
        |shard| shard.forward_dropped,
    ),
    counter(
        "datagrams_foreign_dropped",
        "Datagrams dropped because their sender is not one of the balancers",
        |shard| shard.foreign_dropped,
    ),
    counter("batches_received", "System calls that received datagrams", |shard| {
        shard.batches_received
    }),
    counter("batches_failed", "Batches that the kernel rejected", |shard| shard.batches_failed),
    counter("receive_failures", "Receive system calls that failed", |shard| shard.receive_failures),
    counter("send_blocked", "Number of times that the socket had no room for a batch", |shard| {
        shard.send_blocked
    }),
    counter(
        "segmentation_refused",
        "Number of times that the kernel began to reject segmentation (GSO)",
        |shard| shard.segmentation_refused,
    ),
    counter("migrations", "Peer address changes", |shard| shard.migrations),
    counter("stalls", "Number of times that the shard was late by a second or more", |shard| {
        shard.stalls
    }),
    counter("wakeups", "Number of times that the shard was woken from sleep", |shard| {
        shard.wakeups
    }),
    counter(
        "busy_polls",
        "Number of times that the shard polled for datagrams before it slept",
        |shard| shard.busy_polls,
    ),
    counter(
        "busy_polls_successful",
        "Busy polls that found work, so that the shard did not sleep",
        |shard| shard.busy_polls_successful,
    ),
    counter("panics", "Panics in applications, acceptors and tasks", |shard| shard.panics),
    counter("shards_failed", "Shards that ended unexpectedly", |shard| shard.shards_failed),
    // The mean batch size is the number of datagrams sent divided by this counter.
    counter("batches_sent", "Batches handed to the kernel", |shard| shard.batches_sent),
    counter("send_calls", "System calls that sent batches", |shard| shard.send_calls),
];

/// Collector that reads the counters of all shards when the metrics are requested.
pub(crate) struct Shards {
    read: Box<dyn Fn() -> Vec<ShardStatistics> + Send + Sync>,
}

impl Shards {
    pub(crate) fn new(read: impl Fn() -> Vec<ShardStatistics> + Send + Sync + 'static) -> Self {
        Self { read: Box::new(read) }
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shards").finish_non_exhaustive()
    }
}

impl Collector for Shards {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shards = (self.read)();
        for Single { name, unit, help, kind, value } in &SINGLE {
            // The help ends with a full stop, like those that the registry writes.
            let help = format!("{help}.");
            let metric = encoder.encode_descriptor(name, &help, unit.as_ref(), *kind)?;
            each(metric, &shards, |mut encoder, shard| match kind {
                MetricType::Gauge => encoder.encode_gauge(&value(shard)),
                _ => encoder.encode_counter::<NoLabelSet, _, f64>(&value(shard), None),
            })?;
        }
        let help = "Datagrams in each batch handed to the kernel (GSO).";
        let sizes = Some(Unit::Other("datagrams".to_owned()));
        let kind = MetricType::Histogram;
        let metric = encoder.encode_descriptor("batch_size", help, sizes.as_ref(), kind)?;
        each(metric, &shards, |encoder, shard| {
            let bounds = ShardStatistics::BATCH_SIZES.map(|size| size as f64);
            histogram(encoder, shard.datagrams_sent as f64, &bounds, &shard.batches_by_size)
        })?;
        let help = "Duration of each turn of a shard's loop, without sleep.";
        let metric =
            encoder.encode_descriptor("turn_duration", help, Some(&Unit::Seconds), kind)?;
        each(metric, &shards, |encoder, shard| {
            let bounds = ShardStatistics::TURN_DURATIONS.map(|duration| duration.as_secs_f64());
            let sum = shard.turn_time().as_secs_f64();
            histogram(encoder, sum, &bounds, &shard.turns_by_duration)
        })
    }
}

/// Encodes a metric with one sample for each shard.
fn each(
    mut metric: MetricEncoder<'_>,
    shards: &[ShardStatistics],
    encode: impl Fn(MetricEncoder<'_>, &ShardStatistics) -> fmt::Result,
) -> fmt::Result {
    for (number, shard) in shards.iter().enumerate() {
        encode(metric.encode_family(&[("shard", number)])?, shard)?;
    }
    Ok(())
}

/// Encodes a histogram; `counts` may have one more element than `bounds`, for values above all of
/// them.
fn histogram(
    mut encoder: MetricEncoder<'_>,
    sum: f64,
    bounds: &[f64],
    counts: &[u64],
) -> fmt::Result {
    let larger = counts.get(bounds.len()).copied().unwrap_or(0);
    let buckets = bounds.iter().copied().zip(counts.iter().copied());
    let buckets: Vec<_> = buckets.chain([(f64::INFINITY, larger)]).collect();
    encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
}
