//! Resolves the flows: connections and their traffic.

use core::ops::RangeInclusive;
use core::time::Duration;

use toml::Spanned;

use super::endpoint;
use crate::scenario::error::Fault;
use crate::scenario::file::Level;
use crate::scenario::file::flow::{
    EarlyDataName, FlowSettings, KeyExchangeName, SessionName, TrafficSettings,
};
use crate::scenario::settings::Overlay;
use crate::scenario::value::Size;
use crate::setup::{EarlyDataSetup, Flow, KeyExchange, SessionKind, StackKind, TlsSetup, Traffic};

/// The maximum number of copies, more than any scenario needs, so that a typo does not exhaust
/// memory.
const MAXIMUM_COPIES: u32 = 10_000;

/// Returns all flows, with every copy as a separate flow, each with its delay in addition to the
/// link's.
pub(super) fn flows(level: &Level) -> Result<Vec<(Flow, Duration)>, Fault> {
    let settings = level.flows.as_deref().unwrap_or_default();
    if settings.is_empty() {
        return Err(Fault::new(0..0, "a scenario needs at least one [[flow]]"));
    }
    let mut flows: Vec<(Flow, Duration)> = Vec::new();
    for settings in settings {
        let name = &settings.get_ref().name;
        if name.get_ref().is_empty() || flows.iter().any(|(flow, _)| flow.group == *name.get_ref())
        {
            let message =
                format!("{:?} is not a unique name: every flow needs its own name", name.get_ref());
            return Err(Fault::new(name.span(), message));
        }
        let extra_delay = settings.get_ref().extra_delay;
        let extra_delay = extra_delay.map_or(Duration::ZERO, |time| time.0);
        flows.extend(copies(level, settings)?.into_iter().map(|flow| (flow, extra_delay)));
    }
    Ok(flows)
}

fn copies(level: &Level, settings: &Spanned<FlowSettings>) -> Result<Vec<Flow>, Fault> {
    let flow = flow(level, settings)?;
    let settings = settings.get_ref();
    let copies = super::at_least_one(settings.copies.as_ref(), "copies")?;
    match (copies, &settings.copies) {
        (Some(copies), Some(written)) if copies > MAXIMUM_COPIES => {
            Err(Fault::new(written.span(), format!("copies must be at most {MAXIMUM_COPIES}")))
        }
        (Some(copies), _) => {
            let apart = settings.apart.map_or(Duration::ZERO, |time| time.0);
            let copy = |number: u32| Flow {
                name: format!("{}-{number}", flow.group),
                start: flow.start.saturating_add(apart.saturating_mul(number.saturating_sub(1))),
                ..flow.clone()
            };
            Ok((1..=copies).map(copy).collect())
        }
        (None, _) => Ok(vec![flow]),
    }
}

fn flow(level: &Level, written: &Spanned<FlowSettings>) -> Result<Flow, Fault> {
    let settings = written.get_ref();
    let (mut client, mut server) = (level.client.clone(), level.server.clone());
    client.overlay(&settings.endpoint.client());
    server.overlay(&settings.endpoint.server());
    let (client, server) = (endpoint::end(&client)?, endpoint::end(&server)?);
    if !server.migrations.is_empty() || client.prefers_address {
        let message = "migrations are only valid for a client, and preferred_address only for a \
            server";
        return Err(Fault::new(settings.name.span(), message));
    }
    let session = session(level, settings)?;
    let is_quinn = [&client, &server].iter().any(|end| end.stack == StackKind::Quinn);
    if is_quinn && session == SessionKind::Null {
        return Err(Fault::new(settings.name.span(), "quinn requires session = \"tls\""));
    }
    let is_early = matches!(session, SessionKind::Tls(TlsSetup { early_data: Some(_), .. }));
    if is_quinn && is_early {
        return Err(Fault::new(
            settings.name.span(),
            "early data is not supported with stack = \"quinn\"",
        ));
    }
    Ok(Flow {
        name: settings.name.get_ref().clone(),
        group: settings.name.get_ref().clone(),
        start: settings.start.map_or(Duration::ZERO, |time| time.0),
        controller: settings.controller.as_ref().map(super::controller).transpose()?,
        client,
        server,
        session,
        traffic: traffic(&settings.traffic)?,
        is_optional: settings.optional,
    })
}

