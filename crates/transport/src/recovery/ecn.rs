//! ECN validation of the current path, and the marks that the peer reports (RFC 9000 §13.4.2,
//! appendix A.4; RFC 9002 §7.1).

use core::time::Duration;

use clearway_congestion::SendIndex;
use clearway_units::Timestamp;
use clearway_units::packed::Pack;
use clearway_wire::frame::EcnCounts;

use crate::SpaceId;
use crate::ecn::{EcnCodepoint, EcnFailure, EcnState};
use crate::space_id::{SpaceState, SpaceStates};

/// A path is tested with this many marked packets (RFC 9000 §13.4.2). All packets of a datagram
/// share one codepoint, so the datagram that reaches this number may contain a few more.
const TEST_PACKETS: u64 = 10;

/// A test lasts at most this many probe timeouts (RFC 9000 §13.4.2).
const TEST_TIMEOUTS: u32 = 3;

/// If the peer reports nothing but ECN-CE marks for this many round trips, the path is considered
/// to set them regardless of congestion. By then, a sender that reduces its window to 0.85 in each
/// round trip has reduced it to less than a tenth, so a queue that it had filled is empty.
const MARKED_ROUNDS: u64 = 16;

/// The number of packets with each mark that the peer has received in a packet number space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
struct MarkCounts {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

impl MarkCounts {
    /// Returns the increase since `earlier`; `None` if a count decreased.
    fn checked_sub(self, earlier: Self) -> Option<Self> {
        Some(Self {
            ect0: self.ect0.checked_sub(earlier.ect0)?,
            ect1: self.ect1.checked_sub(earlier.ect1)?,
            ce: self.ce.checked_sub(earlier.ce)?,
        })
    }

    /// Returns the number of packets that were sent with ECT(0), if the counts are correct.
    fn ect0_or_ce(self) -> u64 {
        self.ect0.saturating_add(self.ce)
    }
}

impl From<EcnCounts> for MarkCounts {
    fn from(counts: EcnCounts) -> Self {
        Self { ect0: counts.ect0.get(), ect1: counts.ect1.get(), ce: counts.ce.get() }
    }
}

/// The marks of one packet number space, whose counts continue across paths.
#[derive(Clone, Copy, Debug, Default, Pack)]
struct SpaceMarks {
    /// The counts in the last ACK frame that raised the largest acknowledged packet number.
    reported: MarkCounts,
    /// The number of packets sent with ECT(0).
    sent: u64,
    /// The excess of the reported counts over the packets sent, caused by marks that an earlier
    /// path set.
    excess: u64,
    /// The first packet number sent on the path.
    first: u64,
}

impl SpaceState for SpaceMarks {
    const ENDED: Self =
        Self { reported: MarkCounts { ect0: 0, ect1: 0, ce: 0 }, sent: 0, excess: 0, first: 0 };

    fn ended() -> &'static Self {
        &Self::ENDED
    }
}

impl SpaceMarks {
    /// Records that the reported counts contain marks of an earlier path.
    fn note_excess(&mut self) {
        let excess = self.reported.ect0_or_ce().saturating_sub(self.sent);
        self.excess = self.excess.max(excess);
    }
}

/// The ECN-related facts of an ACK frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feedback {
    /// The frame's ECN counts, if it has any.
    pub(super) counts: Option<EcnCounts>,
    /// The frame's Largest Acknowledged packet number.
    pub(super) largest: u64,
    /// Whether `largest` is higher than in all previous ACK frames.
    pub(super) raises_largest: bool,
    /// The number of newly acknowledged packets that were marked and sent on this path.
    pub(super) marked: u64,
    /// The number of newly acknowledged packets that were marked and sent on earlier paths.
    pub(super) marked_elsewhere: u64,
    /// The newest of the acknowledged packets that were marked and sent on this path.
    pub(super) newest_marked: Option<SendIndex>,
    /// The current round trip.
    pub(super) round: u64,
}

/// The ECN state of the current path.
#[derive(Debug, Pack)]
pub(super) struct Ecn {
    state: EcnState,
    spaces: SpaceStates<SpaceMarks>,
    /// The number of packets marked in the current test, and its maximum.
    tested: u64,
    allowance: u64,
    test_began: Option<Timestamp>,
    /// The newest packet that was marked.
    last_marked: Option<SendIndex>,
    /// The newest marked packet whose acknowledgment showed that the path forwards marked packets.
    proof: Option<SendIndex>,
    /// The number of marked packets lost after `proof`.
    lost: u64,
    /// Packets reported as ECN-CE during a test.
    marked: u64,
    /// Whether marked packets have been lost for so long that the path is tested again.
    is_suspected: bool,
    /// The first of the consecutive round trips in which only ECN-CE was reported.
    only_marked_since: Option<u64>,
    /// ECN-CE marks not yet passed to the controller.
    pending_marks: u64,
    /// Total ECN-CE marks passed to controllers.
    total_marks: u64,
}

