//! A path that this endpoint validates before using it, while the current one stays in use: a
//! client's migration (RFC 9000 §9.2), and the server's preferred address at both ends (§9.6).

use core::net::IpAddr;
use core::time::Duration;

use clearway_units::{Random, Timestamp};
use clearway_wire::ConnectionId;

use super::validation::{Answer, Validation, ValidationOutcome};
use super::{OffPathProbe, Path, Paths, ProbeFrame};
use crate::address::{Arrival, PathAddress, SocketIndex};
use crate::ecn::EcnCodepoint;

/// A path that may become the current one.
#[derive(Debug)]
pub(super) struct Candidate {
    path: Path,
    /// `None` once the path is validated.
    validation: Option<Validation>,
    /// Whether the candidate becomes the current path once validated. On a server, the peer decides
    /// that.
    is_wanted: bool,
}

/// The previous path, which this endpoint has left. Datagrams from the peer may still arrive on it,
/// and challenges on it are answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainingPath {
    address: PathAddress,
    until: Timestamp,
}

/// The outcome for a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CandidateNews {
    /// The candidate is validated and wanted, and can become the current path.
    Ready,
    /// The candidate could not be validated, and was dropped.
    Failed(PathAddress),
}

impl Paths {
    /// Starts validating the path at `address`. The current path stays in use until
    /// [`adopt_candidate`](Self::adopt_candidate).
    pub(crate) fn begin_candidate(
        &mut self,
        now: Timestamp,
        (address, local_ip): (PathAddress, Option<IpAddr>),
        local_id: ConnectionId,
        is_wanted: bool,
        probe_timeout: Duration,
        random: &mut Random,
    ) {
        let PathAddress { socket, remote } = address;
        let arrival = Arrival { remote, socket, local_ip, ecn: EcnCodepoint::NotEct };
        self.candidate = Some(Box::new(Candidate {
            path: Path::new(arrival, local_id, 0, true),
            validation: Some(Validation::new(now, probe_timeout, random)),
            is_wanted,
        }));
    }

    /// Returns the path that is being validated while the current one is in use.
    pub(crate) fn candidate(&self) -> Option<PathAddress> {
        self.candidate.as_ref().map(|candidate| candidate.path.address())
    }

    /// Handles a packet from the peer to `local_id` on the candidate; `is_wanted` states whether
    /// the peer uses the path like a current one. Returns whether the candidate can become the
    /// current path now.
    pub(crate) fn on_candidate_used(&mut self, local_id: ConnectionId, is_wanted: bool) -> bool {
        let Some(candidate) = &mut self.candidate else { return false };
        candidate.path.set_local_id(local_id);
        candidate.is_wanted |= is_wanted;
        candidate.is_wanted && candidate.validation.is_none()
    }

    /// Drops the candidate.
    pub(crate) fn drop_candidate(&mut self) {
        self.candidate = None;
    }

    /// Handles a PATH_RESPONSE. Returns `Ready` if it validates the candidate, and the candidate is
    /// wanted.
    pub(crate) fn on_candidate_response(
        &mut self,
        now: Timestamp,
        data: [u8; 8],
        probe_timeout: Duration,
        random: &mut Random,
    ) -> Option<CandidateNews> {
        let candidate = self.candidate.as_mut()?;
        match candidate.validation.as_ref()?.answered_by(data)? {
            Answer::Address => {
                candidate.validation = Some(Validation::new(now, probe_timeout, random));
                None
            }
            Answer::Path => {
                candidate.validation = None;
                candidate.is_wanted.then_some(CandidateNews::Ready)
            }
        }
    }

