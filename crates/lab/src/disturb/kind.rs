//! The kinds of disturbances, and their names.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use clearway_network::{Disturbance, Effect, Fate, LinkConfig, Moment, Probability, Reorder, Way};

use crate::end::Side;
use crate::setup::Setup;

/// A disturbance without its moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The NAT in front of the client forgets the client's port.
    RebindPort,
    /// The NAT forgets the client's port and IP address.
    RebindAddress,
    /// For this long, nothing that the given side sends is delivered; `None` stands for both sides.
    Silence(Option<Side>, Duration),
    /// A datagram is lost.
    Lose,
    /// A datagram arrives twice.
    Double,
    /// A datagram arrives with one byte changed, any byte.
    Corrupt,
    /// A datagram arrives with one of its first 20 bytes changed.
    CorruptHeader,
    /// A datagram arrives 100 ms late.
    Delay,
    /// One side starts a key update.
    UpdateKeys(Side),
    /// From then on a tenth of all datagrams arrives a quarter of a round trip late.
    Reorder,
}

/// The name of a disturbance or of a moment that does not exist. The message lists those that do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownName(pub(super) String);

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl core::error::Error for UnknownName {}

/// Shorter than an idle connection's probes on a long path.
const SHORT: Duration = Duration::from_millis(200);
/// Longer than the first probe timeout of a connection without a sample.
const LONG: Duration = Duration::from_secs(2);
/// Several short round trips, half a long one.
pub(super) const LATE: Duration = Duration::from_millis(100);
const HEADER: usize = 20;
const REORDERED: f64 = 0.1;

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::RebindPort,
        Self::RebindAddress,
        Self::Silence(Some(Side::Client), SHORT),
        Self::Silence(Some(Side::Server), SHORT),
        Self::Silence(None, SHORT),
        Self::Silence(Some(Side::Client), LONG),
        Self::Silence(Some(Side::Server), LONG),
        Self::Silence(None, LONG),
        Self::Lose,
        Self::Double,
        Self::Corrupt,
        Self::CorruptHeader,
        Self::Delay,
        Self::UpdateKeys(Side::Client),
        Self::UpdateKeys(Side::Server),
        Self::Reorder,
    ];

    /// Its effect, in a few words.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::RebindPort => "the NAT forgets the client's port",
            Self::RebindAddress => "the NAT forgets the client's port and IP address",
            Self::Silence(Some(Side::Client), _) => "nothing that the client sends arrives",
            Self::Silence(Some(Side::Server), _) => "nothing that the server sends arrives",
            Self::Silence(None, _) => "nothing arrives in either direction",
            Self::Lose => "the datagram is lost",
            Self::Double => "the datagram arrives twice",
            Self::Corrupt => "the datagram arrives with one byte changed",
            Self::CorruptHeader => "the datagram arrives with one of its first 20 bytes changed",
            Self::Delay => "the datagram arrives 100 ms late",
            Self::UpdateKeys(Side::Client) => "the client starts a key update",
            Self::UpdateKeys(Side::Server) => "the server starts a key update",
            Self::Reorder => {
                "from then on a tenth of the datagrams are late by a quarter of a round trip"
            }
        }
    }

    /// Whether it affects a single datagram, so that its moment has to be a datagram.
    pub const fn needs_datagram(self) -> bool {
        matches!(
            self,
            Self::Lose | Self::Double | Self::Corrupt | Self::CorruptHeader | Self::Delay
        )
    }

    /// Puts it into `setup`, at `moment`.
    pub(super) fn put(self, moment: Moment, setup: &mut Setup) {
        let effect = match self {
            Self::RebindPort => Effect::Rebind { address: false },
            Self::RebindAddress => Effect::Rebind { address: true },
            Self::Silence(side, length) => Effect::Silence { way: side.map(Side::way), length },
            Self::Lose => one(moment, Fate::Lost),
            Self::Double => one(moment, Fate::Doubled),
            Self::Corrupt => one(moment, Fate::Corrupted { within: None }),
            Self::CorruptHeader => one(moment, Fate::Corrupted { within: Some(HEADER) }),
            Self::Delay => one(moment, Fate::Delayed(LATE)),
            Self::Reorder => Effect::Reorder(Reorder {
                probability: Probability::new(REORDERED).unwrap_or_default(),
                by: late_by(&setup.network),
            }),
            Self::UpdateKeys(side) => {
                for flow in &mut setup.flows {
                    let end = match side {
                        Side::Client => &mut flow.client,
                        Side::Server => &mut flow.server,
                    };
                    end.key_updates.push(moment);
                }
                return;
            }
        };
        setup.network.disturbances.push(Disturbance { moment, effect });
    }
}

/// Affects the datagram whose entry into the network is `moment`; for a time, the next datagram to the client.
const fn one(moment: Moment, fate: Fate) -> Effect {
    let way = match moment {
        Moment::Datagram { way, .. } => way,
        Moment::After(_) => Way::ToClient,
    };
    Effect::One { way, fate }
}

/// How late a datagram is on a path that reorders.
pub(super) fn late_by(network: &LinkConfig) -> Duration {
    (network.to_server.delay.saturating_add(network.to_client.delay)) / 4
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::RebindPort => "rebind-port",
            Self::RebindAddress => "rebind-address",
            Self::Silence(side, length) => {
                let side = side.map_or("both", Side::name);
                return match length.subsec_millis() {
                    0 => write!(formatter, "silence-{}s-{side}", length.as_secs()),
                    _ => write!(formatter, "silence-{}ms-{side}", length.as_millis()),
                };
            }
            Self::Lose => "lose",
            Self::Double => "double",
            Self::Corrupt => "corrupt",
            Self::CorruptHeader => "corrupt-header",
            Self::Delay => "delay",
            Self::UpdateKeys(side) => return write!(formatter, "key-update-{}", side.name()),
            Self::Reorder => "reorder",
        };
        formatter.write_str(name)
    }
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name).ok_or_else(|| {
            let known = Self::ALL.map(|kind| kind.to_string()).join(", ");
            UnknownName(format!("unknown disturbance {name:?}: choose one of {known}"))
        })
    }
}
