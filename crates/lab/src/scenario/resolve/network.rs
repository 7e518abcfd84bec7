//! Resolves the settings of the link.

use core::time::Duration;
use std::path::Path;

use clearway_network::{
    AckFilter, CoDel, Conditions, Corrupt, Discipline, DualPi2, EcnTreatment, FlowDelay, Freezes,
    Host, Jitter, LinkConfig, Policer, Probability, QueueLimit, Rebind, Reorder, Step, Trace,
};
use clearway_units::Rate;
use toml::Spanned;

use super::loss;
use crate::scenario::embedded;
use crate::scenario::error::Fault;
use crate::scenario::file::Level;
use crate::scenario::file::network::{self as file, DirectionSettings, HostSettings, Queue};
use crate::scenario::value::{Time, TimeOrNone};

/// The minimum queue size in bytes: every queue has room for at least one datagram of this size, so
/// that some traffic passes.
const SMALLEST_QUEUE: u64 = 1500;

/// Resolves the link that all flows share. Each flow's extra delay is added in both directions.
pub(super) fn link(
    level: &Level,
    extra_delays: &[Duration],
    folder: &Path,
) -> Result<LinkConfig, Fault> {
    let delay = |direction: &DirectionSettings| time(direction.delay);
    let round_trip = delay(&level.to_server).saturating_add(delay(&level.to_client));
    let of = |direction, host| conditions(direction, host, round_trip, folder);
    Ok(LinkConfig {
        to_server: of(&level.to_server, &level.server_host)?,
        to_client: of(&level.to_client, &level.client_host)?,
        flows: (0..)
            .zip(extra_delays)
            .filter(|(_, delay)| !delay.is_zero())
            .map(|(flow, &delay)| FlowDelay { flow, to_server: delay, to_client: delay })
            .collect(),
        rebind: level.rebind.map(|rebind| Rebind {
            first: rebind.first.0,
            every: rebind.every.map(|time| time.0),
            address: rebind.address,
        }),
        ..LinkConfig::default()
    })
}

/// Resolves the conditions of one direction and of the host at its end.
fn conditions(
    settings: &DirectionSettings,
    host: &HostSettings,
    round_trip: Duration,
    folder: &Path,
) -> Result<Conditions, Fault> {
    let trace = settings.trace.as_ref().map(|path| trace(path, folder)).transpose()?;
    let rate = settings.rate.and_then(|rate| rate.0);
    let overhead = settings.overhead.unwrap_or(0);
    let capacity = trace.as_ref().map(Trace::mean_rate).or(rate);
    let queue = settings.queue.as_ref();
    let queue = queue.map(|queue| limit(queue, capacity, round_trip, overhead)).transpose()?;
    let (delay_steps, rate_steps) = steps(settings)?;
    let mtu_steps = in_order(settings.mtu_steps.as_ref(), |step| Step {
        after: step.at.0,
        value: Some(step.value.0),
    })?;
    let ecn_steps = in_order(settings.ecn_steps.as_ref(), |step| Step {
        after: step.at.0,
        value: step.value.resolve(),
    })?;
    Ok(Conditions {
        delay: time(settings.delay),
        delay_steps,
        rate,
        rate_steps,
        mtu_steps,
        ecn_steps,
        trace,
        overhead,
        queue: queue.unwrap_or_default(),
        loss: loss_rules(settings)?,
        host: self::host(host),
        ..impairments(settings)
    })
}

fn loss_rules(settings: &DirectionSettings) -> Result<Vec<clearway_network::LossRule>, Fault> {
    settings.loss.as_deref().unwrap_or_default().iter().map(loss::rule).collect()
}

type Steps = (Vec<Step<Duration>>, Vec<Step<Option<Rate>>>);

fn steps(settings: &DirectionSettings) -> Result<Steps, Fault> {
    Ok((
        in_order(settings.delay_steps.as_ref(), |step| Step {
            after: step.at.0,
            value: step.value.0,
        })?,
        in_order(settings.rate_steps.as_ref(), |step| Step {
            after: step.at.0,
            value: step.value.0,
        })?,
    ))
}

/// Returns the steps if they are in chronological order.
fn in_order<F, T>(
    written: Option<&Spanned<Vec<F>>>,
    step: impl Fn(&F) -> Step<T>,
) -> Result<Vec<Step<T>>, Fault> {
    let Some(written) = written else { return Ok(Vec::new()) };
    let steps: Vec<_> = written.get_ref().iter().map(step).collect();
    if !steps.is_sorted_by(|one, next| one.after < next.after) {
        return Err(Fault::new(
            written.span(),
            "steps must be in order, each later than the previous one",
        ));
    }
    Ok(steps)
}

