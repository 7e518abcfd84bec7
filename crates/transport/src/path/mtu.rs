//! The search for the largest datagram that a path carries (DPLPMTUD: RFC 8899, and RFC 9000 §14.3).
//!
//! All sizes are UDP payload sizes in bytes. The current size is the largest that is known to pass;
//! probes try larger ones, one at a time. Loss detection takes the place of the PROBE_TIMER of RFC
//! 8899 §5.1.1: a probe is ack-eliciting, so it is acknowledged or declared lost like any other
//! packet (RFC 9000 §14.3.1, §14.4).

use core::net::IpAddr;
use core::time::Duration;

use clearway_units::Timestamp;
use clearway_wire::VarInt;

use crate::token::MtuProbe;

/// BASE_PLPMTU and MIN_PLPMTU: the size that every QUIC path supports (RFC 9000 §14, §14.3).
pub(crate) const BASE: u16 = 1200;
/// MAX_PROBES (RFC 8899 §5.1.2): a size fails if this many consecutive probes of it are lost.
const MAX_PROBES: u8 = 3;
/// PMTU_RAISE_TIMER (RFC 8899 §5.1.1): the time after which larger sizes are probed again.
const RAISE_TIME: Duration = Duration::from_secs(600);
/// The smallest gain that is worth a probe, in bytes.
const LEAST_GAIN: u16 = 16;
/// The largest IPv4 packet, in bytes.
const LARGEST_PACKET: u16 = 65_535;
/// The combined size of the IPv4 and UDP headers, and of the IPv6 and UDP headers.
const HEADERS: (u16, u16) = (28, 48);
/// Ethernet's MTU: below it, tunnels can result in any path MTU; above it, few values are in use.
const ETHERNET: u32 = 1500;
/// The MTUs that are tried first, while no probe is lost: Ethernet, jumbo frames, and the Linux
/// loopback interface. They include the IP header.
const LADDER: [u32; 3] = [ETHERNET, 9000, 65_536];
/// The MTUs that are tried between a size that passes and one that does not: the IPv6 minimum,
/// common tunnel MTUs, PPPoE, and those of other links. They include the IP header.
const COMMON: [u32; 12] =
    [1280, 1400, 1420, 1440, 1480, 1492, ETHERNET, 2002, 4352, 9000, 16_384, 32_768];

/// The settings of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MtuConfig {
    /// The initial size, before any probe.
    pub(crate) initial: u16,
    /// The largest size to try.
    pub(crate) maximum: u16,
    /// Whether the search is enabled. If not, the size stays the initial one.
    pub(crate) is_enabled: bool,
}

/// The state of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// SEARCHING: this many probes of the next size were lost.
    Searching { lost: u8 },
    /// SEARCH_COMPLETE since this time. The search is also complete if there is no size to try; the
    /// state is entered at the next call to [`PathMtu::next_probe`].
    Complete { since: Timestamp },
}

/// The datagram size of the current path, and the search for a larger one.
#[derive(Debug)]
pub(crate) struct PathMtu {
    config: MtuConfig,
    /// The size of the IP and UDP headers.
    headers: u16,
    /// The peer's max_udp_payload_size (RFC 9000 §18.2).
    peer_maximum: u16,
    /// PLPMTU, the current size.
    size: u16,
    /// The smallest size that failed.
    failed: Option<u16>,
    /// The size in use before a black hole. It is tried first, because the losses may have had
    /// another cause.
    resumed: Option<u16>,
    /// A size that was found to be a black hole since the last search over the full range began.
    suspect: Option<u16>,
    phase: Phase,
    /// The probe that has been neither acknowledged nor declared lost yet.
    outstanding: Option<MtuProbe>,
    /// Whether datagrams of the current size were filled, in which case a larger size would be
    /// useful.
    is_wanted: bool,
    epoch: u32,
}

impl PathMtu {
    /// Starts the search on the path to `remote`.
    pub(crate) fn new(config: MtuConfig, remote: IpAddr) -> Self {
        let mut mtu = Self {
            config,
            headers: 0,
            peer_maximum: u16::MAX,
            size: 0,
            failed: None,
            resumed: None,
            suspect: None,
            phase: Phase::Searching { lost: 0 },
            outstanding: None,
            is_wanted: false,
            epoch: 0,
        };
        mtu.set_headers(remote);
        mtu.size = config.initial.min(mtu.limit());
        mtu
    }

