//! The kinds of disturbances, and their names.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use clearway_network::{Disturbance, Effect, Fate, LinkConfig, Moment, Probability, Reorder, Way};

use crate::end::Side;
use crate::setup::{HostChange, HostFault, Setup};

/// A kind of disturbance, without its injection point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// The NAT in front of the client forgets the client's port.
    RebindPort,
    /// The NAT forgets the client's port and IP address.
    RebindAddress,
    /// No datagrams from the given side are delivered for this long; `None` means both sides.
    Silence(Option<Side>, Duration),
    /// A datagram is lost.
    Lose,
    /// A datagram arrives twice.
    Double,
    /// A datagram arrives with a random byte changed.
    Corrupt,
    /// A datagram arrives with one of its first 20 bytes changed.
    CorruptHeader,
    /// A datagram arrives 100 ms late.
    Delay,
    /// One side starts a key update.
    UpdateKeys(Side),
    /// A tenth of all later datagrams arrive a quarter of a round trip late.
    Reorder,
    /// A permanent change to the client's host or to its first path.
    Host(HostFault, Remedy),
    /// The NAT forgets the client's port and IP address, and the client's application migrates.
    RebindAndMigrate,
}

/// A client's response to a change in its host or path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remedy {
    /// Only the transport's own response, if there is any.
    Itself,
    /// The application migrates to another IP address 300 ms later.
    Migrates,
}

/// An error: no disturbance has this name, or an injection point is malformed. The message
/// describes the valid values.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownName(pub(super) String);

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl core::error::Error for UnknownName {}

/// A duration shorter than the interval of an idle connection's probes on a long path.
const SHORT: Duration = Duration::from_millis(200);
/// A duration longer than the first probe timeout of a connection without an RTT sample.
const LONG: Duration = Duration::from_secs(2);
/// A delay of several round trips on a short path, or half a round trip on a long one.
pub(super) const LATE: Duration = Duration::from_millis(100);
const HEADER: usize = 20;
const REORDERED: f64 = 0.1;
/// A datagram size below that of the undisturbed run, but not below QUIC's minimum.
const SMALL: usize = 1220;
/// The time from a change to the application's migration.
pub(super) const MIGRATES_AFTER: Duration = Duration::from_millis(300);
const GONE: HostFault = HostFault::AddressLost { another_after: None };

const fn replaced_after(time: Duration) -> HostFault {
    HostFault::AddressLost { another_after: Some(time) }
}

impl Kind {
    /// All kinds of disturbances.
    pub const ALL: [Self; 27] = [
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
        Self::Host(HostFault::PathDies, Remedy::Itself),
        Self::Host(HostFault::PathDies, Remedy::Migrates),
        Self::Host(GONE, Remedy::Itself),
        Self::Host(GONE, Remedy::Migrates),
        Self::Host(replaced_after(Duration::ZERO), Remedy::Itself),
        Self::Host(replaced_after(Duration::ZERO), Remedy::Migrates),
        Self::Host(replaced_after(SHORT), Remedy::Itself),
        Self::Host(HostFault::PathMtu(SMALL), Remedy::Itself),
        Self::Host(HostFault::PathMtu(SMALL), Remedy::Migrates),
        Self::Host(HostFault::InterfaceMtu(SMALL), Remedy::Itself),
        Self::RebindAndMigrate,
    ];