/// The permitted size of a certificate chain, in bytes. The minimum allows two certificates, and
/// the maximum is the amount of handshake data that a QUIC endpoint can buffer at once in most
/// stacks.
const CERTIFICATE_CHAINS: RangeInclusive<u64> = 1000..=60_000;

fn session(level: &Level, settings: &FlowSettings) -> Result<SessionKind, Fault> {
    let mut tls = level.tls.clone();
    tls.overlay(&settings.tls);
    let spans = [
        tls.key_exchange.as_ref().map(Spanned::span),
        tls.certificate_chain.as_ref().map(Spanned::span),
        tls.early_data.as_ref().map(Spanned::span),
    ];
    match (settings.session.or(level.session), spans.into_iter().flatten().next()) {
        (Some(SessionName::Tls), _) => {}
        // A variant without TLS may override a base with TLS.
        (Some(SessionName::Null), _) | (None, None) => return Ok(SessionKind::Null),
        (None, Some(span)) => return Err(Fault::new(span, "this requires session = \"tls\"")),
    }
    let key_exchange = match tls.key_exchange.map(Spanned::into_inner) {
        None | Some(KeyExchangeName::X25519) => KeyExchange::X25519,
        Some(KeyExchangeName::X25519MlKem768) => KeyExchange::X25519MlKem768,
    };
    let chain = |size: Spanned<Size>| {
        let bytes = size.get_ref().0;
        let chain = u32::try_from(bytes).ok().filter(|_| CERTIFICATE_CHAINS.contains(&bytes));
        let [least, most] = [CERTIFICATE_CHAINS.start(), CERTIFICATE_CHAINS.end()];
        let message = || format!("a certificate chain must have {least} to {most} bytes");
        chain.ok_or_else(|| Fault::new(size.span(), message()))
    };
    let certificate_chain = tls.certificate_chain.map(chain).transpose()?;
    let early_data = tls.early_data.map(|name| match name.into_inner() {
        EarlyDataName::Accepted => EarlyDataSetup::Accepted,
        EarlyDataName::Rejected => EarlyDataSetup::Rejected,
    });
    Ok(SessionKind::Tls(TlsSetup { key_exchange, certificate_chain, early_data }))
}

/// The position of a kind of traffic in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The flow's only traffic.
    Whole,
    /// A part of a sequence.
    Part,
    /// An entry in a `together` list, concurrent with other kinds.
    Beside,
}

/// Returns the traffic of a flow: one kind, several concurrent kinds, or a sequence of these.
fn traffic(written: &Spanned<TrafficSettings>) -> Result<Traffic, Fault> {
    let Some(parts) = &written.get_ref().sequence else { return part(written, Place::Whole) };
    let last = check_list(written, "sequence", parts)?;
    let part = |(index, written): (usize, &Spanned<TrafficSettings>)| {
        let part = part(written, Place::Part)?;
        match part {
            Traffic::Bulk { .. } if index < last => Err(Fault::new(
                written.span(),
                "`bulk` lasts until the connection ends: it must be the last part",
            )),
            _ => Ok(part),
        }
    };
    let parts = parts.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
    match parts.iter().all(|part| matches!(part, Traffic::Idle { .. })) {
        false => Ok(Traffic::Sequence { parts }),
        true => Err(Fault::new(written.span(), NOTHING)),
    }
}

/// Returns one part of a flow's traffic: one kind, or several concurrent kinds.
fn part(written: &Spanned<TrafficSettings>, place: Place) -> Result<Traffic, Fault> {
    let settings = written.get_ref();
    if place == Place::Part && settings.sequence.is_some() {
        let message = "a sequence cannot contain a sequence: put its parts in the outer one";
        return Err(Fault::new(written.span(), message));
    }
    let Some(kinds) = &settings.together else { return one_traffic(written, place) };
    check_list(written, "together", kinds)?;
    let kinds = kinds.iter().map(|kind| one_traffic(kind, Place::Beside));
    Ok(Traffic::Together { kinds: kinds.collect::<Result<_, _>>()? })
}

