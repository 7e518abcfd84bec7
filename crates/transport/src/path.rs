//! Network paths: the anti-amplification limit, address validation and peer migration (RFC 9000 §8
//! and §9), and the datagram size (§14).

mod candidate;
mod mtu;
mod spin;
mod validation;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use clearway_units::{Random, Timestamp};
use clearway_wire::{ConnectionId, Frame, PacketNumber, frame};

use crate::address::{Arrival, PathAddress, SocketIndex};
use crate::contents::PacketContents;
use clearway_units::memory::{OnDemand, Unused};

pub(crate) use candidate::CandidateNews;
use candidate::{Candidate, DrainingPath};
pub use spin::SpinBit;

use spin::Spin;
use validation::{Answer, Validation, ValidationOutcome};

pub(crate) use mtu::{BASE as BASE_DATAGRAM_SIZE, MtuConfig, PathMtu};

/// The minimum size of datagrams that carry Initial packets or validate a path, in bytes (RFC 9000
/// §14.1, §8.2.1).
pub(crate) const MINIMUM_INITIAL_SIZE: usize = 1200;
/// The anti-amplification factor (RFC 9000 §8.1): before the peer's address is validated, at most
/// this multiple of the number of received bytes is sent.
const AMPLIFICATION_FACTOR: u64 = 3;
/// The maximum number of queued PATH_RESPONSE frames; additional challenges displace the oldest.
const MAX_RESPONSES: usize = 4;
/// The maximum number of remembered addresses besides the current path's; on overflow, the address
/// that has been silent the longest is forgotten.
const MAX_ELSEWHERE: usize = 4;
/// The number of most recently probed addresses to which a peer that has left the current path may
/// have moved: it may use one of them while it validates the other.
const MAX_DESTINATIONS: usize = 2;
/// The time after which, if nothing has arrived, the connection ID may be used for another address
/// that the peer probes. A peer that has moved retransmits after one, three and seven seconds, the
/// probe timeouts of an unknown path (RFC 9002 §6.2).
const PROBED_FOR: Duration = Duration::from_secs(10);

/// A peer address and its anti-amplification state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    remote: SocketAddr,
    socket: SocketIndex,
    local_ip: Option<IpAddr>,
    /// This endpoint's connection ID that the peer uses from this address.
    local_id: ConnectionId,
    generation: u32,
    /// The newest packet received from the peer on this path.
    newest: Option<PacketNumber>,
    is_validated: bool,
    received: u64,
    sent: u64,
    spin: Spin,
}

impl Path {
    fn new(arrival: Arrival, local_id: ConnectionId, generation: u32, is_validated: bool) -> Self {
        let Arrival { remote, socket, local_ip, ecn: _ } = arrival;
        Self {
            remote,
            socket,
            local_ip,
            local_id,
            generation,
            newest: None,
            is_validated,
            received: 0,
            sent: 0,
            spin: Spin::default(),
        }
    }

    /// Returns this endpoint's connection ID that the peer uses from this address.
    pub(crate) fn local_id(&self) -> ConnectionId {
        self.local_id
    }

    /// Sets the connection ID that the peer uses from this address.
    pub(crate) fn set_local_id(&mut self, local_id: ConnectionId) {
        self.local_id = local_id;
    }

    /// Notes that packet `number` was sent from this address.
    pub(crate) fn set_newest(&mut self, number: PacketNumber) {
        self.newest = self.newest.max(Some(number));
    }

    /// Returns the peer's address.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Returns the socket of this endpoint.
    pub(crate) fn socket(&self) -> SocketIndex {
        self.socket
    }

    /// Returns the socket and peer address that identify the path.
    pub(crate) fn address(&self) -> PathAddress {
        PathAddress { socket: self.socket, remote: self.remote }
    }

    /// Returns the local address that the peer sends to, if the socket reports it.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// Returns the number of the path, which grows with each migration.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns whether this is the path on which the connection was established.
    pub(crate) fn is_first(&self) -> bool {
        self.generation == 0
    }

    /// Returns whether the address is validated (§8).
    pub(crate) fn is_validated(&self) -> bool {
        self.is_validated
    }

    /// Marks the address as validated (§8).
    pub(crate) fn set_validated(&mut self) {
        self.is_validated = true;
    }

    /// Returns the number of bytes that the anti-amplification limit allows now.
    pub(crate) fn amplification_credit(&self) -> u64 {
        if self.is_validated {
            return u64::MAX;
        }
        self.received.saturating_mul(AMPLIFICATION_FACTOR).saturating_sub(self.sent)
    }