    fn set_headers(&mut self, remote: IpAddr) {
        let (v4, v6) = HEADERS;
        self.headers = if remote.to_canonical().is_ipv4() { v4 } else { v6 };
    }

    /// Returns the largest datagram that may be sent, except for probes.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Returns whether the search is complete for now.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Complete { .. }) || self.candidate().is_none()
    }

    /// Returns the size of a datagram that probes a silent peer (RFC 9002 §6.2.4): the datagram
    /// also has to pass where a larger one does not.
    pub(crate) fn safe_size(&self) -> u16 {
        if self.config.is_enabled { self.size.min(BASE) } else { self.size }
    }

    /// Sets the largest datagram that the peer accepts, `max_udp_payload_size` bytes, which is 1200
    /// or more (RFC 9000 §18.2).
    pub(crate) fn set_peer_maximum(&mut self, max_udp_payload_size: VarInt) {
        self.peer_maximum = u16::try_from(max_udp_payload_size.get()).unwrap_or(u16::MAX);
        self.size = self.size.min(self.peer_maximum);
    }

    /// Restarts the search on a new path (RFC 9000 §9.4).
    pub(crate) fn restart(&mut self, remote: IpAddr) {
        self.begin_epoch();
        self.outstanding = None;
        self.set_headers(remote);
        self.size = self.config.initial.min(self.limit());
        self.failed = None;
        self.resumed = None;
        self.suspect = None;
    }

    fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.phase = Phase::Searching { lost: 0 };
    }

    /// Notes that a larger datagram would have been useful.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns the probe to send now, if any. Probes are sent one at a time, and only once a larger
    /// datagram would be useful.
    pub(crate) fn next_probe(&mut self, now: Timestamp) -> Option<MtuProbe> {
        if !self.config.is_enabled || !self.is_wanted {
            return None;
        }
        if let Phase::Complete { since } = self.phase {
            if now < since + RAISE_TIME {
                return None;
            }
            self.failed = None;
            self.suspect = None;
            self.phase = Phase::Searching { lost: 0 };
        }
        if self.outstanding.is_some() {
            return None;
        }
        let Some(size) = self.candidate() else {
            self.phase = Phase::Complete { since: now };
            self.is_wanted = false;
            return None;
        };
        Some(MtuProbe { size, epoch: self.epoch })
    }

    /// Notes that `probe` was built.
    pub(crate) fn on_probe_sent(&mut self, probe: MtuProbe) {
        self.outstanding = Some(probe);
    }

    /// Notes that the outcome of `probe` is known.
    fn settle(&mut self, probe: MtuProbe) {
        self.outstanding = self.outstanding.filter(|outstanding| *outstanding != probe);
    }

    /// Handles the acknowledgment of `probe`: datagrams of its size pass. It may have been declared
    /// lost before.
    pub(crate) fn on_probe_acknowledged(&mut self, probe: MtuProbe) {
        self.settle(probe);
        if probe.epoch == self.epoch && probe.size > self.size && probe.size <= self.limit() {
            self.size = probe.size;
            self.failed = self.failed.filter(|failed| *failed > probe.size);
            self.proceed();
        }
    }

    /// Handles the loss of `probe`.
    pub(crate) fn on_probe_lost(&mut self, probe: MtuProbe) {
        self.settle(probe);
        let Phase::Searching { lost } = self.phase else { return };
        if probe.epoch != self.epoch || Some(probe.size) != self.candidate() {
            return;
        }
        let lost = lost.saturating_add(1);
        if lost < MAX_PROBES {
            self.phase = Phase::Searching { lost };
        } else {
            self.fail(probe.size);
        }
    }

    /// Handles the refusal of `probe`: this host cannot send datagrams that large.
    pub(crate) fn on_probe_refused(&mut self, probe: MtuProbe) {
        self.settle(probe);
        if probe.epoch == self.epoch && probe.size > self.size {
            self.fail(probe.size);
        }
    }

    /// Handles the acknowledgment of a probe that is too large for the current congestion window.
    /// The size is probed again later.
    pub(crate) fn on_probe_postponed(&mut self, probe: MtuProbe) {
        self.settle(probe);
        if probe.epoch == self.epoch && Some(probe.size) == self.candidate() {
            self.phase = Phase::Searching { lost: 0 };
        }
    }

    /// Handles a black hole: the path no longer carries datagrams of the current size (RFC 8899
    /// §4.3). Falls back to the base size immediately, and searches again from the size that was in
    /// use, because the losses may have had another cause. If that size fails again, it and larger
    /// ones are not tried before [`RAISE_TIME`] has passed, so that the size does not oscillate
    /// (RFC 8899 §5.3.3). Returns whether the current size has changed.
    pub(crate) fn on_black_hole(&mut self) -> bool {
        if !self.config.is_enabled || self.size <= BASE {
            return false;
        }
        let old = core::mem::replace(&mut self.size, BASE);
        self.begin_epoch();
        if self.suspect.is_some_and(|suspect| old <= suspect) {
            self.failed = Some(old);
            self.resumed = None;
        } else {
            self.resumed = Some(old);
        }
        self.suspect = Some(old);
        self.is_wanted = true;
        true
    }

    fn fail(&mut self, size: u16) {
        self.failed = Some(self.failed.map_or(size, |failed| failed.min(size)));
        self.proceed();
    }

    /// Continues with the next size.
    fn proceed(&mut self) {
        self.resumed = self
            .resumed
            .filter(|size| *size > self.size && self.failed.is_none_or(|it| *size < it));
        self.phase = Phase::Searching { lost: 0 };
    }

    /// MAX_PLPMTU: the largest size to try.
    fn limit(&self) -> u16 {
        let (v4, _) = HEADERS;
        let family = if self.headers == v4 { LARGEST_PACKET.saturating_sub(v4) } else { u16::MAX };
        self.config.maximum.min(self.peer_maximum).min(family)
    }

    /// Returns the UDP payload size that fills an IP packet of `mtu` bytes.
    fn payload_of(&self, mtu: u32) -> u16 {
        u16::try_from(mtu.saturating_sub(u32::from(self.headers))).unwrap_or(u16::MAX)
    }

    /// Returns the size to try next; `None` if no larger one is worth a probe.
    fn candidate(&self) -> Option<u16> {
        let limit = self.limit();
        if self.size >= limit {
            return None;
        }
        if let Some(resumed) = self.resumed {
            return Some(resumed.min(limit));
        }
        match self.failed.filter(|failed| *failed <= limit) {
            None => {
                let larger = |mtu: &u32| self.payload_of(*mtu) > self.size;
                let next = LADDER.into_iter().find(larger).map(|mtu| self.payload_of(mtu));
                Some(next.unwrap_or(limit).min(limit))
            }
            Some(failed) => self.between(self.size, failed),
        }
    }

    /// Returns a size between one that passes and one that does not. Below Ethernet's MTU the range
    /// is halved until a larger size is not worth another probe; above it, common MTUs are tried in
    /// ascending order, and halving only pays while the range is large.
    fn between(&self, passes: u16, fails: u16) -> Option<u16> {
        let gap = fails.saturating_sub(passes);
        let middle = passes.saturating_add(gap / 2);
        let mut common = COMMON.into_iter().map(|mtu| self.payload_of(mtu));
        let ethernet = self.payload_of(ETHERNET);
        if passes < ethernet && ethernet < fails {
            return Some(ethernet);
        }
        if passes >= ethernet {
            let next = common.find(|size| *size > passes && *size < fails);
            return next.or((gap > passes / 2).then_some(middle));
        }
        if gap <= LEAST_GAIN {
            return None;
        }
        // Near the middle, a common size is the better choice.
        let common = common.filter(|size| size.abs_diff(middle) <= gap / 4);
        Some(common.min_by_key(|size| size.abs_diff(middle)).unwrap_or(middle))
    }
}

#[cfg(test)]
#[path = "mtu_tests.rs"]
mod tests;