/// Returns the index of the last entry of `list`. `key` is the list's name in messages; the table
/// must not have another key.
fn check_list(
    written: &Spanned<TrafficSettings>,
    key: &str,
    list: &[Spanned<TrafficSettings>],
) -> Result<usize, Fault> {
    let fault = |message: String| Err(Fault::new(written.span(), message));
    let settings = written.get_ref();
    if let Some(more) = kinds(settings).first() {
        return fault(format!("`{key}` must be the only key: put `{}` in its list", more.name));
    }
    if settings.sequence.is_some() && settings.together.is_some() {
        return fault("`sequence` must be the only key: put `together` in its list".to_owned());
    }
    match list.len().checked_sub(1) {
        Some(last) if list.len() <= MAXIMUM_PARTS => Ok(last),
        _ => fault(format!("`{key}` must have 1 to {MAXIMUM_PARTS} parts")),
    }
}

/// A kind of traffic that the file contains.
struct Kind {
    name: &'static str,
    traffic: Traffic,
}

/// Returns all kinds of traffic that `settings` contains.
fn kinds(settings: &TrafficSettings) -> Vec<Kind> {
    let TrafficSettings {
        download,
        upload,
        parallel,
        requests,
        paced,
        cancelled,
        bulk,
        idle,
        together: _,
        sequence: _,
    } = settings;
    let kinds = [
        ("download", download.map(|size| Traffic::Download { size: size.0 })),
        ("upload", upload.map(|size| Traffic::Upload { size: size.0 })),
        ("parallel", parallel.map(|it| Traffic::Parallel { count: it.count.0, size: it.size.0 })),
        (
            "requests",
            requests.map(|it| Traffic::Requests {
                count: it.count.0,
                size: it.size.0,
                every: it.every.map(|time| time.0),
            }),
        ),
        (
            "paced",
            paced.map(|it| Traffic::Paced { rate: it.rate.0, chunk: it.chunk.0, size: it.size.0 }),
        ),
        (
            "cancelled",
            cancelled.map(|it| Traffic::Cancelled {
                count: it.count.0,
                size: it.size.0,
                every: it.every.map(|time| time.0),
            }),
        ),
        ("bulk", bulk.map(|it| Traffic::Bulk { length: it.length.0 })),
        ("idle", idle.map(|length| Traffic::Idle { length: length.0 })),
    ];
    kinds.into_iter().filter_map(|(name, traffic)| Some(Kind { name, traffic: traffic? })).collect()
}

const KINDS: &str = "download, upload, parallel, requests, paced, cancelled, bulk";
const NOTHING: &str = "traffic is empty: there is nothing to transfer";
/// The maximum number of parts, more than any scenario needs.
const MAXIMUM_PARTS: usize = 1000;
/// The minimum size of a canceled message, in bytes: one byte that is sent and one that is not.
const LEAST_CANCELLED: u64 = 2;

fn one_traffic(written: &Spanned<TrafficSettings>, place: Place) -> Result<Traffic, Fault> {
    let fault = |message: String| Err(Fault::new(written.span(), message));
    if place == Place::Beside {
        let settings = written.get_ref();
        if settings.sequence.is_some() || settings.together.is_some() {
            return fault(
                "each entry of `together` must be one kind of traffic, not a list".to_owned(),
            );
        }
    }
    let mut kinds = kinds(written.get_ref());
    let (Some(kind), true) = (kinds.pop(), kinds.is_empty()) else {
        let mut named: Vec<_> = self::kinds(written.get_ref()).iter().map(|it| it.name).collect();
        named.dedup();
        let here = if named.is_empty() { "none".to_owned() } else { named.join(" and ") };
        return fault(format!(
            "traffic must be exactly one of {KINDS}, or a sequence = [...] of them, or several together = [...]; \
            found {here}"
        ));
    };
    let is_something = match kind.traffic {
        Traffic::Bulk { .. } if place == Place::Beside => {
            return fault(
                "`bulk` lasts until the connection ends: it cannot be in `together`".to_owned(),
            );
        }
        Traffic::Idle { .. } if place != Place::Part => {
            return fault("idle must be a part of a sequence = [...]".to_owned());
        }
        Traffic::Cancelled { size, .. } if size < LEAST_CANCELLED => {
            return fault(format!(
                "a message that is canceled midway must have {LEAST_CANCELLED} bytes or more"
            ));
        }
        Traffic::Cancelled { .. } => true,
        Traffic::Bulk { length } | Traffic::Idle { length } => !length.is_zero(),
        Traffic::Paced { chunk, size, .. } => chunk > 0 && size > 0,
        _ => kind.traffic.bytes() > Some(0),
    };
    if is_something { Ok(kind.traffic) } else { fault(NOTHING.to_owned()) }
}