    /// Returns the latency spin bit of a 1-RTT packet sent to `destination` on this path (§17.4).
    pub(crate) fn spin_bit(
        &mut self,
        configured: SpinBit,
        destination: ConnectionId,
        random: &mut Random,
    ) -> bool {
        self.spin.sent(configured, destination, random)
    }

    /// Handles the spin bit of a 1-RTT packet received on this path (§17.4).
    pub(crate) fn on_spin_bit(
        &mut self,
        configured: SpinBit,
        number: PacketNumber,
        bit: bool,
        is_client: bool,
        random: &mut Random,
    ) {
        self.spin.received(configured, number, bit, is_client, random);
    }

    /// Counts a UDP payload of `bytes` built for this path.
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Subtracts a datagram of this size that this host failed to send.
    pub(crate) fn on_unsent(&mut self, bytes: u64) {
        self.sent = self.sent.saturating_sub(bytes);
    }
}

/// A PATH_RESPONSE that has to be sent.
#[derive(Clone, Copy, Debug)]
struct Response {
    arrival: Arrival,
    /// This endpoint's connection ID to which the challenge was sent.
    local_id: ConnectionId,
    data: [u8; 8],
}

/// An address other than the current path's from which datagrams recently arrived. The bytes
/// received from it limit the bytes sent to it, and it may become the current path.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    remote: SocketAddr,
    received: u64,
    sent: u64,
    /// The newest packet with which the peer probed this address, to which it may have moved since,
    /// and the packet's time of receipt.
    probed: Option<(PacketNumber, Timestamp)>,
}

/// A datagram for an address other than the current path's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffPathProbe {
    pub(crate) address: PathAddress,
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) frame: ProbeFrame,
    /// The maximum size of the datagram.
    pub(crate) credit: u64,
    /// Whether the peer uses the same connection ID at that address as on the current path.
    pub(crate) peer_kept_id: bool,
}

/// The frame of a datagram for a path other than the current one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProbeFrame {
    /// A PATH_CHALLENGE frame.
    Challenge([u8; 8]),
    /// A PATH_RESPONSE frame.
    Response([u8; 8]),
}

/// The result of a path validation timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathChange {
    /// Validation failed, and the connection returned to the previous path.
    Reverted,
    /// Validation failed, and there is no other path.
    Failed,
}

/// State of other paths, allocated on demand.
#[derive(Debug, Default)]
struct OffPathState {
    /// PATH_RESPONSE frames to send, on any path.
    responses: VecDeque<Response>,
    /// Bytes received from unknown addresses.
    elsewhere: VecDeque<Elsewhere>,
}

impl Unused for OffPathState {
    fn unused() -> &'static Self {
        static UNUSED: OffPathState =
            OffPathState { responses: VecDeque::new(), elsewhere: VecDeque::new() };
        &UNUSED
    }
}

/// The last validated path, to which the connection returns if the validation of the current one fails.
#[derive(Clone, Copy, Debug)]
struct Previous {
    path: Path,
    /// The data of the PATH_CHALLENGE to send on the previous path (§9.3.3).
    challenge: Option<[u8; 8]>,
}

/// The current path, the last validated path before it, and the frames to send on either.
#[derive(Debug)]
pub(crate) struct Paths {
    current: Path,
    /// The peer's address on the path on which the connection was established.
    first_remote: SocketAddr,
    /// The last validated path, while the current one is being validated.
    previous: Option<Box<Previous>>,
    validation: Option<Box<Validation>>,
    candidate: Option<Box<Candidate>>,
    draining: Option<Box<DrainingPath>>,
    /// Whether this endpoint chooses the candidate paths itself, as a client does. The number of
    /// such paths is limited, and the server's addresses are authenticated, so the
    /// anti-amplification limit is not needed.
    validates_for_itself: bool,
    off_path: OnDemand<OffPathState>,
    pads_current: bool,
    /// Whether the datagram that is being filled contains the PATH_CHALLENGE of the current path.
    holds_challenge: bool,
    /// The MTU of the current path.
    mtu: PathMtu,
}

impl Paths {
    /// Creates the paths of a new connection. On the first path, the peer sends to `local_id`.
    pub(crate) fn new(
        arrival: Arrival,
        local_id: ConnectionId,
        is_validated: bool,
        mtu: MtuConfig,
    ) -> Self {
        Self {
            current: Path::new(arrival, local_id, 0, is_validated),
            first_remote: arrival.remote,
            previous: None,
            validation: None,
            candidate: None,
            draining: None,
            validates_for_itself: false,
            off_path: OnDemand::default(),
            pads_current: false,
            holds_challenge: false,
            mtu: PathMtu::new(mtu, arrival.remote.ip()),
        }
    }

