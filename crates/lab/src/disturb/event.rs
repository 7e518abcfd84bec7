//! A disturbance and its injection point: the text form, and the change to a setup.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use clearway_network::{Moment, Way, parse_duration};

use super::Kind;
use super::kind::UnknownName;
use crate::end::Side;
use crate::setup::Setup;

/// One disturbance at one injection point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The kind of disturbance.
    pub kind: Kind,
    /// The injection point of the disturbance.
    pub at: At,
}

/// An injection point in a run. In text form, `datagram:12:client` is the twelfth datagram that the
/// client sends, and `time:37ms` is 37 ms after the first datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At(pub Moment);

impl Event {
    /// Returns `setup` with all of `events` added.
    pub fn put_all(events: &[Self], setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        for event in events {
            event.kind.put(event.at.0, &mut setup);
        }
        setup
    }
}

impl fmt::Display for Event {
    /// Formats the event as the command-line options that add it to a run.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "--disturbance {} --at {}", self.kind, self.at)
    }
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Moment::Datagram { way: Way::ToServer, number } => {
                write!(formatter, "datagram:{number}:{}", Side::Client.name())
            }
            Moment::Datagram { way: Way::ToClient, number } => {
                write!(formatter, "datagram:{number}:{}", Side::Server.name())
            }
            Moment::After(after) if after.subsec_nanos() % 1_000_000 == 0 => {
                write!(formatter, "time:{}ms", after.as_millis())
            }
            Moment::After(after) => write!(formatter, "time:{}ns", after.as_nanos()),
        }
    }
}

impl FromStr for At {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        moment(text).map(Self).ok_or_else(|| {
            UnknownName(format!(
                "invalid injection point {text:?}: expected for example datagram:12:client, \
                 datagram:12:server, or time:37ms"
            ))
        })
    }
}

fn moment(text: &str) -> Option<Moment> {
    let (what, which) = text.split_once(':')?;
    match what {
        "time" => parse_duration(which).ok().filter(|it| *it < Duration::MAX).map(Moment::After),
        "datagram" => {
            let (number, side) = which.split_once(':')?;
            let side = Side::BOTH.into_iter().find(|it| it.name() == side)?;
            let number = number.parse().ok().filter(|number| *number > 0)?;
            Some(Moment::Datagram { way: side.way(), number })
        }
        _ => None,
    }
}