impl Ecn {
    pub(super) fn new(is_enabled: bool) -> Self {
        let state = if is_enabled { EcnState::Testing } else { EcnState::Disabled };
        Self {
            state,
            spaces: SpaceStates::new(|_| SpaceMarks::ENDED),
            tested: 0,
            allowance: TEST_PACKETS,
            test_began: None,
            last_marked: None,
            proof: None,
            lost: 0,
            marked: 0,
            is_suspected: false,
            only_marked_since: None,
            pending_marks: 0,
            total_marks: 0,
        }
    }

    pub(super) fn state(&self) -> EcnState {
        self.state
    }

    /// Returns the number of ECN-CE marks passed to controllers.
    pub(super) fn total_marks(&self) -> u64 {
        self.total_marks
    }

    /// Frees what only the handshake needs. Its packets will no longer be acknowledged, so their
    /// marks do not matter.
    pub(super) fn compact(&mut self) {
        self.spaces.give_up_handshake();
    }

    /// Switches to a new path, about which nothing is known. `next_number` returns the first packet
    /// number of each space that is sent on it.
    pub(super) fn start_path(&mut self, next_number: impl Fn(SpaceId) -> u64) {
        if self.state == EcnState::Disabled {
            return;
        }
        for space in SpaceId::ALL {
            let marks = self.spaces.get_mut(space);
            marks.excess = 0;
            marks.note_excess();
            marks.first = next_number(space);
        }
        let (spaces, total_marks) = (&mut self.spaces, self.total_marks);
        let spaces = core::mem::replace(spaces, SpaceStates::new(|_| SpaceMarks::ENDED));
        *self = Self { spaces, total_marks, ..Self::new(true) };
    }

    /// Returns the codepoint for the next datagram. A datagram that is sent because a probe timeout
    /// expired is never marked: if the path drops marked packets, probes get through.
    /// `probe_timeout` is the PTO without backoff.
    pub(super) fn codepoint(
        &mut self,
        now: Timestamp,
        is_probe: bool,
        probe_timeout: Duration,
    ) -> EcnCodepoint {
        if self.state == EcnState::Testing {
            let longest = probe_timeout.saturating_mul(TEST_TIMEOUTS);
            let is_over = self.test_began.is_some_and(|began| began + longest <= now);
            if self.tested >= self.allowance || is_over {
                self.state = EcnState::Unknown;
            }
        }
        match self.state {
            EcnState::Testing | EcnState::Capable if !is_probe => EcnCodepoint::Ect0,
            _ => EcnCodepoint::NotEct,
        }
    }

    /// Records that a marked packet was built.
    pub(super) fn on_staged(&mut self) {
        if self.state == EcnState::Testing {
            self.tested = self.tested.saturating_add(1);
        }
    }

    /// Records that a marked packet was sent at `now`. `is_current`: on the current path.
    pub(super) fn on_sent(
        &mut self,
        space: SpaceId,
        index: SendIndex,
        now: Timestamp,
        is_current: bool,
    ) {
        let marks = self.spaces.get_mut(space);
        marks.sent = marks.sent.saturating_add(1);
        if is_current {
            self.last_marked = Some(index);
            self.test_began.get_or_insert(now);
        }
    }

    /// Handles the loss of a marked packet of this path.
    pub(super) fn on_lost(&mut self, index: SendIndex) {
        if self.proof < Some(index) {
            self.lost = self.lost.saturating_add(1);
        }
    }

    /// Validates the counts of an ACK frame that newly acknowledges a packet (RFC 9000 §13.4.2.1).
    pub(super) fn on_ack(&mut self, space: SpaceId, feedback: &Feedback) {
        if self.state == EcnState::Disabled || !feedback.raises_largest {
            // Counts in reordered ACK frames are stale, and must not make validation fail.
            return;
        }
        let counts = feedback.counts.map(MarkCounts::from);
        let marks = self.spaces.get_mut(space);
        let before = *marks;
        marks.reported = counts.unwrap_or(before.reported);
        if feedback.marked_elsewhere > 0 {
            // It is unknown which of the marks belong to this path.
            marks.note_excess();
            return;
        }
        if feedback.largest < before.first || matches!(self.state, EcnState::Failed(_)) {
            return;
        }
        match validate(counts, &before, feedback.marked) {
            Ok(increase) => self.on_valid(&increase, feedback),
            Err(failure) => self.fail(failure),
        }
    }