    /// Marks these paths as a client's: see `validates_for_itself`.
    pub(crate) fn of_client(mut self) -> Self {
        self.validates_for_itself = true;
        self
    }

    /// Returns the MTU state of the current path.
    pub(crate) fn mtu(&self) -> &PathMtu {
        &self.mtu
    }

    /// Returns the MTU state of the current path.
    pub(crate) fn mtu_mut(&mut self) -> &mut PathMtu {
        &mut self.mtu
    }

    /// Returns the current path.
    pub(crate) fn current(&self) -> &Path {
        &self.current
    }

    /// Returns the current path.
    pub(crate) fn current_mut(&mut self) -> &mut Path {
        &mut self.current
    }

    /// Counts a received UDP payload. Called once per payload, however many packets it contains
    /// (gallery row 81).
    pub(crate) fn on_datagram_received(&mut self, arrival: Arrival, bytes: usize) {
        let bytes = bytes as u64;
        if arrival.remote == self.current.remote {
            self.current.received = self.current.received.saturating_add(bytes);
            if arrival.socket == self.current.socket {
                self.current.local_ip = arrival.local_ip.or(self.current.local_ip);
            }
            return;
        }
        let known = self.take_elsewhere(arrival.remote);
        let mut elsewhere = known.unwrap_or(Elsewhere {
            remote: arrival.remote,
            received: 0,
            sent: 0,
            probed: None,
        });
        elsewhere.received = elsewhere.received.saturating_add(bytes);
        self.remember(elsewhere);
    }

    fn remember(&mut self, elsewhere: Elsewhere) {
        if self.off_path.elsewhere.len() >= MAX_ELSEWHERE {
            self.off_path.elsewhere.pop_front();
        }
        self.off_path.elsewhere.push_back(elsewhere);
    }

    fn take_elsewhere(&mut self, remote: SocketAddr) -> Option<Elsewhere> {
        let position =
            self.off_path.elsewhere.iter().position(|elsewhere| elsewhere.remote == remote)?;
        self.off_path.elsewhere.remove(position)
    }

    /// Counts a UDP payload of `bytes` built for `remote` on a path other than the current one.
    pub(crate) fn on_sent_off_path(&mut self, remote: SocketAddr, bytes: u64) {
        if remote == self.current.remote {
            self.current.on_sent(bytes);
        }
        if let Some(elsewhere) =
            self.off_path.elsewhere.iter_mut().find(|other| other.remote == remote)
        {
            elsewhere.sent = elsewhere.sent.saturating_add(bytes);
        }
    }

    /// Returns the number of bytes that may be sent to an address on a path other than the current
    /// one. The limit applies to the peer's address, regardless of the socket.
    fn credit_elsewhere(&self, remote: SocketAddr) -> u64 {
        if remote == self.current.remote {
            return self.current.amplification_credit();
        }
        if self.previous.as_ref().is_some_and(|previous| previous.path.remote == remote) {
            return u64::MAX;
        }
        self.off_path.elsewhere.iter().find(|elsewhere| elsewhere.remote == remote).map_or(
            0,
            |elsewhere| {
                elsewhere
                    .received
                    .saturating_mul(AMPLIFICATION_FACTOR)
                    .saturating_sub(elsewhere.sent)
            },
        )
    }

    /// Returns whether `address`, which is not the current path's, is still remembered.
    pub(crate) fn remembers(&self, address: PathAddress) -> bool {
        self.previous.as_ref().is_some_and(|previous| previous.path.address() == address)
            || self.off_path.elsewhere.iter().any(|elsewhere| elsewhere.remote == address.remote)
            || self.holds(address)
    }

    /// Handles a packet with a PATH_CHALLENGE from the peer's address `remote`.
    pub(crate) fn on_probed(&mut self, now: Timestamp, remote: SocketAddr, number: PacketNumber) {
        let known = self.off_path.elsewhere.iter_mut().find(|elsewhere| elsewhere.remote == remote);
        if let Some(elsewhere) = known
            && elsewhere.probed.is_none_or(|(newest, _)| newest < number)
        {
            elsewhere.probed = Some((number, now));
        }
    }

