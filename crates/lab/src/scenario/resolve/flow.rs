//! Connections, and what they are used for.

use core::time::Duration;

use clearway_units::Rate;
use toml::Spanned;

use super::endpoint;
use crate::scenario::error::Fault;
use crate::scenario::file::Level;
use crate::scenario::file::flow::{FlowSettings, SessionName, TrafficSettings};
use crate::scenario::settings::Overlay;
use crate::setup::{Flow, SessionKind, StackKind, Traffic};

/// As many as anyone needs; a mistyped number shall not fill the memory.
const MAXIMUM_COPIES: u32 = 10_000;

/// All flows, copies one by one, each with the delay that its ways have on top of the link's.
pub(super) fn flows(level: &Level) -> Result<Vec<(Flow, Duration)>, Fault> {
    let settings = level.flows.as_deref().unwrap_or_default();
    if settings.is_empty() {
        return Err(Fault::new(0..0, "there must be a [[flow]]"));
    }
    let mut flows: Vec<(Flow, Duration)> = Vec::new();
    for settings in settings {
        let name = &settings.get_ref().name;
        if name.get_ref().is_empty() || flows.iter().any(|(flow, _)| flow.group == *name.get_ref())
        {
            let message = format!("a flow needs a name of its own, {:?} is none", name.get_ref());
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
            Err(Fault::new(written.span(), format!("no more than {MAXIMUM_COPIES} copies")))
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
    let session = match settings.session.or(level.session) {
        None | Some(SessionName::Null) => SessionKind::Null,
        Some(SessionName::Tls) => SessionKind::Tls,
    };
    let is_quinn = [&client, &server].iter().any(|end| end.stack == StackKind::Quinn);
    if is_quinn && session == SessionKind::Null {
        return Err(Fault::new(settings.name.span(), "quinn needs session = \"tls\""));
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

fn traffic(written: &Spanned<TrafficSettings>) -> Result<Traffic, Fault> {
    let traffic = match *written.get_ref() {
        TrafficSettings::Download(size) => Traffic::Download { size: size.0 },
        TrafficSettings::Upload(size) => Traffic::Upload { size: size.0 },
        TrafficSettings::Parallel(answers) => {
            Traffic::Parallel { count: answers.count, size: answers.size.0 }
        }
        TrafficSettings::Requests(answers) => Traffic::Requests {
            count: answers.count,
            size: answers.size.0,
            every: answers.every.map(|time| time.0),
        },
        TrafficSettings::Paced(answer) => {
            Traffic::Paced { rate: answer.rate.0, chunk: answer.chunk.0, size: answer.size.0 }
        }
        TrafficSettings::Bulk(answer) => Traffic::Bulk { length: answer.length.0 },
    };
    let is_something = match traffic {
        Traffic::Bulk { length } => !length.is_zero(),
        Traffic::Paced { rate, chunk, size } => rate > Rate::ZERO && chunk > 0 && size > 0,
        _ => traffic.bytes() > Some(0),
    };
    match is_something {
        true => Ok(traffic),
        false => Err(Fault::new(written.span(), "there is nothing to transfer")),
    }
}
