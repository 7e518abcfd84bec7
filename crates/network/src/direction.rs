//! One direction of a link, which processes each datagram that enters it.

use core::time::Duration;

use clearway_units::{Random, Rate, Timestamp};

use crate::bottleneck::{Bottleneck, Exit};
use crate::counters::{add_bytes, increment};
use crate::disturbance::DatagramEffects;
use crate::flows::Flows;
use crate::host::HostState;
use crate::impairments::Impairments;
use crate::inside::{EnteringDatagram, Inside, Transit};
use crate::pipe::{Due, Pipe};
use crate::policer::PolicerState;
use crate::queue::QueuedDatagram;
use crate::travel::TravelTimes;
use crate::{Conditions, Datagram, Delivery, DropReason, Ecn, EcnTreatment, Step, Way};

/// Capacity of one direction, in bytes of payload plus a fixed cost per datagram. Datagrams beyond
/// this limit are dropped ([`DropReason::Pipe`]), regardless of the queue's own limit.
pub const PIPE_LIMIT: usize = 64 << 20;

/// The cost of a datagram in addition to its payload, in bytes.
const DATAGRAM_COST: usize = 256;

#[derive(Debug)]
pub(crate) struct Direction {
    way: Way,
    mark_above: Option<Duration>,
    overhead: u64,
    mtu: Option<usize>,
    mtu_steps: Vec<Step<Option<usize>>>,
    ecn: EcnTreatment,
    ecn_steps: Vec<Step<EcnTreatment>>,
    impairments: Impairments,
    policer: Option<PolicerState>,
    bottleneck: Option<Bottleneck>,
    travel: TravelTimes,
    pipe: Pipe,
    host: Option<HostState<usize>>,
    /// The next event after the bottleneck. Cached, because it is queried often.
    next: Next,
    pub(crate) flows: Flows,
    /// The number of datagrams that have entered.
    entered: u64,
    /// Payload bytes that were not dropped on entry.
    passed_bytes: u64,
    /// The total size and cost of the datagrams inside the direction, in bytes.
    held: usize,
    highest_delivered: Option<u64>,
}

/// The next event after the bottleneck. Events are ordered by these fields, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Next {
    pub(crate) at: Timestamp,
    /// Whether the event is a datagram leaving the pipe. Otherwise, the host has processed a
    /// datagram, and its thread reads from its buffer before anything else arrives.
    is_arrival: bool,
    number: u64,
}

impl Next {
    /// The placeholder for no event.
    const NEVER: Self = Self { at: Timestamp::FAR_FUTURE, is_arrival: true, number: u64::MAX };
}

impl Direction {
    /// Creates a direction in which some flows have their own delays. `random` supplies the values
    /// drawn per datagram, and `schedules` the random times of freezes.
    pub(crate) fn new(
        way: Way,
        mut conditions: Conditions,
        flows: Vec<(u32, Duration)>,
        (random, mut schedules): (Random, Random),
    ) -> Self {
        let mut mtu_steps = core::mem::take(&mut conditions.mtu_steps);
        mtu_steps.sort_by_key(|step| step.after);
        let mut ecn_steps = core::mem::take(&mut conditions.ecn_steps);
        ecn_steps.sort_by_key(|step| step.after);
        Self {
            way,
            mark_above: conditions.mark_above,
            overhead: conditions.overhead.into(),
            mtu: conditions.mtu,
            mtu_steps,
            ecn: conditions.ecn,
            ecn_steps,
            policer: conditions.policer.map(PolicerState::new),
            bottleneck: Bottleneck::new(&mut conditions),
            travel: TravelTimes::new(&mut conditions, flows, &mut schedules),
            host: conditions.host.map(HostState::new),
            impairments: Impairments::new(&mut conditions, random),
            pipe: Pipe::default(),
            next: Next::NEVER,
            flows: Flows::default(),
            entered: 0,
            passed_bytes: 0,
            held: 0,
            highest_delivered: None,
        }
    }

