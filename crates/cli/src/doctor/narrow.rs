//! What of a verdict concerns one process or port.

use clearway_doctor::{
    Cause, Certainty, Finding, Outcome, Queue, Snapshot, Stage, Verdict, diagnose,
};

/// What the user asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Narrow {
    /// Only sockets of this process.
    pub(super) process: Option<u32>,
    /// Only sockets at this port.
    pub(super) port: Option<u16>,
}

impl Narrow {
    /// What these snapshots mean for it.
    pub(super) fn diagnose(self, snapshots: &[Snapshot]) -> Verdict {
        let sockets = snapshots.last().and_then(|snapshot| snapshot.sockets.seen());
        let mut sockets = sockets.into_iter().flat_map(|sockets| sockets.values());
        let is_bound =
            self.port.is_some() && sockets.any(|socket| port(&socket.local) == self.port);
        self.verdict(diagnose(snapshots), is_bound)
    }

    /// The verdict without what is lost at other sockets. Losses before the sockets may be those of anybody, and stay; only
    /// a port without a socket is not this one if it `is_bound`.
    fn verdict(self, mut verdict: Verdict, is_bound: bool) -> Verdict {
        if self == Self::default() {
            return verdict;
        }
        let (first, later) =
            (std::mem::take(&mut verdict.first), std::mem::take(&mut verdict.later));
        let (kept, others): (Vec<_>, Vec<_>) =
            first.into_iter().chain(later).partition(|finding| self.concerns(finding, is_bound));
        if let Some(other) = others.first() {
            let text = format!("not what was asked about: {} lost, {}", other.lost, other.cause);
            verdict.oddities.push(text);
        }
        let first_stage = kept.iter().map(|finding| finding.stage).min();
        (verdict.first, verdict.later) =
            kept.into_iter().partition(|finding| Some(finding.stage) == first_stage);
        if verdict.outcome == Outcome::Loss && verdict.first.is_empty() {
            verdict.outcome = match verdict.unseen.is_empty() {
                true => Outcome::NoLoss,
                false => Outcome::Unknown,
            };
        }
        verdict
    }

    fn concerns(self, finding: &Finding, is_bound: bool) -> bool {
        match queue(&finding.cause) {
            Some(queue) => {
                let process = queue.process.as_ref().map(|(process, _)| *process);
                // The reader of a socket is not always known; then it may be this process.
                let is_of_process =
                    self.process.is_none() || process.is_none() || process == self.process;
                is_of_process && (self.port.is_none() || port(&queue.local) == self.port)
            }
            // A port without a socket is no socket of this process.
            None => finding.cause != Cause::NoSocket || (self.process.is_none() && !is_bound),
        }
    }
}

/// The port of a socket's address.
fn port(local: &str) -> Option<u16> {
    local.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// The socket that a cause is about.
fn queue(cause: &Cause) -> Option<&Queue> {
    match cause {
        Cause::Rate(queue)
        | Cause::Burst(queue)
        | Cause::Starved(queue, _)
        | Cause::Overflow(queue)
        | Cause::HotSocket(queue) => Some(queue),
        _ => None,
    }
}

/// A cause's name in metrics and in a view.
pub(super) fn name(cause: &Cause) -> &'static str {
    match cause {
        Cause::DeviceReceive => "device_receive",
        Cause::Xdp => "xdp",
        Cause::XdpSocket => "xdp_socket",
        Cause::BacklogFull => "backlog_full",
        Cause::IpHeader => "ip_header",
        Cause::ReversePathFilter => "reverse_path_filter",
        Cause::Reassembly => "reassembly",
        Cause::Firewall => "firewall",
        Cause::ConntrackFull => "conntrack_full",
        Cause::NoSocket => "no_socket",
        Cause::BadChecksum => "bad_checksum",
        Cause::BadLength => "bad_length",
        Cause::SocketFilter => "socket_filter",
        Cause::UdpMemory => "udp_memory",
        Cause::Rate(_) => "rate",
        Cause::Burst(_) => "burst",
        Cause::Starved(..) => "starved",
        Cause::Overflow(_) => "overflow",
        Cause::HotSocket(_) => "hot_socket",
        Cause::TruncatedReads => "truncated_reads",
        Cause::ApplicationQueue => "application_queue",
        Cause::SendBuffer => "send_buffer",
        Cause::PathMtu => "path_mtu",
        Cause::NoRoute => "no_route",
        Cause::QdiscFull => "qdisc_full",
        Cause::DeviceSend => "device_send",
        _ => "other",
    }
}

