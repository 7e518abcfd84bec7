//! A verdict as text for people.

use std::fmt;

use crate::actions::duration;
use crate::{Cause, Certainty, Finding, Outcome, Queue, Stage, Starvation, Verdict};

impl fmt::Display for Verdict {
    /// What is lost and why, the path with the losing stages marked, the evidence, what to do, and what was not seen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.headline())?;
        writeln!(formatter)?;
        self.path(formatter)?;
        for finding in self.first.iter().chain(&self.later) {
            writeln!(formatter)?;
            write!(formatter, "{finding}")?;
        }
        self.rest(formatter)
    }
}

impl Verdict {
    /// The outcome and the first cause in one line.
    pub fn headline(&self) -> String {
        let seconds = self.seconds;
        match (self.outcome, self.first.first()) {
            (Outcome::Loss, Some(finding)) => {
                let sure = sure(finding.certainty);
                let Finding { lost, per_second, cause, .. } = finding;
                let part = part(finding.stage);
                format!(
                    "Loss, first at the {part}: {lost} packets in {seconds:.1} s ({per_second:.0}/s). {sure}: {cause}."
                )
            }
            (Outcome::NoLoss, _) => {
                format!("No loss in {seconds:.1} s: every stage that can lose was seen.")
            }
            _ => format!(
                "Unknown after {seconds:.1} s: no loss was seen, and not everything that can lose was seen."
            ),
        }
    }

    fn path(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "receiving")?;
        for stage in Stage::ALL {
            if stage == Stage::SendSocket {
                writeln!(formatter, "sending")?;
            }
            let of_stage = |findings: &[Finding]| {
                let lost = findings.iter().filter(|it| it.stage == stage).map(|it| it.lost);
                lost.fold(0_u64, u64::saturating_add)
            };
            let (first, later) = (of_stage(&self.first), of_stage(&self.later));
            let is_unseen = self.unseen.iter().any(|it| it.stage == stage);
            let (mark, text) = match (first, later) {
                (0, 0) if is_unseen => ("  ", "not all of it was seen".to_owned()),
                (0, 0) => ("  ", String::new()),
                (0, later) => (" >", format!("{later} lost")),
                (first, _) => (">>", format!("{first} lost: the first stage that loses")),
            };
            let line = format!("{mark} {:<20}{text}", stage.title());
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn rest(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unseen.is_empty() {
            writeln!(formatter, "\nNot seen:")?;
        }
        for unseen in &self.unseen {
            write!(formatter, "  {}: {}", part(unseen.stage), unseen.why)?;
            match &unseen.needed {
                Some(needed) => writeln!(formatter, " (would show it: {needed})")?,
                None => writeln!(formatter)?,
            }
        }
        if !self.oddities.is_empty() {
            writeln!(formatter, "\nTo be wondered at:")?;
        }
        self.oddities.iter().try_for_each(|oddity| writeln!(formatter, "  {oddity}"))
    }
}

/// The stage with its direction.
fn part(stage: Stage) -> String {
    match stage.is_of_sending() {
        true => format!("{} (sending)", stage.title()),
        false => stage.title().to_owned(),
    }
}

fn sure(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Certain => "Certain",
        Certainty::Possible => "Possible",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, per_second, cause, .. } = self;
        let (part, sure) = (part(self.stage), sure(self.certainty).to_lowercase());
        writeln!(formatter, "At the {part}: {lost} lost, {per_second:.0}/s ({sure})")?;
        writeln!(formatter, "  Cause: {cause}")?;
        if let Some(stage) = self.consequence_of {
            writeln!(formatter, "  A consequence of the losses at the {}", self::part(stage))?;
        }
        for evidence in &self.evidence {
            writeln!(formatter, "  Seen: {} +{}", evidence.counter, evidence.rise)?;
        }
        for action in &self.actions {
            writeln!(formatter, "  Do: {}", action.text)?;
            if let Some(command) = &action.command {
                writeln!(formatter, "      {command}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Rate(queue) => {
                return write!(
                    formatter,
                    "more datagrams arrive than {} takes{}",
                    reader(queue),
                    Rates(queue)
                );
            }
            Self::Burst(queue) => {
                return write!(
                    formatter,
                    "{} is fast enough, and bursts are larger than the buffer of {}{}",
                    reader(queue),
                    queue.local,
                    Rates(queue)
                );
            }
            Self::Starved(queue, why) => {
                return write!(formatter, "{} {why}{}", reader(queue), Rates(queue));
            }
            Self::Overflow(queue) => {
                return write!(formatter, "{} overflows, and why is not known", queue.local);
            }
            Self::HotSocket(queue) => {
                return write!(
                    formatter,
                    "one socket of several at {} overflows, read by {}, while others have room{}",
                    queue.local,
                    reader(queue),
                    Rates(queue)
                );
            }
            Self::DeviceReceive => "the device or its driver dropped what it received",
            Self::Xdp => "an XDP program dropped packets, or could not send them on",
            Self::XdpSocket => {
                "a socket of AF_XDP had no room: its receive ring was full, or its fill ring empty"
            }
            Self::BacklogFull => "a CPU's backlog was full",
            Self::IpHeader => "headers or addresses that IP does not accept",
            Self::ReversePathFilter => "the reverse-path filter",
            Self::Reassembly => "fragments that were not completed",
            Self::Firewall => "a firewall's rule",
            Self::ConntrackFull => "the table of tracked connections is full",
            Self::NoSocket => "no socket is bound to the port",
            Self::BadChecksum => "a wrong checksum of UDP",
            Self::BadLength => "a length of UDP that does not fit the packet",
            Self::SocketFilter => "a filter of the socket rejects them",
            Self::UdpMemory => "the memory of all UDP sockets is used up",
            Self::TruncatedReads => "reads into buffers that are too small",
            Self::ApplicationQueue => "a queue of the application was full",
            Self::SendBuffer => "sends were refused, since the send buffer was full",
            Self::PathMtu => "packets that are larger than their path takes",
            Self::NoRoute => "no route to the destination",
            Self::QdiscFull => "the queueing discipline dropped them",
            Self::DeviceSend => "the device dropped what it had to send",
            Self::Other => "a counter rose, and what made it rise is not known",
        };
        formatter.write_str(text)
    }
}