    /// Submits a datagram at `now`; the link's first datagram entered at `first`. All events up to
    /// `now` must have been processed.
    pub(crate) fn enter(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        mut entry: EnteringDatagram,
        effects: DatagramEffects,
        inside: &mut Inside,
    ) -> Result<(), DropReason> {
        let length = entry.datagram.payload.len();
        let place = self.count_received(&entry.datagram, inside);
        let mut draws = self.impairments.draw((now, first), self.entered, length);
        draws.disturb(effects);
        let ecn = step_at(self.ecn, &self.ecn_steps, first, now).apply(entry.datagram.ecn);
        let refusal = match ecn {
            Some(_) => self.refusal((now, first), length),
            None => Some(DropReason::Ecn),
        };
        if let Some(reason) = refusal.or(draws.lost) {
            inside.count_drop(self.way, reason, &mut self.flows, place);
            inside.recycle(core::mem::take(&mut entry.datagram.payload));
            if refusal.is_none() && self.bottleneck.is_some() {
                let transit = Transit::new(now, entry, place, draws.travel);
                self.admit((now, first), length, inside, Transit { is_lost: true, ..transit });
            }
            return Err(reason);
        }
        let counters = inside.counters.of_mut(self.way);
        if let Some(ecn) = ecn.filter(|ecn| *ecn != entry.datagram.ecn) {
            increment(match ecn {
                Ecn::NotEct => &mut counters.bleached,
                _ => &mut counters.remarked,
            });
            entry.datagram.ecn = ecn;
        }
        let spared = self.impairments.spares(&entry.datagram.payload);
        if let Some((position, flip)) = draws.corruption.filter(|_| !spared)
            && let Some(byte) = entry.datagram.payload.get_mut(position)
        {
            *byte ^= flip;
            increment(&mut counters.corrupted);
        }
        increment(&mut counters.in_pipe);
        add_bytes(&mut self.passed_bytes, length);
        let transit = Transit::new(now, entry, place, draws.travel);
        self.admit((now, first), length, inside, transit);
        Ok(())
    }

    /// Counts a datagram that enters; returns the index of its flow's counters.
    fn count_received(&mut self, datagram: &Datagram, inside: &mut Inside) -> usize {
        let length = datagram.payload.len();
        self.entered = self.entered.saturating_add(1);
        let counters = inside.counters.of_mut(self.way);
        increment(&mut counters.received);
        add_bytes(&mut counters.received_bytes, length);
        let place = self.flows.place(datagram.flow);
        if let Some(counters) = self.flows.at(place) {
            increment(&mut counters.received);
            add_bytes(&mut counters.received_bytes, length);
        }
        place
    }

    /// Returns the reason why a datagram with `length` bytes of payload cannot enter at `now`, if
    /// there is one; the link's first datagram entered at `first`.
    fn refusal(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        length: usize,
    ) -> Option<DropReason> {
        let bytes = self.bytes(length);
        if step_at(self.mtu, &self.mtu_steps, first, now).is_some_and(|mtu| length > mtu) {
            Some(DropReason::TooLarge)
        } else if !self.has_room(length) {
            Some(DropReason::Pipe)
        } else if self.policer.as_mut().is_some_and(|policer| !policer.passes(now, bytes)) {
            Some(DropReason::Policer)
        } else if self.bottleneck.as_ref().is_some_and(|bottleneck| !bottleneck.has_room(bytes)) {
            Some(DropReason::Queue)
        } else {
            None
        }
    }

    /// Passes a datagram whose payload had `length` bytes to the bottleneck, or past it if there is
    /// none.
    fn admit(
        &mut self,
        (now, first): (Timestamp, Timestamp),
        length: usize,
        inside: &mut Inside,
        transit: Transit,
    ) {
        self.hold(transit.datagram.payload.len());
        let bytes = self.bytes(length);
        let (number, ecn, flow) = (transit.number, transit.datagram.ecn, transit.datagram.flow);
        let slot = inside.transits.insert(transit);
        match &mut self.bottleneck {
            Some(bottleneck) => {
                let waiting = QueuedDatagram { slot, number, bytes, entered: now, ecn };
                bottleneck.admit((now, first), waiting, (flow, length));
                self.settle(now, first, inside);
            }
            None => self.depart((now, first), (slot, Duration::ZERO, false), inside),
        }
    }

