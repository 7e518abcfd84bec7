//! The same setup in another network.

use core::fmt;
use core::time::Duration;

use clearway_network::{Conditions, LinkConfig};

use crate::run::RunError;

/// Why runs could not be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotComparable {
    /// One of them cannot be run.
    Run(RunError),
    /// The property says nothing about this setup or its runs, for this reason.
    Inapplicable(&'static str),
}

impl fmt::Display for NotComparable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(formatter),
            Self::Inapplicable(why) => write!(formatter, "the property does not apply: {why}"),
        }
    }
}

impl core::error::Error for NotComparable {}

impl From<RunError> for NotComparable {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

/// Both directions.
pub(super) fn ways(network: &mut LinkConfig) -> [&mut Conditions; 2] {
    [&mut network.to_server, &mut network.to_client]
}

/// The round-trip time of the first datagrams, without queues.
pub(super) fn round_trip(network: &LinkConfig) -> Duration {
    network.to_server.delay + network.to_client.delay
}
