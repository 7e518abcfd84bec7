//! The metrics of a balancer.
//!
//! The forwarding threads write to lock-free counters, which are read when the metrics are
//! requested.

use std::fmt;
use std::sync::Arc;

use clearway_balancer::{DropReason, Health, Means, ServerState, TableStatistics};
use clearway_doctor::Application;
use clearway_forward::{DirectionStatistics, Statistics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::counts::{FleetCounts, ShardCounted, ShardCounts};
use super::routing::SharedPool;
use crate::doctor::Carried;
use crate::exporter;

/// The sources of the metrics.
pub(super) struct Counted {
    /// Returns the forwarding statistics of each thread.
    pub(super) forwarded: Box<dyn Fn() -> Vec<Statistics> + Send + Sync>,
    /// Routing decisions of each thread.
    pub(super) shards: Vec<Arc<ShardCounts>>,
    pub(super) fleet: Arc<FleetCounts>,
    pub(super) pool: SharedPool,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

pub(super) fn registry(counted: Arc<Counted>, doctor: Carried) -> Registry {
    let mut registry = exporter::registry();
    registry.sub_registry_with_prefix("doctor").register_collector(Box::new(doctor));
    registry.sub_registry_with_prefix("balance").register_collector(Box::new(counted));
    registry
}

/// Returns the drops in the forwarding threads for the doctor. The threads' reads never truncate
/// datagrams.
pub(super) fn application(counted: &Counted) -> Application {
    let mut application = Application::default();
    for shard in (counted.forwarded)() {
        application.queue_full += shard.replies_dropped;
        for direction in [shard.to_servers, shard.to_clients] {
            application.received += direction.datagrams_received;
            application.send_refused += direction.dropped_no_room + direction.dropped_failed;
        }
    }
    application
}

/// A label and its value.
type Label = (&'static str, String);
/// A value with its labels.
type Sample = (Vec<Label>, f64);

/// A metric that each thread has once per direction.
type OfDirection = (&'static str, Option<Unit>, &'static str, fn(&DirectionStatistics) -> u64);
/// A reason for dropped datagrams.
type Drops = (&'static str, fn(&DirectionStatistics) -> u64);
/// A metric that each thread has.
type OfShard = (&'static str, MetricType, &'static str, fn(&Statistics) -> u64);
/// A metric of each thread's tables.
type OfTable = (&'static str, MetricType, &'static str, fn(&TableStatistics) -> u64);
/// A metric of each thread's routing decisions.
type OfDecisions = (&'static str, MetricType, &'static str, fn(&ShardCounted) -> u64);

const OF_DIRECTION: [OfDirection; 8] = [
    ("datagrams_received", None, "UDP payloads received", |it| it.datagrams_received),
    ("datagrams_sent", None, "UDP payloads handed to the kernel", |it| it.datagrams_sent),
    ("received", Some(Unit::Bytes), "Bytes of UDP payloads received", |it| it.bytes_received),
    ("sent", Some(Unit::Bytes), "Bytes of UDP payloads handed to the kernel", |it| it.bytes_sent),
    ("batches_received", None, "System calls that received datagrams", |it| it.batches_received),
    ("batches_sent", None, "Batches handed to the kernel", |it| it.batches_sent),
    ("receive_failures", None, "Receive system calls that failed", |it| it.receive_failures),
    ("send_blocked", None, "Number of times that a socket had no room for a batch", |it| {
        it.send_blocked
    }),
];

/// Reasons for dropping datagrams, in either direction.
const DROPS: [Drops; 6] = [
    ("empty", |it| it.dropped_empty),
    ("too_large", |it| it.dropped_too_large),
    ("no_room", |it| it.dropped_no_room),
    ("unreachable", |it| it.dropped_unreachable),
    ("not_permitted", |it| it.dropped_not_permitted),
    ("failed", |it| it.dropped_failed),
];

const OF_SHARD: [OfShard; 5] = [
    ("replies", MetricType::Counter, "Client datagrams that the balancer answered itself", |it| {
        it.replies
    }),
    (
        "unreachable_reports",
        MetricType::Counter,
        "ICMP messages reporting that a client or server is unreachable",
        |it| it.unreachable_reports,
    ),
    ("wakeups", MetricType::Counter, "Number of times that the thread was woken", |it| it.wakeups),
    (
        "ports_in_use",
        MetricType::Gauge,
        "Clients that have a source port toward a server without prefaces",
        |it| it.ports_in_use,
    ),
    (
        "ports_evicted",
        MetricType::Counter,
        "Source ports toward servers without prefaces that were taken from clients before they completed a round trip",
        |it| it.ports_evicted,
    ),
];

const OF_TABLE: [OfTable; 4] = [
    ("table_entries", MetricType::Gauge, "Entries in each table", |it| it.entries as u64),
    (
        "table_evicted",
        MetricType::Counter,
        "Entries evicted to make room for other entries",
        |it| it.evicted,
    ),
    (
        "table_expired",
        MetricType::Counter,
        "Entries removed because they had been idle for too long",
        |it| it.expired,
    ),
    ("table_refused", MetricType::Counter, "Entries rejected because the table was full", |it| {
        it.refused
    }),
];

const OF_DECISIONS: [OfDecisions; 5] = [
    (
        "ids_learned",
        MetricType::Counter,
        "Connection IDs learned from servers that have no server ID",
        |it| it.learned_ids,
    ),
    ("retries", MetricType::Counter, "Initial packets answered with a Retry", |it| it.gate.retries),
    ("retry_active", MetricType::Gauge, "1 while Retry packets are sent to new clients", |it| {
        u64::from(it.gate.is_closed)
    }),
    (
        "ids_untold",
        MetricType::Counter,
        "Learned connection IDs that could not be shared with the other threads because the table \
         was full",
        |it| it.unpublished,
    ),
    (
        "ids_contradicting",
        MetricType::Counter,
        "Long-header packets from servers with a connection ID that identifies another server",
        |it| it.contradicting,
    ),
];

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let forwarded = (self.forwarded)();
        let decided: Vec<_> = self.shards.iter().map(|shard| shard.read()).collect();
        directions(&mut encoder, &forwarded)?;
        let samples = drops(&forwarded, &decided);
        counter(&mut encoder, "datagrams_dropped", "UDP payloads dropped, by reason", samples)?;
        for (name, kind, help, value) in OF_SHARD {
            let samples = each(&forwarded, |shard| vec![(Vec::new(), value(shard) as f64)]);
            metric(&mut encoder, name, None, help, kind, samples)?;
        }
        let samples = each(&decided, |shard| {
            let means = Means::ALL.iter().zip(shard.means);
            means.map(|(it, count)| (label("means", means_name(*it)), count as f64)).collect()
        });
        counter(
            &mut encoder,
            "routed",
            "UDP payloads from clients, by how their server was selected",
            samples,
        )?;
        for (name, kind, help, value) in OF_DECISIONS {
            let samples = each(&decided, |shard| vec![(Vec::new(), value(shard) as f64)]);
            metric(&mut encoder, name, None, help, kind, samples)?;
        }
        let samples = each(&decided, |shard| {
            let tokens =
                [("valid", shard.gate.valid_tokens), ("invalid", shard.gate.invalid_tokens)];
            tokens.map(|(outcome, count)| (label("outcome", outcome), count as f64)).into()
        });
        let help = "Address validation tokens from new clients, by outcome of the check";
        counter(&mut encoder, "tokens", help, samples)?;
        tables(&mut encoder, &decided)?;
        self.servers(&mut encoder)?;
        let skipped = vec![(Vec::new(), self.fleet.skipped_now() as f64)];
        let help = "Source entries that are skipped because their address or name is invalid";
        metric(&mut encoder, "entries_skipped", None, help, MetricType::Gauge, skipped)?;
        let [ok, failed] = self.fleet.reloads();
        let samples =
            vec![(label("outcome", "ok"), ok as f64), (label("outcome", "failed"), failed as f64)];
        counter(
            &mut encoder,
            "reloads",
            "Reloads of the backends file or a source, by outcome",
            samples,
        )
    }
}

impl Counted {
    fn servers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let pool = self.pool.load();
        let servers =
            || pool.servers().map(|(key, server)| (key, server, label("server", &server.name)));
        let datagrams = servers().map(|(key, _, name)| {
            let sum: u64 = self.shards.iter().map(|shard| shard.datagrams(key)).sum();
            (name, sum as f64)
        });
        let help = "UDP payloads from clients to a server";
        counter(encoder, "server_datagrams", help, datagrams.collect())?;
        let states = servers().flat_map(|(_, server, name)| {
            STATES.map(|(state, text)| {
                let is_so = server.state == state;
                ([&name[..], &label("state", text)].concat(), f64::from(u8::from(is_so)))
            })
        });
        let help = "1 for the current state of a server, 0 for the other states";
        metric(encoder, "server_state", None, help, MetricType::Gauge, states.collect())?;
        let weights = servers().map(|(_, server, name)| {
            (name, f64::from(server.weight) / f64::from(Health::FULL_WEIGHT))
        });
        let help = "A server's share of new clients, relative to the other servers";
        metric(encoder, "server_weight", None, help, MetricType::Gauge, weights.collect())?;
        let checks = servers().flat_map(|(_, server, name)| {
            let [ok, failed] = self.fleet.checks_of(&server.name);
            [("ok", ok), ("failed", failed)].map(|(outcome, count)| {
                ([&name[..], &label("outcome", outcome)].concat(), count as f64)
            })
        });
        counter(encoder, "server_checks", "Health checks of a server, by outcome", checks.collect())
    }
}

const STATES: [(ServerState, &str); 3] = [
    (ServerState::Active, "active"),
    (ServerState::Draining, "draining"),
    (ServerState::Down, "down"),
];

pub(super) fn means_name(means: Means) -> &'static str {
    match means {
        Means::ServerId => "server_id",
        Means::Flow => "flow",
        Means::Learned => "learned",
        Means::Address => "address",
        Means::Hash => "hash",
    }
}

