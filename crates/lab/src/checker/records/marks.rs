//! Tracks ECN marks (RFC 9000 §13.4): on this endpoint's packets as they entered the network, in
//! the peer's reports, and on packets delivered to this endpoint. Independently performs the
//! validation of §13.4.2 and appendix A.4.

use clearway_network::Ecn;
use clearway_transport::SpaceId;
use clearway_wire::frame::EcnCounts;

use super::{Ledger, Packet};

/// The number of packets in an ECN test (§13.4.2). If all of them were lost or marked, ECN may be
/// disabled on the path.
const TEST: u64 = 10;
/// The maximum number of marked packets in an ECN test. All packets of the datagram that contains
/// the tenth packet are marked, and a test may be repeated while the outcome of its first packets
/// is unknown.
const MOST_IN_TEST: u64 = 2 * TEST + 2;
/// The number of rounds with only CE reports that a sender must tolerate, and the maximum number
/// that it may tolerate.
const LEAST_MARKED_ROUNDS: u64 = 8;
const MOST_MARKED_ROUNDS: u64 = 24;
/// The maximum number of consecutive unmarked packets on a validated path.
const MOST_UNMARKED: u64 = 10;

/// The number of packets with each ECN codepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::checker) struct Counts {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

impl Counts {
    fn add(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// Returns the increase since the `earlier` counts; `None` if any earlier count was higher.
    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            ect0: self.ect0.checked_sub(earlier.ect0)?,
            ect1: self.ect1.checked_sub(earlier.ect1)?,
            ce: self.ce.checked_sub(earlier.ce)?,
        })
    }
}

impl From<EcnCounts> for Counts {
    fn from(counts: EcnCounts) -> Self {
        Self { ect0: counts.ect0.get(), ect1: counts.ect1.get(), ce: counts.ce.get() }
    }
}

/// A packet that was built, but whose datagram has not entered the network yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Built {
    pub(in crate::checker) space: SpaceId,
    pub(in crate::checker) number: u64,
    /// Whether the packet counts as in flight and is neither a path probe nor an MTU probe.
    pub(in crate::checker) counts: bool,
    /// Whether the packet is sent because a probe timeout expired.
    pub(in crate::checker) is_probe: bool,
}

/// The information about ECN marks that an ACK frame provides.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct Feedback {
    pub(in crate::checker) counts: Option<Counts>,
    /// Whether the ACK frame acknowledges a higher packet number than any before.
    pub(in crate::checker) raises_largest: bool,
    /// Whether the ACK frame newly acknowledges a packet of this path.
    pub(in crate::checker) is_of_path: bool,
    /// The number of newly acknowledged marked packets of this path, and the latest such packet.
    pub(in crate::checker) marked: u64,
    pub(in crate::checker) newest: Option<u64>,
    /// The number of newly acknowledged marked packets of this path whose loss would count as
    /// congestion.
    pub(in crate::checker) counting: u64,
    /// The number of newly acknowledged marked packets of other paths.
    pub(in crate::checker) elsewhere: u64,
    pub(in crate::checker) round: u64,
}

impl Feedback {
    /// Records that `packet`, which was sent on `path` or on another path, is newly acknowledged.
    pub(in crate::checker) fn note(&mut self, packet: &Packet, path: u32) {
        self.is_of_path |= packet.is_on(path);
        match packet.is_marked {
            false => {}
            true if packet.is_on(path) => {
                self.marked += 1;
                self.newest = self.newest.max(Some(packet.index));
                self.counting += u64::from(packet.counts(path));
            }
            true => self.elsewhere += 1,
        }
    }
}

/// The ECN marks in one packet number space.
#[derive(Clone, Copy, Debug, Default)]
struct SpaceMarks {
    reported: Counts,
    /// The number of packets sent with ECT(0).
    sent: u64,
    /// How far the peer's ECN counts exceed the number of packets sent with ECN marks, because an
    /// earlier path set marks.
    excess: u64,
    /// The ECN marks of received packets.
    arrived: Counts,
    /// Whether an ack-eliciting packet was received with CE and no ACK frame has been sent since
    /// then.
    has_unreported_ce: bool,
}

impl SpaceMarks {
    fn note_excess(&mut self) {
        let excess = (self.reported.ect0 + self.reported.ce).saturating_sub(self.sent);
        self.excess = self.excess.max(excess);
    }
}