    /// Processes the bottleneck's events up to `now`.
    pub(crate) fn settle(&mut self, now: Timestamp, first: Timestamp, inside: &mut Inside) {
        while let Some(bottleneck) = &mut self.bottleneck
            && let Some(exit) = bottleneck.exit(now, first)
        {
            match exit {
                Exit::Passed { slot, at, waited, is_marked } => {
                    self.depart((at, first), (slot, waited, is_marked), inside);
                }
                Exit::Dropped { slot, at, reason } => self.lose(slot, at, reason, inside),
            }
        }
    }

    /// Processes a datagram that leaves the bottleneck at `at`, after a queueing delay of `waited`.
    fn depart(
        &mut self,
        (at, first): (Timestamp, Timestamp),
        (slot, waited, is_marked): (usize, Duration, bool),
        inside: &mut Inside,
    ) {
        let Some(transit) = inside.transits.get_mut(slot) else { return };
        if transit.is_lost {
            inside.transits.try_remove(slot);
            self.release(0);
            return;
        }
        transit.queued = waited;
        let is_marked = is_marked || self.mark_above.is_some_and(|limit| waited > limit);
        if is_marked && transit.datagram.ecn.is_markable() {
            transit.datagram.ecn = Ecn::Ce;
            transit.is_marked = true;
            increment(&mut inside.counters.of_mut(self.way).marked);
        }
        if let Some(counters) = self.flows.at(transit.place) {
            counters.on_queued(waited);
        }
        let flow = transit.datagram.flow;
        let at = self.travel.time_out((at, first), flow, transit.travel);
        let (number, is_duplicated) = (transit.number, transit.travel.is_duplicated);
        self.pipe.push(Due { at, number, is_copy: false, slot });
        self.next = self.next.min(Next { at, is_arrival: true, number });
        if is_duplicated {
            self.duplicate(at, slot, inside);
        }
    }

    /// Makes a copy of the datagram in `slot`, if there is room. The copy is delivered with the
    /// original.
    fn duplicate(&mut self, at: Timestamp, slot: usize, inside: &mut Inside) {
        let mut payload = inside.buffer();
        let Some(transit) = inside.transits.get(slot) else { return };
        let length = transit.datagram.payload.len();
        if !self.has_room(length) {
            return;
        }
        payload.extend_from_slice(&transit.datagram.payload);
        let datagram = Datagram { payload, ..transit.datagram };
        let number = transit.number;
        let copy = Transit { datagram, is_copy: true, ..*transit };
        let slot = inside.transits.insert(copy);
        self.hold(length);
        let counters = inside.counters.of_mut(self.way);
        increment(&mut counters.duplicated);
        increment(&mut counters.in_pipe);
        self.pipe.push(Due { at, number, is_copy: true, slot });
    }

    /// Returns the next event after the bottleneck.
    pub(crate) const fn next(&self) -> Next {
        self.next
    }

    /// Returns a time before which no datagram is delivered.
    pub(crate) fn deadline(&self) -> Timestamp {
        let leaves = self.bottleneck.as_ref().and_then(Bottleneck::next);
        leaves.map_or(self.next.at, |leaves| self.next.at.min(self.travel.earliest_out(leaves)))
    }

    /// Processes the event that [`next`](Self::next) returned. `binding` is the NAT mapping at that
    /// time.
    pub(crate) fn step(&mut self, binding: u64, inside: &mut Inside) -> Option<Delivery> {
        let delivery = self.take_step(binding, inside);
        let arrival = self.pipe.next().map_or(Next::NEVER, |due| Next {
            at: due.at,
            is_arrival: true,
            number: due.number,
        });
        self.next = match self.host.as_ref().and_then(HostState::next) {
            Some(at) => arrival.min(Next { at, is_arrival: false, number: 0 }),
            None => arrival,
        };
        delivery
    }

    fn take_step(&mut self, binding: u64, inside: &mut Inside) -> Option<Delivery> {
        let Next { at, is_arrival, .. } = self.next;
        if !is_arrival {
            let slot = self.host.as_mut()?.complete()?;
            return self.deliver(slot, at, inside);
        }
        let slot = self.pipe.pop()?.slot;
        let transit = inside.transits.get(slot)?;
        let bytes = self.bytes(transit.datagram.payload.len());
        if self.way == Way::ToClient && transit.binding != binding {
            self.lose(slot, at, DropReason::OldBinding, inside);
            return None;
        }
        let Some(host) = &mut self.host else {
            return self.deliver(slot, at, inside);
        };
        if let Err(slot) = host.arrive(at, slot, bytes) {
            self.lose(slot, at, DropReason::SocketBuffer, inside);
        }
        None
    }