impl fmt::Display for Starvation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuPressure(part) => write!(
                formatter,
                "is fast enough, and waited for a CPU for {:.0} % of the time in which datagrams were lost",
                part * 100.0
            ),
            Self::Stopped => formatter.write_str("was stopped"),
            Self::Throttled(part) => write!(
                formatter,
                "is fast enough, and its cgroup was throttled for {:.0} % of the time in which datagrams were lost",
                part * 100.0
            ),
            Self::Blocked => formatter.write_str("waited for a disk or a lock of the kernel"),
        }
    }
}

fn reader(queue: &Queue) -> String {
    match &queue.process {
        Some((id, name)) => format!("{name} (process {id}) at {}", queue.local),
        None => format!("the reader of {}", queue.local),
    }
}

/// The measured rates, if there are any.
struct Rates<'a>(&'a Queue);

impl fmt::Display for Rates<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queue { arrival_rate, drain_rate, buffer_seconds, are_rates_exact, .. } = self.0;
        let (most, least) = if *are_rates_exact { ("", "") } else { ("at most ", "at least ") };
        if let (Some(arrival), None) = (arrival_rate, drain_rate) {
            write!(formatter, ": {most}{arrival:.0}/s arrive on average")?;
        }
        if let (Some(arrival), Some(drain)) = (arrival_rate, drain_rate) {
            write!(
                formatter,
                ": {most}{arrival:.0}/s arrive, {most}{drain:.0}/s are taken while there are any"
            )?;
            if arrival > drain && *drain > 0.0 {
                write!(formatter, " (ratio {least}{:.2})", arrival / drain)?;
            }
        }
        if let Some(seconds) = buffer_seconds {
            write!(formatter, "; the buffer lasts {}", duration(*seconds))?;
        }
        Ok(())
    }
}