fn directions(encoder: &mut DescriptorEncoder<'_>, forwarded: &[Statistics]) -> fmt::Result {
    for (name, unit, help, value) in OF_DIRECTION {
        let samples = each(forwarded, |shard| {
            let both = both(shard).map(|(name, it)| (label("direction", name), value(it) as f64));
            both.into()
        });
        metric(encoder, name, unit, help, MetricType::Counter, samples)?;
    }
    Ok(())
}

fn both(shard: &Statistics) -> [(&'static str, &DirectionStatistics); 2] {
    [("to_servers", &shard.to_servers), ("to_clients", &shard.to_clients)]
}

/// Returns the drops by reason: while forwarding, and because no server was found.
fn drops(forwarded: &[Statistics], decided: &[ShardCounted]) -> Vec<Sample> {
    let on_the_way = each(forwarded, |shard| {
        let either = both(shard).into_iter().flat_map(|(direction, it)| {
            DROPS.map(|(reason, value)| (direction, reason, value(it)))
        });
        let own = [
            ("to_servers", "no_port", shard.dropped_no_port),
            ("to_servers", "like_preface", shard.dropped_like_preface),
            ("to_servers", "looped", shard.dropped_looped),
            ("to_clients", "unknown_sender", shard.dropped_unknown_sender),
            ("to_clients", "no_preface", shard.dropped_no_preface),
            ("to_clients", "too_many_replies", shard.replies_dropped),
        ];
        let all = either.chain(own);
        all.map(|(direction, reason, count)| {
            let labels = [label("direction", direction), label("reason", reason)].concat();
            (labels, count as f64)
        })
        .collect()
    });
    let without_server = each(decided, |shard| {
        let reasons = DropReason::ALL.iter().zip(shard.dropped);
        let reasons = reasons.map(|(reason, count)| match reason {
            DropReason::NotQuic => ("not_quic", count),
            DropReason::NoServer => ("no_server", count),
            _ => ("other", count),
        });
        let reasons = reasons.chain([("not_admitted", shard.gate.dropped)]);
        let reasons = reasons.map(|(reason, count)| {
            let labels = [label("direction", "to_servers"), label("reason", reason)].concat();
            (labels, count as f64)
        });
        reasons.collect()
    });
    [on_the_way, without_server].concat()
}

fn tables(encoder: &mut DescriptorEncoder<'_>, decided: &[ShardCounted]) -> fmt::Result {
    for (name, kind, help, value) in OF_TABLE {
        let samples = each(decided, |shard| {
            let tables = [("flows", shard.flows), ("learned", shard.learned)];
            tables.map(|(table, counts)| (label("table", table), value(&counts) as f64)).into()
        });
        metric(encoder, name, None, help, kind, samples)?;
    }
    Ok(())
}

/// Returns the samples of each thread, with its number as a label.
fn each<T>(shards: &[T], samples: impl Fn(&T) -> Vec<Sample>) -> Vec<Sample> {
    let of = shards.iter().enumerate().flat_map(|(number, shard)| {
        let shard_label = label("shard", &number.to_string());
        let samples = samples(shard).into_iter();
        samples.map(move |(labels, value)| ([&shard_label[..], &labels].concat(), value))
    });
    of.collect()
}

fn label(name: &'static str, value: &str) -> Vec<Label> {
    vec![(name, value.to_owned())]
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: Vec<Sample>,
) -> fmt::Result {
    metric(encoder, name, None, help, MetricType::Counter, samples)
}

fn metric(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    unit: Option<Unit>,
    help: &str,
    kind: MetricType,
    samples: Vec<Sample>,
) -> fmt::Result {
    // The help ends with a full stop, like those that the registry writes.
    let mut metric = encoder.encode_descriptor(name, &format!("{help}."), unit.as_ref(), kind)?;
    for (labels, value) in samples {
        let mut sample = metric.encode_family(&labels)?;
        match kind {
            MetricType::Gauge => sample.encode_gauge(&value)?,
            _ => sample.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