    fn deliver(&mut self, slot: usize, at: Timestamp, inside: &mut Inside) -> Option<Delivery> {
        let one = inside.transits.try_remove(slot)?;
        let length = one.datagram.payload.len();
        self.release(length);
        let counters = inside.counters.of_mut(self.way);
        counters.in_pipe = counters.in_pipe.saturating_sub(1);
        if self.highest_delivered.is_some_and(|highest| one.number < highest) {
            increment(&mut counters.reordered);
        }
        self.highest_delivered = self.highest_delivered.max(Some(one.number));
        increment(&mut counters.delivered);
        add_bytes(&mut counters.delivered_bytes, length);
        if let Some(counters) = self.flows.at(one.place) {
            increment(&mut counters.delivered);
            add_bytes(&mut counters.delivered_bytes, length);
        }
        Some(Delivery {
            way: self.way,
            datagram: one.datagram,
            at,
            binding: one.binding,
            number: one.number,
            entered: one.entered,
            queued: one.queued,
            is_marked: one.is_marked,
            is_copy: one.is_copy,
        })
    }

    /// Drops a datagram that was inside the link.
    fn lose(&mut self, slot: usize, at: Timestamp, reason: DropReason, inside: &mut Inside) {
        let Some(one) = inside.transits.try_remove(slot) else { return };
        self.release(one.datagram.payload.len());
        if one.is_lost {
            return;
        }
        let counters = inside.counters.of_mut(self.way);
        counters.in_pipe = counters.in_pipe.saturating_sub(1);
        inside.count_drop(self.way, reason, &mut self.flows, one.place);
        inside.note_drop(self.way, at, reason, &one);
        inside.recycle(one.datagram.payload);
    }

    /// Returns the size in bytes of a datagram with `length` bytes of payload, including the
    /// overhead of lower layers.
    fn bytes(&self, length: usize) -> u64 {
        u64::try_from(length).unwrap_or(u64::MAX).saturating_add(self.overhead)
    }

    fn has_room(&self, length: usize) -> bool {
        let cost = length.saturating_add(DATAGRAM_COST);
        self.held.saturating_add(cost) <= PIPE_LIMIT
    }

    fn hold(&mut self, length: usize) {
        self.held = self.held.saturating_add(length).saturating_add(DATAGRAM_COST);
    }

    fn release(&mut self, length: usize) {
        self.held = self.held.saturating_sub(length).saturating_sub(DATAGRAM_COST);
    }

    /// Returns how many datagrams have entered so far.
    pub(crate) const fn entered(&self) -> u64 {
        self.entered
    }

    /// Returns the payload bytes that have passed so far.
    pub(crate) const fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// Notifies the windows of this direction of the bytes that have passed in the direction `way`.
    pub(crate) fn on_passed(&mut self, now: Timestamp, way: Way, total: u64) {
        self.impairments.on_passed(now, way, total);
    }

    /// Returns the number of datagrams that wait for the bottleneck, and their total size in bytes.
    pub(crate) fn waiting(&self) -> (usize, u64) {
        let queue = self.bottleneck.as_ref().map(Bottleneck::queue);
        queue.map_or((0, 0), |queue| (queue.packets(), queue.bytes()))
    }

    pub(crate) fn rate(&self, first: Timestamp, at: Timestamp) -> Option<Rate> {
        self.bottleneck.as_ref()?.rate(first, at)
    }

    pub(crate) fn base_delay(&self, first: Timestamp, flow: u32, at: Timestamp) -> Duration {
        self.travel.base_delay(first, flow, at)
    }
}

/// Returns the value at the time `at`: the value of the last step that has started, or `value` if
/// none has.
fn step_at<T: Copy>(value: T, steps: &[Step<T>], first: Timestamp, at: Timestamp) -> T {
    let past = steps.partition_point(|step| first + step.after <= at);
    let step = past.checked_sub(1).and_then(|last| steps.get(last));
    step.map_or(value, |step| step.value)
}

#[cfg(test)]
#[path = "direction_tests.rs"]
mod tests;