    /// Returns whether the peer may have moved to `address`, which is not the current path's,
    /// without this endpoint's knowledge, either because the peer has validated that path and its
    /// packets from it may be delayed or lost, or because this endpoint could not validate the
    /// path. The connection ID for that path must not be retired. A peer that has left the current
    /// path would not learn of the retirement and would not issue another ID, and nothing more
    /// could be sent to it.
    pub(crate) fn may_be_left_for(&self, address: PathAddress) -> bool {
        let number = |other: &Elsewhere| other.probed.map(|(number, _)| number);
        let known = self.off_path.elsewhere.iter().find(|other| other.remote == address.remote);
        let Some(probed) = known.and_then(number) else { return false };
        let later = self.off_path.elsewhere.iter().filter(|other| number(other) > Some(probed));
        later.count() < MAX_DESTINATIONS
    }

    /// Returns whether the peer has sent on the current path since it probed `address`, and the
    /// probe is so old that the peer has probably not moved to that address.
    pub(crate) fn has_stayed(&self, address: PathAddress, now: Timestamp) -> bool {
        let known = self.off_path.elsewhere.iter().find(|other| other.remote == address.remote);
        let Some((number, at)) = known.and_then(|other| other.probed) else { return true };
        self.current.newest > Some(number) && at + PROBED_FOR <= now
    }

    /// Handles a migration of the peer: a non-probing packet with the highest number so far arrived
    /// from another address, for the connection ID `local_id` (§9.3). Returns whether more than the
    /// port has changed (§9.4).
    pub(crate) fn on_peer_moved(
        &mut self,
        now: Timestamp,
        arrival: Arrival,
        local_id: ConnectionId,
        probe_timeout: Duration,
        random: &mut Random,
    ) -> bool {
        let old = self.current;
        let generation = old.generation.saturating_add(1);
        let previous = self.previous.as_ref();
        let returns = previous.is_some_and(|it| it.path.address() == arrival.address());
        self.current = Path::new(arrival, local_id, generation, returns);
        if let Some(elsewhere) = self.take_elsewhere(arrival.remote) {
            self.current.received = elsewhere.received;
            self.current.sent = elsewhere.sent;
        }
        if old.is_validated {
            self.previous = Some(Box::new(Previous { path: old, challenge: None }));
        }
        if returns {
            // The peer returned to an address that is already validated.
            self.previous = None;
            self.validation = None;
        } else {
            self.validation = Some(Box::new(Validation::new(now, probe_timeout, random)));
            if let Some(previous) = &mut self.previous {
                previous.challenge = Some(random.array());
            }
        }
        old.remote.ip() != arrival.remote.ip()
    }

    /// Switches to a new local address chosen by the operating system because the current one is
    /// gone: this is another path, to the same peer address.
    pub(crate) fn leave_local_ip(&mut self) {
        let generation = self.current.generation.saturating_add(1);
        let spin = Spin::default();
        self.current = Path { local_ip: None, generation, spin, ..self.current };
    }

    /// Handles a PATH_CHALLENGE. The response is sent on the path on which the challenge arrived
    /// (§8.2.2).
    pub(crate) fn on_challenge(&mut self, arrival: Arrival, local_id: ConnectionId, data: [u8; 8]) {
        if self.off_path.responses.len() >= MAX_RESPONSES {
            self.off_path.responses.pop_front();
        }
        self.off_path.responses.push_back(Response { arrival, local_id, data });
    }

    /// Handles a PATH_RESPONSE. Returns `true` if it validates the address of the current path,
    /// regardless of the path on which it arrived (§8.2.3). If the anti-amplification limit kept
    /// the challenge's datagram below 1200 bytes, another challenge follows to validate the path
    /// MTU (§8.2.1); until then the previous path is kept.
    pub(crate) fn on_response(
        &mut self,
        now: Timestamp,
        data: [u8; 8],
        probe_timeout: Duration,
        random: &mut Random,
    ) -> bool {
        let answered = self.validation.as_ref().and_then(|validation| validation.answered_by(data));
        let Some(answer) = answered else { return false };
        self.current.is_validated = true;
        match answer {
            Answer::Address => {
                self.validation = Some(Box::new(Validation::new(now, probe_timeout, random)));
            }
            Answer::Path => {
                self.validation = None;
                self.previous = None;
            }
        }
        true
    }

    /// Releases excess capacity for path validation frames.
    pub(crate) fn compact(&mut self) {
        if let Some(off_path) = self.off_path.used() {
            off_path.responses.shrink_to_fit();
            off_path.elsewhere.shrink_to_fit();
        }
        if self.off_path.responses.is_empty() && self.off_path.elsewhere.is_empty() {
            self.off_path.release();
        }
    }