    /// Makes the candidate the current path. The old path is remembered for the duration `drain`.
    /// Returns whether only the port of one endpoint has changed (§9.4), as far as the addresses
    /// are known; `None` if there is no candidate.
    pub(crate) fn adopt_candidate(&mut self, now: Timestamp, drain: Duration) -> Option<bool> {
        let candidate = self.candidate.take()?;
        let old = self.current;
        self.draining = Some(Box::new(DrainingPath { address: old.address(), until: now + drain }));
        let generation = old.generation.saturating_add(1);
        self.current = Path { generation, ..candidate.path };
        self.previous = None;
        self.validation = None;
        let same_remote = old.remote.ip() == self.current.remote.ip();
        let same_local = old.local_ip.is_some() && old.local_ip == self.current.local_ip;
        Some(same_remote && same_local)
    }

    /// Returns whether the endpoint itself uses `address`, which is not the current path's: as its
    /// candidate, or as the path that it has just left.
    pub(crate) fn holds(&self, address: PathAddress) -> bool {
        self.candidate() == Some(address)
            || self.draining.as_ref().is_some_and(|draining| draining.address == address)
    }

    /// Returns whether a server may send from the address of `arrival`: the client sends to it, or
    /// established the connection there. A server that follows a client to its preferred address
    /// sends from there (§9.6.2), but packets from a server that keeps using its original address
    /// are accepted too, and do not count as a migration (§9.6).
    pub(crate) fn is_address_of_peer(&self, arrival: Arrival) -> bool {
        let used = self.candidate().is_some_and(|address| address.remote == arrival.remote);
        used || arrival.remote == self.current.remote || arrival.remote == self.first_remote
    }

    /// Returns the sockets of the paths in use: the current one, the candidate, and the previous
    /// one.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketIndex> + '_ {
        let draining = self.draining.as_ref().map(|draining| draining.address);
        let others = self.candidate().into_iter().chain(draining);
        core::iter::once(self.current.socket).chain(others.map(|address| address.socket))
    }

    /// Returns the PATH_CHALLENGE to send for the candidate, if any.
    pub(crate) fn next_candidate_probe(&mut self, now: Timestamp) -> Option<OffPathProbe> {
        let candidate = self.candidate.as_mut()?;
        let validation = candidate.validation.as_mut()?;
        let data = validation.pending_challenge()?;
        validation.on_challenge_sent(now);
        let path = candidate.path;
        Some(OffPathProbe {
            address: path.address(),
            local_ip: path.local_ip,
            frame: ProbeFrame::Challenge(data),
            credit: if self.validates_for_itself {
                u64::MAX
            } else {
                self.credit_elsewhere(path.remote)
            },
            peer_kept_id: false,
        })
    }

    /// Notes that the candidate's challenge was sent in a datagram of `size` bytes.
    pub(crate) fn on_candidate_sent(&mut self, size: usize) {
        if size >= super::MINIMUM_INITIAL_SIZE
            && let Some(candidate) = &mut self.candidate
            && let Some(validation) = &mut candidate.validation
        {
            validation.on_full_size();
        }
    }

    /// Returns when [`on_candidate_deadline`](Self::on_candidate_deadline) is due.
    pub(super) fn candidate_deadline(&self) -> Option<Timestamp> {
        let validation = self.candidate.as_ref().and_then(|it| it.validation.as_ref());
        let draining = self.draining.as_ref().map(|draining| draining.until);
        validation.map(Validation::deadline).into_iter().chain(draining).min()
    }

    /// Sends the challenge to the candidate again, or drops the candidate. Drops the previous path
    /// when it is due.
    pub(crate) fn on_candidate_deadline(
        &mut self,
        now: Timestamp,
        random: &mut Random,
    ) -> Option<CandidateNews> {
        let candidate = self.candidate.as_mut()?;
        let outcome = candidate.validation.as_mut()?.on_deadline(now, random);
        let address = candidate.path.address();
        match outcome {
            ValidationOutcome::Waiting => None,
            ValidationOutcome::Failed => {
                self.candidate = None;
                Some(CandidateNews::Failed(address))
            }
        }
    }

    /// Removes and returns the previous path once no packets on it can be in flight any more.
    pub(crate) fn take_drained(&mut self, now: Timestamp) -> Option<PathAddress> {
        let drained = self.draining.take_if(|draining| draining.until <= now)?;
        Some(drained.address)
    }
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;
