//! The faults, and the expected verdict for each fault.

mod device;
mod ip;
mod queue;
mod sending;
mod socket;

use clearway_doctor::Stage;

use super::scene::Scene;
use super::site::Place;

/// The expected verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// No datagrams are lost.
    NoLoss,
    /// No datagrams are lost as far as is visible from outside, and this stage could not be
    /// observed.
    NotSeen(Stage),
    /// The verdict is undecided because the host is idle.
    Unknown,
    /// No datagrams are lost, but many of those that arrive have no socket.
    Stray,
    /// This stage drops the most datagrams, for this reason.
    Loss(Stage, &'static str),
    /// The first stage drops the most datagrams, for its reason, and the second one drops fewer.
    Two([(Stage, &'static str); 2]),
}

/// The requirements for injecting a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// Only network namespaces.
    Nothing,
    /// A setting that affects the whole host for some seconds.
    Host,
}

/// A fault to inject.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// Description of the fault for the reader.
    pub(super) what: &'static str,
    /// The host on which the doctor runs.
    pub(super) place: Place,
    /// Whether a router is between sender and receiver.
    pub(super) is_routed: bool,
    /// Whether the doctor's engine runs inside the first reader, which reports the results.
    pub(super) is_carried: bool,
    pub(super) expected: Expected,
    pub(super) needs: Needs,
    /// Injects the fault, which lasts until the scene ends.
    pub(super) inject: fn(&mut Scene<'_>) -> Result<(), String>,
}

impl Fault {
    /// Returns a fault that is visible on the receiver.
    const fn new(
        name: &'static str,
        what: &'static str,
        expected: Expected,
        inject: fn(&mut Scene<'_>) -> Result<(), String>,
    ) -> Self {
        let (place, needs) = (Place::Receiver, Needs::Nothing);
        Self { name, what, place, is_routed: false, is_carried: false, expected, needs, inject }
    }

    /// Returns the fault, observed on the given host.
    const fn seen_at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Returns the fault, with a router between sender and receiver.
    const fn routed(mut self) -> Self {
        self.is_routed = true;
        self
    }

    /// Returns the fault, observed by the engine inside the reader.
    const fn carried(mut self) -> Self {
        self.is_carried = true;
        self
    }

    /// Returns the fault, marked as one that changes a setting of the whole host.
    const fn of_host(mut self) -> Self {
        self.needs = Needs::Host;
        self
    }

    /// Returns all faults, in the order of the receive path.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let parts = [device::FAULTS, ip::FAULTS, socket::FAULTS, queue::FAULTS, sending::FAULTS];
        parts.into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_fault_has_a_name_of_its_own() {
        let names: Vec<_> = Fault::all().map(|fault| fault.name).collect();
        let different: BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    }

    #[test]
    fn a_doctor_looks_where_there_is_a_host() {
        for fault in Fault::all() {
            assert!(fault.place != Place::Router || fault.is_routed, "{}", fault.name);
        }
    }
}