/// The ECN state of the current path.
#[derive(Clone, Copy, Debug, Default)]
struct PathMarks {
    /// The latest marked packet whose acknowledgment validated the path.
    proof: Option<u64>,
    /// The number of packets marked since enough marked packets were lost to allow another test of
    /// the path; `None` if it must not be retested.
    retested: Option<u64>,
    /// The last marked packet.
    last_marked: Option<u64>,
    /// The number of marked packets lost since the path began, was validated, or was tested again.
    lost: u64,
    /// Until the path is validated: the number of packets received with CE, and of marked packets
    /// that have not arrived yet.
    ce_in_test: u64,
    unproven: u64,
    /// The round since which only CE has been reported, and the number of rounds since then.
    only_ce_since: Option<u64>,
    rounds_of_ce: u64,
    failure: Option<&'static str>,
    unmarked_in_a_row: u64,
    /// CE marks reported before the path was validated.
    pending: u64,
    /// CE marks reported since the last window reduction.
    unanswered: u64,
    /// The latest acknowledged packet that counted as in flight.
    newest_acknowledged: Option<u64>,
    /// The position in send order of the first packet that was sent after all reductions so far.
    answered_to: u64,
}

impl PathMarks {
    /// Returns whether none of the packets marked on this path has arrived, which means that
    /// validation has failed (§13.4.2.1).
    fn has_lost_all(&self) -> bool {
        self.proof.is_none() && self.lost >= TEST
    }

    fn may_fail(&self) -> bool {
        let is_tested = self.proof.is_none() || self.retested.is_some();
        self.failure.is_some()
            || is_tested && self.lost + self.ce_in_test >= TEST
            || self.rounds_of_ce >= LEAST_MARKED_ROUNDS
    }
}

/// The records of ECN marks at one endpoint.
#[derive(Debug, Default)]
pub(in crate::checker) struct MarkRecords {
    built: Vec<Built>,
    spaces: [SpaceMarks; 3],
    path: PathMarks,
    /// The ECN field of the datagram being processed, and of the packets that wait for their keys.
    arriving: Ecn,
    waiting: Vec<Ecn>,
}

impl MarkRecords {
    /// Records that a packet was built.
    pub(in crate::checker) fn on_built(&mut self, built: Built) {
        self.built.push(built);
    }

    /// Records that a datagram with `ecn` enters the network. All packets built so far are in this
    /// datagram or in other datagrams of the same batch, which have the same mark. `uses_ecn`
    /// states whether the endpoint is configured to use ECN.
    ///
    /// # Errors
    /// Returns a violation of L10 if the datagram should not have been marked but was, or the
    /// reverse.
    pub(in crate::checker) fn on_submitted(
        &mut self,
        ecn: Ecn,
        uses_ecn: bool,
        ledger: &mut Ledger,
    ) -> Result<(), String> {
        let mut verdict = Ok(());
        let mut built = core::mem::take(&mut self.built);
        for packet in built.drain(..) {
            let checked = match ecn {
                Ecn::NotEct => self.on_unmarked(packet, uses_ecn),
                _ => self.on_marked(packet, ecn, ledger),
            };
            verdict = verdict.and(checked);
        }
        self.built = built;
        verdict
    }

    fn on_unmarked(&mut self, packet: Built, uses_ecn: bool) -> Result<(), String> {
        let path = &mut self.path;
        let is_due =
            uses_ecn && path.proof.is_some() && path.retested.is_none() && !path.may_fail();
        if !is_due || packet.is_probe || !packet.counts {
            return Ok(());
        }
        path.unmarked_in_a_row += 1;
        if path.unmarked_in_a_row > MOST_UNMARKED {
            let count = path.unmarked_in_a_row;
            return Err(format!(
                "{count} packets in a row are not marked although the path was \
                validated for ECN"
            ));
        }
        Ok(())
    }