    fn on_valid(&mut self, increase: &MarkCounts, feedback: &Feedback) {
        self.pending_marks = self.pending_marks.saturating_add(increase.ce);
        let is_marked_only = increase.ect0 == 0 && increase.ce > 0;
        if is_marked_only {
            let since = *self.only_marked_since.get_or_insert(feedback.round);
            if feedback.round.saturating_sub(since) >= MARKED_ROUNDS {
                return self.fail(EcnFailure::AllMarked);
            }
        } else if increase.ect0 > 0 {
            self.only_marked_since = None;
        }
        if feedback.marked == 0 {
            return;
        }
        let is_test = matches!(self.state, EcnState::Testing | EcnState::Unknown);
        if is_test && is_marked_only && !self.is_suspected {
            self.marked = self.marked.saturating_add(feedback.marked);
            return;
        }
        self.state = EcnState::Capable;
        self.is_suspected = false;
        self.proof = self.proof.max(feedback.newest_marked);
        self.lost = 0;
        self.marked = 0;
    }

    /// Decides whether the path drops marked packets, or marks them all, once an event's losses are
    /// known. `largest_acknowledged` is the newest acknowledged packet that was in flight on this
    /// path.
    pub(super) fn conclude(&mut self, largest_acknowledged: Option<SendIndex>) {
        let without_proof = self.lost.saturating_add(self.marked);
        match self.state {
            EcnState::Testing | EcnState::Unknown if without_proof >= TEST_PACKETS => {
                let is_marked = self.marked > 0;
                self.fail(if is_marked { EcnFailure::AllMarked } else { EcnFailure::AllLost });
            }
            // Whatever was sent last on the path may have been lost with everything else, so the
            // path is tested again.
            EcnState::Capable if self.lost >= TEST_PACKETS => {
                self.lost = 0;
                self.proof = self.last_marked;
                self.is_suspected = true;
                self.test_again(TEST_PACKETS);
            }
            // An unmarked packet has overtaken all marked ones, which were too few for a verdict.
            EcnState::Unknown if largest_acknowledged > self.last_marked => {
                self.test_again(TEST_PACKETS.saturating_sub(without_proof));
            }
            _ => {}
        }
    }

    fn test_again(&mut self, allowance: u64) {
        self.state = EcnState::Testing;
        self.tested = 0;
        self.allowance = allowance;
        self.test_began = None;
    }

    fn fail(&mut self, failure: EcnFailure) {
        self.state = EcnState::Failed(failure);
        self.pending_marks = 0;
    }

    /// Returns the ECN-CE marks for the controller. They are withheld until the path is validated
    /// (RFC 9002 §7.1): a path that marks all packets must not end slow start.
    pub(super) fn take_marks(&mut self) -> u64 {
        if self.state != EcnState::Capable {
            return 0;
        }
        let marks = core::mem::take(&mut self.pending_marks);
        self.total_marks = self.total_marks.saturating_add(marks);
        marks
    }
}

/// Returns the increase of the counts in an ACK frame that newly acknowledged `marked` marked
/// packets (RFC 9000 §13.4.2.1). `known` is the state before that frame.
fn validate(
    counts: Option<MarkCounts>,
    known: &SpaceMarks,
    marked: u64,
) -> Result<MarkCounts, EcnFailure> {
    let Some(counts) = counts else {
        return if marked == 0 {
            Ok(MarkCounts::default())
        } else {
            Err(EcnFailure::CountsMissing)
        };
    };
    let increase = counts.checked_sub(known.reported).ok_or(EcnFailure::CountsDecreased)?;
    if increase.ect0_or_ce() < marked {
        return Err(EcnFailure::CountsTooLow);
    }
    let most = known.sent.saturating_add(known.excess);
    if increase.ect1 > 0 || counts.ect0_or_ce() > most {
        return Err(EcnFailure::CountsTooHigh);
    }
    Ok(increase)
}

#[cfg(test)]
#[path = "ecn_tests.rs"]
mod tests;