/// The stages and causes of a verdict, if it is of loss and all causes of its first stage are certain.
pub(super) fn certain_causes(verdict: &Verdict) -> Option<Vec<(Stage, &'static str)>> {
    let is_certain = verdict.outcome == Outcome::Loss
        && verdict.first.iter().all(|finding| finding.certainty == Certainty::Certain);
    is_certain.then(|| causes(verdict))
}

/// The stages and causes of a verdict.
pub(super) fn causes(verdict: &Verdict) -> Vec<(Stage, &'static str)> {
    let findings = verdict.first.iter().chain(&verdict.later);
    findings.map(|finding| (finding.stage, name(&finding.cause))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A verdict of a slow reader at a port.
    pub(crate) fn slow(process: u32, port: u16) -> Verdict {
        let queue = Queue {
            local: format!("127.0.0.1:{port}"),
            process: Some((process, "reader".to_owned())),
            arrival_rate: Some(30_000.0),
            drain_rate: Some(20_000.0),
            are_rates_exact: true,
            charge: Some(2304.0),
            buffer: Some(212_992),
            buffer_seconds: Some(0.009),
            sufficient_buffer: None,
        };
        let finding = Finding {
            stage: Stage::Socket,
            cause: Cause::Rate(queue),
            consequence_of: None,
            lost: 10_000,
            per_second: 1000.0,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
            actions: Vec::new(),
        };
        Verdict {
            outcome: Outcome::Loss,
            seconds: 10.0,
            first: vec![finding],
            later: Vec::new(),
            unseen: Vec::new(),
            oddities: Vec::new(),
        }
    }

    #[test]
    fn losses_of_others_are_no_loss() {
        let asked = |process, port| Narrow { process, port }.verdict(slow(7, 4433), true);
        for same in [asked(None, None), asked(Some(7), None), asked(None, Some(4433))] {
            assert_eq!(same, slow(7, 4433));
            assert_eq!(certain_causes(&same), Some(vec![(Stage::Socket, "rate")]));
        }
        for other in [asked(Some(8), None), asked(None, Some(443)), asked(Some(7), Some(443))] {
            assert_eq!(other.outcome, Outcome::NoLoss);
            assert!(other.first.is_empty() && other.oddities.len() == 1);
            assert_eq!(certain_causes(&other), None);
        }
    }

    #[test]
    fn what_could_not_be_seen_stays_unknown_and_a_later_stage_becomes_the_first() {
        let mut verdict = slow(7, 4433);
        let why = "no right".to_owned();
        verdict.unseen.push(clearway_doctor::Unseen { stage: Stage::Xdp, why, needed: None });
        let narrow = Narrow { process: Some(8), port: None };
        assert_eq!(narrow.verdict(verdict.clone(), false).outcome, Outcome::Unknown);
        let sent = Finding {
            stage: Stage::SendQdisc,
            cause: Cause::QdiscFull,
            ..verdict.first[0].clone()
        };
        verdict.later.push(sent);
        let verdict = narrow.verdict(verdict, false);
        assert_eq!((verdict.outcome, verdict.first[0].stage), (Outcome::Loss, Stage::SendQdisc));
    }

    #[test]
    fn a_port_without_a_socket_is_none_that_has_one() {
        let mut verdict = slow(7, 4433);
        verdict.first[0].cause = Cause::NoSocket;
        let asked = |port, is_bound| {
            Narrow { process: None, port: Some(port) }.verdict(verdict.clone(), is_bound).outcome
        };
        assert_eq!((asked(4433, true), asked(443, false)), (Outcome::NoLoss, Outcome::Loss));
        assert_eq!((port("[::1]:53"), port("nonsense")), (Some(53), None));
    }
}