    /// Returns a short description of the disturbance's effect.
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
            Self::Host(HostFault::PathDies, _) => {
                "the client's first path drops everything from then on"
            }
            Self::Host(HostFault::AddressLost { another_after: None }, _) => {
                "the client's address is removed"
            }
            Self::Host(HostFault::AddressLost { .. }, _) => "the client's address is replaced",
            Self::Host(HostFault::PathMtu(_), _) => {
                "datagrams larger than 1220 bytes are lost from then on"
            }
            Self::Host(HostFault::InterfaceMtu(_), _) => {
                "the client's interface rejects datagrams larger than 1220 bytes from then on"
            }
            Self::RebindAndMigrate => {
                "the NAT forgets the client's port and IP address, and the client migrates"
            }
            Self::Reorder => {
                "from then on a tenth of the datagrams are delayed by a quarter of a round trip"
            }
        }
    }

    /// Returns whether the disturbance affects a single datagram, in which case its injection point
    /// must be a datagram.
    pub const fn needs_datagram(self) -> bool {
        matches!(
            self,
            Self::Lose | Self::Double | Self::Corrupt | Self::CorruptHeader | Self::Delay
        )
    }

    /// Adds the disturbance to `setup` at `moment`.
    pub(super) fn put(self, moment: Moment, setup: &mut Setup) {
        self.put_host_change(moment, setup);
        let effect = match self {
            Self::RebindPort => Effect::Rebind { address: false },
            Self::RebindAddress | Self::RebindAndMigrate => Effect::Rebind { address: true },
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
            Self::Host(..) => return,
        };
        setup.network.disturbances.push(Disturbance { moment, effect });
    }
}

impl Kind {
    /// Adds a change to the client's host to `setup`. Enables path MTU discovery if the change
    /// requires smaller datagrams.
    fn put_host_change(self, at: Moment, setup: &mut Setup) {
        let (fault, remedy) = match self {
            Self::Host(fault, remedy) => (Some(fault), remedy),
            Self::RebindAndMigrate => (None, Remedy::Migrates),
            _ => return,
        };
        let shrinks = matches!(fault, Some(HostFault::PathMtu(_) | HostFault::InterfaceMtu(_)));
        let migrates_after = (remedy == Remedy::Migrates).then_some(MIGRATES_AFTER);
        for flow in &mut setup.flows {
            flow.client.host_changes.push(HostChange { at, fault, migrates_after });
            flow.client.discovers_mtu |= shrinks;
            flow.server.discovers_mtu |= shrinks;
        }
    }

    /// Returns whether a connection need not survive the disturbance, either at any time or only
    /// before the handshake is confirmed (`is_early`), because no address or path is left or none
    /// may be used yet (RFC 9000 §9). In that case, the connection must end with an error that
    /// states the cause.
    pub(super) fn may_be_fatal(self, is_early: bool) -> bool {
        match self {
            Self::Host(HostFault::PathDies | GONE, Remedy::Itself) => true,
            Self::Host(HostFault::PathDies | HostFault::AddressLost { .. }, _) => is_early,
            _ => false,
        }
    }
}

/// Returns the effect on the datagram given by `moment`. If `moment` is a time, this is the next
/// datagram to the client.
const fn one(moment: Moment, fate: Fate) -> Effect {
    let way = match moment {
        Moment::Datagram { way, .. } => way,
        Moment::After(_) => Way::ToClient,
    };
    Effect::One { way, fate }
}

/// Returns by how much a datagram is delayed on a path that reorders datagrams.
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
            Self::RebindAndMigrate => "rebind-address-migrate",
            Self::Host(fault, remedy) => {
                match *fault {
                    HostFault::PathDies => formatter.write_str("path-dies"),
                    GONE => formatter.write_str("address-gone"),
                    HostFault::AddressLost { another_after: Some(Duration::ZERO) } => {
                        formatter.write_str("address-replaced")
                    }
                    HostFault::AddressLost { another_after } => {
                        let after = another_after.unwrap_or_default();
                        write!(formatter, "address-replaced-{}ms", after.as_millis())
                    }
                    HostFault::PathMtu(_) => formatter.write_str("path-mtu"),
                    HostFault::InterfaceMtu(_) => formatter.write_str("interface-mtu"),
                }?;
                return match remedy {
                    Remedy::Itself => Ok(()),
                    Remedy::Migrates => formatter.write_str("-migrate"),
                };
            }
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
