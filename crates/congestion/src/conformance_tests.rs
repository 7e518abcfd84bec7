use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};

use clearway_units::Rate;

use super::*;
use crate::{
    Acknowledgement, Bbr, CongestionResponse, Cubic, Reno, RttSnapshot, SentPacket, Snapshot,
    SpuriousLoss, UnpackController,
};

#[test]
fn reno_keeps_the_contract() {
    check(|parameters| Box::new(Reno::new(parameters)));
}

#[test]
fn cubic_keeps_the_contract() {
    check(|parameters| Box::new(Cubic::new(parameters)));
}

#[test]
fn bbr_keeps_the_contract() {
    check(|parameters| Box::new(Bbr::new(parameters)));
}

/// A bug in a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// The window is less than two datagrams after persistent congestion.
    TooSmall,
    /// The controller responds to each acknowledgment that reports losses.
    RespondsAgain,
    /// The controller does not report its responses.
    SaysNothing,
    /// The window grows with each acknowledgment, whether or not it is used.
    GrowsUnused,
    /// After its first response, the controller treats each round trip as idle, and the window no
    /// longer grows.
    StaysSmall,
    /// The state is not a function of the events.
    IsRandom,
    /// The controller packs only part of its state.
    PacksLess,
}

/// Reno with a bug.
#[derive(Debug)]
struct Faulty {
    reno: Reno,
    fault: Fault,
    /// The window in bytes, if the bug determines it.
    window: Option<u64>,
}

impl Faulty {
    fn new(fault: Fault, parameters: &ControllerParameters) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let more = MADE.fetch_add(1, Ordering::Relaxed) % 7 * SIZE;
        let initial = parameters.initial_window();
        let window = match fault {
            Fault::GrowsUnused | Fault::RespondsAgain => Some(initial),
            Fault::IsRandom => Some(40 * SIZE + more),
            _ => None,
        };
        Self { reno: Reno::new(parameters), fault, window }
    }

    fn bounded(window: u64) -> u64 {
        window.clamp(2 * SIZE, MAXIMUM_WINDOW)
    }
}

impl Controller for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.reno.on_sent(packet, bytes_in_flight);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        let response = self.reno.on_acknowledgement(event);
        let acked: u64 = event.acked.iter().map(|packet| packet.bytes).sum();
        let is_congested = !event.lost.is_empty() || event.newly_ce_marked > 0;
        match (self.fault, self.window) {
            (Fault::RespondsAgain, Some(window)) if is_congested => {
                self.window = Some(Self::bounded(window / 2));
                return CongestionResponse::Reduced;
            }
            (Fault::RespondsAgain, Some(window)) if event.was_limited => {
                self.window = Some(Self::bounded(window + acked / 20));
            }
            (Fault::GrowsUnused, Some(_)) if response == CongestionResponse::Reduced => {
                self.window = Some(self.reno.window());
            }
            (Fault::GrowsUnused, Some(window)) => self.window = Some(Self::bounded(window + acked)),
            (Fault::TooSmall, _) => {
                self.window = event.persistent_congestion.then_some(SIZE);
            }
            (Fault::StaysSmall, _) if response == CongestionResponse::Reduced => {
                self.window = Some(2 * SIZE);
            }
            (Fault::SaysNothing, _) => return CongestionResponse::None,
            _ => {}
        }
        response
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.reno.on_spurious_loss(event);
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.reno.on_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.window.unwrap_or(self.reno.window())
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.reno.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        let window = self.window();
        Snapshot { window, congestion_events: 0, ..self.reno.snapshot() }
    }

    fn pack(&self, _: &mut Packer) -> Option<UnpackController> {
        let unpack: UnpackController = |_| Box::new(Faulty::new(Fault::PacksLess, &parameters(4)));
        (self.fault == Fault::PacksLess).then_some(unpack)
    }
}

#[test]
fn each_fault_is_found_by_the_test_of_its_rule() {
    let faults = [
        (Fault::TooSmall, "bounds: "),
        (Fault::RespondsAgain, "response: repeated"),
        (Fault::SaysNothing, "response: no reduction for new congestion"),
        (Fault::GrowsUnused, "growth: "),
        (Fault::StaysSmall, "liveness: "),
        (Fault::IsRandom, "repetition: "),
        (Fault::PacksLess, "packing: "),
    ];
    for (fault, rule) in faults {
        let test = || check(|parameters| Box::new(Faulty::new(fault, parameters)));
        let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("it breaks a rule");
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = message.expect("a message");
        assert!(message.starts_with(rule), "{fault:?}: {message}");
    }
}