    /// Returns whether no path is being validated.
    pub(crate) fn is_settled(&self) -> bool {
        self.validation.is_none()
    }

    /// Returns whether a PATH_CHALLENGE or PATH_RESPONSE has to be sent on the current path.
    pub(crate) fn has_frames_pending(&self) -> bool {
        self.validation.as_deref().is_some_and(Validation::is_challenge_pending)
            || self.has_responses()
                && self.off_path.responses.iter().any(|response| self.is_on_current(response))
    }

    /// Returns whether there are challenges to answer, on any path. Usually there are none, and
    /// this check avoids a search for each packet.
    fn has_responses(&self) -> bool {
        !self.off_path.responses.is_empty()
    }

    fn is_on_current(&self, response: &Response) -> bool {
        response.arrival.address() == self.current.address()
    }

    /// Writes the PATH_CHALLENGE and PATH_RESPONSE frames of the current path.
    pub(crate) fn write_frames(&mut self, now: Timestamp, contents: &mut PacketContents<'_, '_>) {
        self.pads_current = false;
        let address = self.current.address();
        let is_ours = |response: &Response| response.arrival.address() == address;
        while self.has_responses()
            && let Some(position) = self.off_path.responses.iter().position(is_ours)
        {
            let Some(response) = self.off_path.responses.get(position).copied() else { break };
            let frame = Frame::PathResponse(frame::PathResponse { data: response.data });
            if contents.push(&frame, None).is_err() {
                return;
            }
            self.off_path.responses.remove(position);
            self.pads_current = true;
        }
        if let Some(validation) = &mut self.validation
            && let Some(data) = validation.pending_challenge()
            && contents.push(&Frame::PathChallenge(frame::PathChallenge { data }), None).is_ok()
        {
            validation.on_challenge_sent(now);
            self.pads_current = true;
            self.holds_challenge = true;
        }
    }

    /// Counts a UDP payload of `bytes` built for the current path.
    pub(crate) fn on_datagram_built(&mut self, bytes: usize) {
        self.current.on_sent(bytes as u64);
        let holds_challenge = core::mem::take(&mut self.holds_challenge);
        if holds_challenge
            && bytes >= MINIMUM_INITIAL_SIZE
            && let Some(validation) = &mut self.validation
        {
            validation.on_full_size();
        }
    }

    /// Returns whether the datagram just filled has to be expanded to 1200 bytes (§8.2.1, §8.2.2).
    pub(crate) fn take_padding(&mut self) -> bool {
        core::mem::take(&mut self.pads_current)
    }

    /// Returns the datagram to send to an address other than the current path's, if there is one.
    pub(crate) fn next_off_path(&mut self) -> Option<OffPathProbe> {
        let current = self.current.address();
        let is_elsewhere = |response: &Response| response.arrival.address() != current;
        if self.has_responses()
            && let Some(position) = self.off_path.responses.iter().position(is_elsewhere)
        {
            let response = self.off_path.responses.remove(position)?;
            return Some(OffPathProbe {
                address: response.arrival.address(),
                local_ip: response.arrival.local_ip,
                frame: ProbeFrame::Response(response.data),
                credit: self.credit_elsewhere(response.arrival.remote),
                peer_kept_id: response.local_id == self.current.local_id,
            });
        }
        let Previous { path, challenge } = self.previous.as_deref_mut()?;
        Some(OffPathProbe {
            address: path.address(),
            local_ip: path.local_ip,
            frame: ProbeFrame::Challenge(challenge.take()?),
            credit: u64::MAX,
            peer_kept_id: false,
        })
    }

    /// Returns when [`on_deadline`](Self::on_deadline) is due.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let current = self.validation.as_deref().map(Validation::deadline);
        current.into_iter().chain(self.candidate_deadline()).min()
    }

    /// Sends the challenge again, or abandons the path.
    pub(crate) fn on_deadline(
        &mut self,
        now: Timestamp,
        random: &mut Random,
    ) -> Option<PathChange> {
        match self.validation.as_mut()?.on_deadline(now, random) {
            ValidationOutcome::Waiting => None,
            ValidationOutcome::Failed => {
                self.validation = None;
                let Some(previous) = self.previous.take() else { return Some(PathChange::Failed) };
                let probed = self.current.newest.map(|number| (number, now));
                let remote = self.current.remote;
                self.remember(Elsewhere { remote, received: 0, sent: 0, probed });
                let generation = self.current.generation.saturating_add(1);
                self.current = Path { generation, ..previous.path };
                Some(PathChange::Reverted)
            }
        }
    }
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