/// Resolves the conditions that depend only on their own settings.
fn impairments(settings: &DirectionSettings) -> Conditions {
    let optional = |time: Option<TimeOrNone>| time.and_then(|time| time.0);
    Conditions {
        jitter: Jitter {
            range: time(settings.jitter),
            reorder_by_jitter: settings.jitter_reorders.unwrap_or(false),
        },
        tick: optional(settings.tick),
        freezes: settings.freezes.map(|freezes| freezes.resolve()),
        policer: settings
            .policer
            .map(|policer| Policer { rate: policer.rate.0, bucket: policer.bucket.0 }),
        discipline: settings.discipline.map_or(Discipline::DropTail, file::Discipline::resolve),
        ack_filter: settings.ack_filter.map(|filter| AckFilter {
            keep_one_of: filter.keep_one_of.0,
            smaller_than: filter.smaller_than,
        }),
        mark_above: optional(settings.mark_above),
        reorder: settings.reorder.map_or(Reorder::default(), |reorder| Reorder {
            probability: reorder.probability.0,
            by: reorder.by.0,
        }),
        duplicate: settings.duplicate.map_or(Probability::NEVER, |portion| portion.0),
        corrupt: settings.corrupt.map_or(Corrupt::default(), |corrupt| Corrupt {
            probability: corrupt.probability.0,
            maximum_run: corrupt.longest.map(|longest| longest.0),
            within: corrupt.within,
            spare_version_negotiation: corrupt.spare_version_negotiation,
        }),
        mtu: settings.mtu.map(|mtu| mtu.0),
        ecn: settings.ecn.map_or(EcnTreatment::Kept, file::EcnTreatment::resolve),
        ..Conditions::default()
    }
}

impl file::Freezes {
    fn resolve(self) -> Freezes {
        Freezes {
            start: time(self.start),
            period: time(self.period),
            length: self.length.0,
            count: self.count,
            spread: time(self.spread),
        }
    }
}

impl file::EcnTreatment {
    fn resolve(self) -> EcnTreatment {
        match self {
            Self::Kept => EcnTreatment::Kept,
            Self::Cleared => EcnTreatment::Cleared,
            Self::ToEct1 => EcnTreatment::ToEct1,
            Self::ToCe => EcnTreatment::ToCe,
            Self::Dropped => EcnTreatment::Dropped,
        }
    }
}

impl file::Discipline {
    fn resolve(self) -> Discipline {
        match self {
            Self::DropTail => Discipline::DropTail,
            Self::CoDel => Discipline::CoDel(CoDel::default()),
            Self::CoDelEcn => Discipline::CoDel(CoDel { ecn: true, ..CoDel::default() }),
            Self::DualPi2 => Discipline::DualPi2(DualPi2::default()),
        }
    }
}

/// Returns the time, or zero if the file does not set it.
fn time(time: Option<Time>) -> Duration {
    time.map_or(Duration::ZERO, |time| time.0)
}

/// Resolves the host's settings; `None` if the host processes datagrams instantly.
fn host(settings: &HostSettings) -> Option<Host> {
    let host = Host {
        buffer: QueueLimit { packets: None, bytes: settings.socket_buffer.map(|size| size.0) },
        service: time(settings.service_time),
        batch_service: time(settings.batch_time),
        batch: settings.batch.map_or(1, |batch| batch.0 as usize),
    };
    (!host.service.is_zero() || !host.batch_service.is_zero()).then_some(host)
}

fn limit(
    queue: &Spanned<Queue>,
    capacity: Option<Rate>,
    round_trip: Duration,
    overhead: u16,
) -> Result<QueueLimit, Fault> {
    let bytes = |bytes: u64| {
        let bytes = bytes.max(SMALLEST_QUEUE + u64::from(overhead));
        QueueLimit { packets: None, bytes: Some(bytes) }
    };
    let rate = || {
        let rate = capacity.filter(|rate| *rate > Rate::ZERO);
        rate.ok_or_else(|| Fault::new(queue.span(), "this kind of queue needs a rate or a trace"))
    };
    match *queue.get_ref() {
        Queue::Packets(packets) => Ok(QueueLimit { packets: Some(packets), bytes: None }),
        Queue::Bytes(size) => Ok(bytes(size.0)),
        Queue::Time(time) => Ok(bytes(rate()?.bytes_in(time.0))),
        // A cast from a floating-point number saturates.
        Queue::Bdp(products) => {
            Ok(bytes((rate()?.bytes_in(round_trip) as f64 * products.0) as u64))
        }
    }
}

fn trace(path: &Spanned<String>, folder: &Path) -> Result<Trace, Fault> {
    let file = folder.join(path.get_ref());
    let text = match embedded::content_in(folder, path.get_ref()) {
        Some(text) => text.to_owned(),
        None => std::fs::read_to_string(&file).map_err(|error| {
            Fault::new(path.span(), format!("cannot read {}: {error}", file.display()))
        })?,
    };
    let parsed = Trace::parse(&text);
    parsed.map_err(|error| Fault::new(path.span(), format!("{}: {error}", file.display())))
}
