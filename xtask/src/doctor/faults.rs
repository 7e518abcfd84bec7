//! The faults, and the expected verdict for each.

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
    /// Nothing is lost.
    NoLoss,
    /// Nothing is lost as far as can be seen from outside, and this stage could not be observed.
    NotSeen(Stage),
    /// Undecidable: the host is idle.
    Unknown,
    /// Nothing is lost, but many arriving datagrams have no socket.
    Stray,
    /// This stage loses the most datagrams, for this cause.
    Loss(Stage, &'static str),
    /// The same, and another stage loses fewer datagrams.
    Two([(Stage, &'static str); 2]),
}

/// The requirements for injecting a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// Namespaces.
    Nothing,
    /// A setting of the whole host, for some seconds.
    Host,
}

/// A fault.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// Description for the reader.
    pub(super) what: &'static str,
    /// The host that the doctor observes.
    pub(super) place: Place,
    /// Whether a router is between sender and receiver.
    pub(super) is_routed: bool,
    /// Whether the doctor's engine runs in the first reader, which reports what it found.
    pub(super) is_carried: bool,
    pub(super) expected: Expected,
    pub(super) needs: Needs,
    /// Injects the fault, until the scene ends.
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

    /// Returns the fault, observed on another host.
    const fn seen_at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Returns the fault, with a router.
    const fn routed(mut self) -> Self {
        self.is_routed = true;
        self
    }

    /// Returns the fault, observed by the reader itself.
    const fn carried(mut self) -> Self {
        self.is_carried = true;
        self
    }

    /// Returns the fault, with a setting of the whole host.
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