    fn on_marked(&mut self, packet: Built, ecn: Ecn, ledger: &mut Ledger) -> Result<(), String> {
        let index = ledger.mark(packet.space, packet.number);
        let (path, space) = (&mut self.path, &mut self.spaces[packet.space as usize]);
        space.sent += 1;
        path.unmarked_in_a_row = 0;
        path.last_marked = path.last_marked.max(index);
        if ecn != Ecn::Ect0 {
            return Err(format!("packet {} was sent with {ecn:?}", packet.number));
        }
        if let Some(failure) = path.failure {
            return Err(format!("packet {} is marked although {failure}", packet.number));
        }
        if path.has_lost_all() {
            return Err(format!(
                "packet {} is marked although {} marked packets were lost and none arrived",
                packet.number, path.lost
            ));
        }
        let count = match &mut path.retested {
            Some(count) => count,
            None if path.proof.is_none() => &mut path.unproven,
            None => return Ok(()),
        };
        *count += u64::from(packet.counts);
        if *count > MOST_IN_TEST {
            return Err(format!(
                "{count} packets were marked although none of them is known to \
                have arrived"
            ));
        }
        Ok(())
    }

    /// Processes the loss of a marked packet of this path whose loss counts as congestion.
    pub(in crate::checker) fn on_lost(&mut self, index: u64) {
        let path = &mut self.path;
        if path.proof >= Some(index) {
            return;
        }
        path.lost += 1;
        if path.proof.is_some() && path.retested.is_none() && path.lost >= TEST {
            path.retested = Some(0);
            path.lost = 0;
            path.proof = path.last_marked;
        }
    }

    /// Processes the acknowledgment of a packet in flight on this path.
    pub(in crate::checker) fn on_acknowledged(&mut self, index: u64) {
        let newest = &mut self.path.newest_acknowledged;
        *newest = (*newest).max(Some(index));
    }

    /// Processes a received ACK frame. Returns how many newly reported CE marks require a
    /// congestion response, and whether congestion control may respond to any.
    pub(in crate::checker) fn on_ack(
        &mut self,
        space: SpaceId,
        feedback: &Feedback,
    ) -> (u64, bool) {
        let unanswered = self.path.unanswered;
        let due = self.read_ack(space, feedback);
        (due, self.path.unanswered > unanswered)
    }

    fn read_ack(&mut self, space: SpaceId, feedback: &Feedback) -> u64 {
        let (path, space) = (&mut self.path, &mut self.spaces[space as usize]);
        path.unproven = path.unproven.saturating_sub(feedback.counting);
        if !feedback.raises_largest {
            return 0;
        }
        let before = *space;
        space.reported = feedback.counts.unwrap_or(before.reported);
        if feedback.elsewhere > 0 {
            space.note_excess();
            return 0;
        }
        if !feedback.is_of_path || path.failure.is_some() {
            return 0;
        }
        match validate(feedback, &before) {
            Ok(increase) => path.on_valid(increase, feedback),
            Err(failure) => {
                path.failure = Some(failure);
                (path.pending, path.unanswered) = (0, 0);
                0
            }
        }
    }

    /// Records that the endpoint reports having disabled ECN on this path.
    ///
    /// # Errors
    /// Returns a violation of L10 if there was no reason to disable it.
    pub(in crate::checker) fn on_given_up(&mut self) -> Result<(), String> {
        let path = &mut self.path;
        let may_fail = path.may_fail();
        path.failure.get_or_insert("the endpoint disabled ECN on this path");
        if may_fail {
            return Ok(());
        }
        Err(format!(
            "ECN was disabled although the peer reports the marks as they were sent; {} marked \
             packets were lost, and {} arrived with CE",
            path.lost, path.ce_in_test
        ))
    }

    /// Processes packets that were discarded with their keys, or will never be acknowledged for
    /// another reason.
    pub(in crate::checker) fn on_discarded(&mut self, ledger: &Ledger) {
        if self.path.proof.is_none() {
            self.path.unproven = ledger.marked_without_outcome();
        }
    }

    /// Restarts validation on a new path (§13.4.2). The counts continue.
    pub(in crate::checker) fn start_path(&mut self) {
        self.path = PathMarks::default();
        for space in &mut self.spaces {
            space.excess = 0;
            space.note_excess();
        }
    }

    /// Returns whether congestion control may respond to the reported CE marks, given that the last
    /// reduction was for packets before `boundary`.
    pub(in crate::checker) fn may_answer(&self, boundary: u64) -> bool {
        self.path.unanswered > 0 && self.path.newest_acknowledged >= Some(boundary)
    }

    /// Returns the first packet that was sent after all reductions so far.
    pub(in crate::checker) fn answered_to(&self) -> u64 {
        self.path.answered_to
    }

    /// Records a window reduction; the next packet is `next_index`.
    pub(in crate::checker) fn on_reduced(&mut self, next_index: u64) {
        self.path.unanswered = 0;
        self.path.answered_to = next_index;
    }

