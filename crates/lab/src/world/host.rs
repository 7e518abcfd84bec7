//! Changes to a client's host, and to the path of the socket with which its connection began.

use core::net::IpAddr;

use clearway_network::{Link, Moment};
use clearway_units::Timestamp;

use super::time_of;
use crate::setup::{HostChange, HostFault};
use crate::stack::{Kernel, LocalIp};

/// The number that identifies the first socket in the network once the host has another address.
pub(super) const REPLACED: u32 = 15;

/// The changes to a client's host and its first path.
#[derive(Debug, Default)]
pub(super) struct Host {
    changes: Vec<(HostChange, Option<Timestamp>)>,
}

/// The state of a host's first address.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Address {
    #[default]
    First,
    Gone,
    Replaced,
}

/// The current state of a host and its first path.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct HostState {
    address: Address,
    is_path_dead: bool,
    path_mtu: Option<usize>,
    interface_mtu: Option<usize>,
}

impl Host {
    pub(super) fn new(changes: &[HostChange]) -> Self {
        Self { changes: changes.iter().map(|change| (*change, None)).collect() }
    }

    /// Records the changes that are due. Calls `migrate` with the time at which the application
    /// migrates because of a change.
    pub(super) fn note(&mut self, now: Timestamp, link: &Link, mut migrate: impl FnMut(Timestamp)) {
        for (change, since) in &mut self.changes {
            if since.is_none() && time_of(change.at, link).is_some_and(|at| at <= now) {
                *since = Some(now);
                change.migrates_after.map(|after| now + after).into_iter().for_each(&mut migrate);
            }
        }
    }

    /// Returns when the next change is due, if that is known.
    pub(super) fn next_change(&self, link: &Link) -> Option<Timestamp> {
        let coming = self.changes.iter().filter(|(_, since)| since.is_none());
        let timed = coming.filter(|(change, _)| matches!(change.at, Moment::After(_)));
        timed.filter_map(|(change, _)| time_of(change.at, link)).min()
    }

    /// Returns the current state.
    pub(super) fn state(&self, now: Timestamp) -> HostState {
        let mut state = HostState::default();
        for (change, since) in &self.changes {
            let (Some(since), Some(fault)) = (*since, change.fault) else { continue };
            match fault {
                HostFault::PathDies => state.is_path_dead = true,
                HostFault::PathMtu(bytes) => state.path_mtu = Some(bytes),
                HostFault::InterfaceMtu(bytes) => state.interface_mtu = Some(bytes),
                HostFault::AddressLost { another_after } => {
                    let is_replaced = another_after.is_some_and(|after| since + after <= now);
                    state.address = if is_replaced { Address::Replaced } else { Address::Gone };
                }
            }
        }
        state
    }
}

impl HostState {
    /// Returns how the kernel treats datagrams from a client whose first address is replaced by
    /// `other`.
    pub(super) fn kernel(self, other: IpAddr) -> Kernel {
        let local_ip = match self.address {
            Address::First => LocalIp::Kept,
            Address::Gone => LocalIp::Gone,
            Address::Replaced => LocalIp::Replaced(other),
        };
        Kernel { local_ip, mtu: self.interface_mtu }
    }

    /// Returns the number that identifies the client's `socket` in the network.
    pub(super) fn number_of(self, socket: u32) -> u32 {
        let is_replaced = self.address == Address::Replaced;
        if socket == 0 && is_replaced { REPLACED } else { socket }
    }

    /// Returns whether a datagram of `bytes` passes the path of the socket with this number.
    pub(super) fn passes(self, number: u32, bytes: usize) -> bool {
        let is_dead = self.is_path_dead && number == 0;
        !is_dead && self.path_mtu.is_none_or(|most| bytes <= most)
    }

    /// Returns the client's socket that receives datagrams sent to the socket with this number, if
    /// there is one.
    pub(super) fn receiver(self, number: u32) -> Option<u32> {
        match (number, self.address) {
            (0, Address::Gone | Address::Replaced) => None,
            (REPLACED, Address::Replaced) => Some(0),
            (socket, _) => Some(socket),
        }
    }
}
