//! Determines how the source ports for one server are shared: which address prefixes may take
//! another port, and which clients lose their port.
//!
//! A client that has used a connection ID from the server is *confirmed*, because it receives
//! packets at its address. It keeps its port until it is idle. All other ports can be taken away
//! when none is free, so they count as free here.

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use clearway_units::{AddressPrefix, Timestamp};

/// The stage of a port's client, by how much is known about it. Ports are taken away in the order
/// of stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// A stray client, which has sent a datagram that neither begins a connection nor belongs to a
    /// known one, and has received no response.
    Stray,
    /// The client has sent a datagram that may begin a connection or has a connection ID from the
    /// server, but it has received no response.
    Unanswered,
    /// The server has responded to the client.
    Answered,
    /// The client has used a connection ID that the server sent to it.
    Confirmed,
}

/// Maximum number of ports that the clients of the longest prefix can have for each port that is
/// left for all others. If there are no other clients, they can have four fifths of all ports. Each
/// shorter prefix can have twice as many per remaining port.
const PORTS_FOR_ONE_LEFT: usize = 4;
/// If a network has more than 1/`LARGE_PART` of the ports that can be taken away, its new clients
/// take ports from its other clients.
const LARGE_PART: usize = 4;
/// Stray clients can have at most 1/`PART_OF_STRAYS` of the free ports.
const PART_OF_STRAYS: u32 = 4;

/// Clients without a response lose their ports first, while they have at least
/// 1/`PART_OF_UNANSWERED` of the ports that can be taken away. If they have fewer, clients with a
/// response lose theirs. Otherwise, each new client would lose its port to the next one before the
/// server can respond.
const PART_OF_UNANSWERED: usize = 8;

/// Number of ports of a prefix, or of all clients, by stage.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    confirmed: usize,
    answered: usize,
    unanswered: usize,
    strays: usize,
}

impl Count {
    fn of(&mut self, stage: Stage) -> &mut usize {
        match stage {
            Stage::Stray => &mut self.strays,
            Stage::Unanswered => &mut self.unanswered,
            Stage::Answered => &mut self.answered,
            Stage::Confirmed => &mut self.confirmed,
        }
    }

    /// Returns how many ports can be taken away.
    fn losers(&self) -> usize {
        self.answered + self.without_answer()
    }

    fn without_answer(&self) -> usize {
        self.unanswered + self.strays
    }

    fn all(&self) -> usize {
        self.confirmed + self.losers()
    }

    /// Returns the stage of the client whose port is reassigned first.
    fn next_to_lose(&self) -> Stage {
        let have_many = self.without_answer() >= self.losers().div_ceil(PART_OF_UNANSWERED);
        if have_many { Stage::Stray } else { Stage::Answered }
    }
}

/// A lease, as recorded in the shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// The lease's index in the table.
    pub(super) place: usize,
    pub(super) client: SocketAddr,
    pub(super) stage: Stage,
    /// Time of the lease's last use, as recorded in the shares.
    pub(super) used: Timestamp,
}

/// The port that a new client gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// A free port.
    Free,
    /// The port of another client, whose lease has this index.
    Of(usize),
    /// No port.
    None,
}

/// The shares of one server's ports.
#[derive(Debug, Default)]
pub(super) struct Shares {
    all: Count,
    /// The unconfirmed clients, in the order in which they lose their ports.
    losers: BTreeSet<(Stage, Timestamp, usize)>,
    /// The unconfirmed clients of each network, in the same order.
    losers_of: BTreeSet<(AddressPrefix, Stage, Timestamp, usize)>,
    counts: BTreeMap<AddressPrefix, Count>,
}

impl Shares {
    /// Decides which port a new client at this stage gets if `free` of `ports` ports are free.
    pub(super) fn grant(&self, client: SocketAddr, stage: Stage, free: u32, ports: u32) -> Grant {
        if !self.has_share(client, ports.saturating_sub(self.all.confirmed as u32)) {
            return Grant::None;
        }
        let oldest = self.losers.first();
        if stage == Stage::Stray {
            // Stray clients take ports only from other stray clients.
            return match oldest {
                _ if self.all.strays < free.div_ceil(PART_OF_STRAYS) as usize => Grant::Free,
                Some(&(Stage::Stray, _, place)) => Grant::Of(place),
                _ => Grant::None,
            };
        }
        if free > 0 {
            return Grant::Free;
        }
        let network = AddressPrefix::network(client);
        let own = self.counts.get(&network).copied().unwrap_or_default();
        let place = if own.losers() > self.all.losers() / LARGE_PART {
            let first = (network, own.next_to_lose(), Timestamp::ORIGIN, 0);
            self.losers_of.range(first..).next().map(|(_, _, _, place)| *place)
        } else {
            let first = (self.all.next_to_lose(), Timestamp::ORIGIN, 0);
            self.losers.range(first..).next().map(|(_, _, place)| *place)
        };
        place.map_or(Grant::None, Grant::Of)
    }

    /// Returns whether each address prefix of a client is below its share, given that `left` ports
    /// are free or can be taken away.
    fn has_share(&self, client: SocketAddr, left: u32) -> bool {
        let mut most = left as usize * PORTS_FOR_ONE_LEFT;
        prefixes(client).all(|prefix| {
            let has = self.counts.get(&prefix).map_or(0, Count::all);
            let has_share = has < most;
            most *= 2;
            has_share
        })
    }

    /// Adds a lease to the counts.
    pub(super) fn add(&mut self, holder: Holder) {
        let Holder { place, client, stage, used } = holder;
        for prefix in prefixes(client) {
            *self.counts.entry(prefix).or_default().of(stage) += 1;
        }
        *self.all.of(stage) += 1;
        if stage != Stage::Confirmed {
            self.losers.insert((stage, used, place));
            self.losers_of.insert((AddressPrefix::network(client), stage, used, place));
        }
    }

    /// Removes a lease from the counts. It must be unchanged since it was added.
    pub(super) fn remove(&mut self, holder: Holder) {
        let Holder { place, client, stage, used } = holder;
        for prefix in prefixes(client) {
            let Some(count) = self.counts.get_mut(&prefix) else { continue };
            *count.of(stage) -= 1;
            if count.all() == 0 {
                self.counts.remove(&prefix);
            }
        }
        *self.all.of(stage) -= 1;
        if stage != Stage::Confirmed {
            self.losers.remove(&(stage, used, place));
            self.losers_of.remove(&(AddressPrefix::network(client), stage, used, place));
        }
    }
}

/// Returns the address prefixes whose ports are counted, longest first.
fn prefixes(client: SocketAddr) -> impl Iterator<Item = AddressPrefix> {
    let (host, network) = (AddressPrefix::host(client), AddressPrefix::network(client));
    [Some(host), AddressPrefix::customer(client), Some(network)].into_iter().flatten()
}