    /// Records that the marks have been reported to congestion control.
    pub(in crate::checker) fn on_answered(&mut self) {
        self.path.unanswered = 0;
    }

    /// Records that the network delivered a datagram to this endpoint.
    pub(in crate::checker) fn on_delivered(&mut self, ecn: Ecn) {
        self.arriving = ecn;
    }

    /// Records that a packet in the last delivered datagram waits for its keys.
    pub(in crate::checker) fn on_waiting(&mut self) {
        self.waiting.push(self.arriving);
    }

    /// Records that a packet was processed, either from the last delivered datagram or one that had
    /// waited for its keys. `mark` is the packet's mark according to the endpoint, and is used only
    /// to determine whether the packet had waited.
    pub(in crate::checker) fn on_received(
        &mut self,
        space: SpaceId,
        mark: Ecn,
        is_ack_eliciting: bool,
    ) {
        let mut ecn = self.arriving;
        if mark != ecn
            && let Some(position) = self.waiting.iter().position(|waiting| *waiting == mark)
        {
            ecn = self.waiting.swap_remove(position);
        }
        let space = &mut self.spaces[space as usize];
        space.arrived.add(ecn);
        space.has_unreported_ce |= is_ack_eliciting && ecn == Ecn::Ce;
    }

    /// Checks the ECN counts in an ACK frame that is being sent.
    ///
    /// # Errors
    /// Returns a violation of S26 if the counts do not match the received packets.
    pub(in crate::checker) fn on_ack_sent(
        &mut self,
        space: SpaceId,
        counts: Option<EcnCounts>,
    ) -> Result<(), String> {
        let marks = &mut self.spaces[space as usize];
        marks.has_unreported_ce = false;
        let reported = counts.map_or(Counts::default(), Counts::from);
        if reported == marks.arrived {
            return Ok(());
        }
        Err(format!(
            "an ACK frame in {space:?} reports {reported:?}; received packets had {:?}",
            marks.arrived
        ))
    }

    /// Returns whether a CE mark of an ack-eliciting packet in `space` has not been reported yet.
    pub(in crate::checker) fn has_unreported_ce(&self, space: SpaceId) -> bool {
        self.spaces[space as usize].has_unreported_ce
    }
}

impl PathMarks {
    fn on_valid(&mut self, increase: Counts, feedback: &Feedback) -> u64 {
        self.pending += increase.ce;
        self.unanswered += increase.ce;
        let is_only_ce = increase.ect0 == 0 && increase.ce > 0;
        if is_only_ce {
            let since = *self.only_ce_since.get_or_insert(feedback.round);
            self.rounds_of_ce = feedback.round - since;
            if self.rounds_of_ce >= MOST_MARKED_ROUNDS {
                self.failure = Some("only CE is reported");
            }
        } else if increase.ect0 > 0 {
            (self.only_ce_since, self.rounds_of_ce) = (None, 0);
        }
        if feedback.marked > 0 {
            if is_only_ce && self.proof.is_none() {
                self.ce_in_test += feedback.marked;
            } else {
                self.proof = self.proof.max(feedback.newest);
                (self.lost, self.ce_in_test) = (0, 0);
                (self.unproven, self.retested) = (0, None);
            }
        }
        if self.may_fail() {
            // Congestion control need not respond to CE marks that are set regardless of
            // congestion.
            self.pending = 0;
        }
        match self.proof.is_some() && self.retested.is_none() {
            true => core::mem::take(&mut self.pending),
            false => 0,
        }
    }
}

/// Returns the increase of the ECN counts, if the counts are plausible (§13.4.2.1).
fn validate(feedback: &Feedback, before: &SpaceMarks) -> Result<Counts, &'static str> {
    let Some(counts) = feedback.counts else {
        return match feedback.marked {
            0 => Ok(Counts::default()),
            _ => Err("marked packets were acknowledged without ECN counts"),
        };
    };
    let increase = counts.since(before.reported).ok_or("an ECN count decreased")?;
    if increase.ect0 + increase.ce < feedback.marked {
        return Err("fewer marks were reported than marked packets acknowledged");
    }
    if increase.ect1 > 0 {
        return Err("ECT(1) was reported, which was never sent");
    }
    if counts.ect0 + counts.ce > before.sent + before.excess {
        return Err("more marks were reported than were sent");
    }
    Ok(increase)
}
