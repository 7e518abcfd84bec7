//! Human-readable text of a verdict.

use std::fmt;

use clearway_units::foreign::Foreign;

use crate::actions::duration;
use crate::numbers::{count, packets, percent, rate, whole};
use crate::{Cause, Certainty, Finding, Outcome, Queue, Stage, Starvation, Verdict};

impl fmt::Display for Verdict {
    /// Writes what is lost and why, the path with the lossy stages marked, the evidence, the
    /// recommended actions, and the parts that were not seen.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.headline())?;
        writeln!(formatter)?;
        self.path(formatter)?;
        for finding in &self.findings {
            writeln!(formatter)?;
            write!(formatter, "{finding}")?;
        }
        self.rest(formatter)
    }
}

impl Verdict {
    /// Returns the outcome and the worst finding in one line.
    pub fn headline(&self) -> String {
        let seconds = self.seconds;
        match (self.outcome, self.findings.first()) {
            (Outcome::Loss, Some(finding)) => {
                let (place, amount) = (place(finding.stage), finding.amount());
                let Finding { lost, cause, .. } = finding;
                let (lost, sure) = (packets(*lost), sure(finding.certainty));
                format!(
                    "Loss at {place}: {lost} in {seconds:.1} s ({amount}). {sure}: {}.",
                    Foreign(cause)
                )
            }
            (Outcome::Stray, Some(finding)) => {
                let (lost, amount) = (packets(finding.lost), finding.amount());
                format!(
                    "Stray packets, but no loss: {lost} in {seconds:.1} s ({amount}) arrived at \
                     ports without a socket."
                )
            }
            (Outcome::NoLoss, _) => self.no_loss(),
            _ => {
                let why = self.oddities.first().map_or_else(
                    || {
                        "no loss was seen, but there may be loss in the parts that were not visible"
                            .to_owned()
                    },
                    |oddity| format!("no loss was seen, but {}", Foreign(oddity)),
                );
                format!("Unknown after {seconds:.1} s: {why}.")
            }
        }
    }

    fn no_loss(&self) -> String {
        let seconds = self.seconds;
        let sum = |is_stray: bool| {
            let of_kind = self.findings.iter().filter(|it| it.cause.is_stray() == is_stray);
            of_kind.map(|it| it.lost).fold(0, u64::saturating_add)
        };
        let (lost, stray) = (sum(false), sum(true));
        let was = |number| if number == 1 { "was" } else { "were" };
        match (lost, stray) {
            (0, 0) => {
                format!("No loss in {seconds:.1} s: every counter that could show loss was read.")
            }
            (0, stray) => {
                let was = was(stray);
                format!("No loss in {seconds:.1} s: {} {was} stray.", packets(stray))
            }
            (lost, _) => {
                let was = was(lost);
                format!(
                    "No loss above the floor in {seconds:.1} s: {} {was} lost or refused, too few \
                     to count.",
                    packets(lost)
                )
            }
        }
    }

    fn path(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "receiving")?;
        for stage in Stage::ALL {
            if stage == Stage::SendSocket {
                writeln!(formatter, "sending")?;
            }
            let (mark, text) = (self.mark(stage).text(), self.lost_at(stage));
            let line = format!("{mark} {:<20}{text}", stage.title());
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Returns how a stage is marked in a diagram of the path.
    pub fn mark(&self, stage: Stage) -> Mark {
        let is_above = |it: &&Finding| it.is_above_floor && self.outcome != Outcome::NoLoss;
        let worst = self.findings.first().filter(is_above);
        match worst.is_some_and(|it| it.stage == stage) {
            true => Mark::Worst,
            false if self.findings.iter().any(|it| it.stage == stage) => Mark::Loses,
            false if self.unseen.iter().any(|it| it.stage == stage) => Mark::NotSeen,
            false => Mark::None,
        }
    }

    /// Describes the losses at a stage.
    fn lost_at(&self, stage: Stage) -> String {
        let sum = |is_stray: bool| {
            let at = self.findings.iter().filter(|it| it.stage == stage);
            let of_kind = at.filter(|it| it.cause.is_stray() == is_stray);
            of_kind.map(|it| it.lost).fold(0, u64::saturating_add)
        };
        let is_above = self.findings.iter().any(|it| it.stage == stage && it.is_above_floor);
        let parts = [(sum(false), "lost"), (sum(true), "stray")];
        let named = parts.iter().filter(|(number, _)| *number > 0);
        let named: Vec<_> =
            named.map(|(number, word)| format!("{} {word}", count(*number))).collect();
        match (named.is_empty(), is_above) {
            (true, _) if self.mark(stage) == Mark::NotSeen => "not completely visible".to_owned(),
            (true, _) => String::new(),
            (false, true) => named.join(", "),
            (false, false) => format!("{} (below the floor)", named.join(", ")),
        }
    }

    fn rest(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.elsewhere.is_empty() {
            writeln!(formatter, "\nElsewhere on this host (not part of the verdict):")?;
        }
        for finding in &self.elsewhere {
            let Finding { stage, cause, .. } = finding;
            writeln!(formatter, "  {}: {}: {}", title(*stage), finding.number(), Foreign(cause))?;
        }
        if !self.unseen.is_empty() {
            writeln!(formatter, "\nNot visible:")?;
        }
        for unseen in &self.unseen {
            write!(formatter, "  {}: {}", title(unseen.stage), Foreign(&unseen.why))?;
            match &unseen.needed {
                Some(needed) => writeln!(formatter, " (needed: {})", Foreign(needed))?,
                None => writeln!(formatter)?,
            }
        }
        if !self.oddities.is_empty() {
            writeln!(formatter, "\nWhat prevents a conclusion:")?;
        }
        self.oddities.iter().try_for_each(|oddity| writeln!(formatter, "  {}", Foreign(oddity)))
    }
}

/// How a stage is marked in a diagram of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mark {
    /// No loss was seen at the stage.
    None,
    /// A part of the stage was not seen.
    NotSeen,
    /// The stage loses packets, but another one loses more.
    Loses,
    /// The stage has the worst loss, which determines the outcome.
    Worst,
}

impl Mark {
    fn text(self) -> &'static str {
        match self {
            Self::None | Self::NotSeen => "  ",
            Self::Loses => " >",
            Self::Worst => ">>",
        }
    }
}

/// Returns the name of a stage for the middle of a sentence.
fn place(stage: Stage) -> &'static str {
    match stage {
        Stage::Device => "the device",
        Stage::Xdp => "XDP",
        Stage::Softnet => "the CPU's backlog (softnet)",
        Stage::Ip => "the IP layer",
        Stage::Netfilter => "the firewall (netfilter)",
        Stage::Conntrack => "connection tracking",
        Stage::Udp => "the UDP layer",
        Stage::Socket => "the socket",
        Stage::Application => "the application",
        Stage::SendSocket => "the socket (sending)",
        Stage::SendIp => "the IP layer (sending)",
        Stage::SendQdisc => "the queueing discipline",
        Stage::SendDevice => "the device (sending)",
    }
}

/// Returns the stage with its direction, for the beginning of a line.
fn title(stage: Stage) -> String {
    match stage.is_of_sending() && stage != Stage::SendQdisc {
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

impl Finding {
    /// Formats the lost packets per second, never as zero.
    pub fn rate(&self) -> String {
        rate(self.per_second)
    }

    /// Formats the number of packets: "3 packets lost", "1 stray packet".
    fn number(&self) -> String {
        let plural = if self.lost == 1 { "" } else { "s" };
        match self.cause.is_stray() {
            true => format!("{} stray packet{plural}", count(self.lost)),
            false => format!("{} lost", packets(self.lost)),
        }
    }

    /// Formats the amount of a loss: the rate, and the share of the arrivals.
    fn amount(&self) -> String {
        let per_second = rate(self.per_second);
        let whole = if self.stage.is_of_sending() { "what was sent" } else { "what arrived there" };
        match self.share.filter(|share| *share > 0.0) {
            Some(share) => format!("{per_second}, {} of {whole}", percent(share)),
            None => per_second,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, cause, .. } = self;
        let (amount, sure) = (self.amount(), sure(self.certainty).to_lowercase());
        let below = if self.is_above_floor { "" } else { "; below the floor" };
        writeln!(formatter, "At {}: {} ({amount}; {sure}{below})", place(*stage), self.number())?;
        writeln!(formatter, "  Cause: {}", Foreign(cause))?;
        if let Some(stage) = self.consequence_of {
            writeln!(formatter, "  A consequence of the losses at {}", place(stage))?;
        }
        for evidence in &self.evidence {
            writeln!(
                formatter,
                "  Seen: {} +{}",
                Foreign(&evidence.counter),
                count(evidence.rise)
            )?;
        }
        for action in &self.actions {
            writeln!(formatter, "  Do: {}", Foreign(&action.text))?;
            if let Some(command) = &action.command {
                writeln!(formatter, "      {}", Foreign(command))?;
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
                    "more datagrams arrive than {} can read{}",
                    reader(queue),
                    Rates(queue)
                );
            }
            Self::Burst(queue) => {
                return write!(
                    formatter,
                    "{} is fast enough on average, but bursts are larger than the receive buffer of {}{}",
                    reader(queue),
                    queue.local,
                    Rates(queue)
                );
            }
            Self::Starved(queue, why) => {
                return write!(formatter, "{} {why}{}", reader(queue), Rates(queue));
            }
            Self::Overflow(queue) => {
                return write!(
                    formatter,
                    "the receive buffer of {} overflows; the reason could not be determined",
                    queue.local
                );
            }
            Self::HotSocket(queue) => {
                return write!(
                    formatter,
                    "one of several sockets at {}, read by {}, overflows while the others have \
                     room{}",
                    queue.local,
                    reader(queue),
                    Rates(queue)
                );
            }
            Self::DeviceReceive => "the device or its driver dropped packets that it received",
            Self::Xdp => "an XDP program dropped packets, or could not forward them",
            Self::XdpSocket => {
                "an AF_XDP socket had no room: its receive ring was full, or its fill ring empty"
            }
            Self::BacklogFull => "a CPU's backlog was full",
            Self::IpHeader => "packets with IP headers or addresses that this host does not accept",
            Self::ReversePathFilter => {
                "the reverse-path filter dropped packets: the route to their source uses another \
                 device"
            }
            Self::Undelivered => {
                "IP received packets and neither delivered nor counted them, as with multicast to \
                 groups that no socket has joined"
            }
            Self::Reassembly => "fragments were missing, so datagrams could not be reassembled",
            Self::Firewall => "a firewall rule dropped packets",
            Self::ConntrackFull => "the connection tracking table is full",
            Self::NoSocket => "no socket is bound to the packets' destination port",
            Self::BadChecksum => "bad UDP checksums",
            Self::BadLength => "UDP length fields that do not match the packet",
            Self::SocketFilter => "a filter on the socket rejects datagrams",
            Self::UdpMemory => {
                "the memory limit for all UDP sockets together (udp_mem) was \
                reached"
            }
            Self::TruncatedReads => {
                "the application read into buffers that were too small (truncated reads)"
            }
            Self::ApplicationQueue => "a queue inside the application was full",
            Self::SendBuffer => "sends failed because the send buffer was full",
            Self::PathMtu => "packets are larger than the MTU of their path",
            Self::NoRoute => "there is no route to the destination",
            Self::QdiscFull => "the queueing discipline dropped packets",
            Self::DeviceSend => "the device dropped outgoing packets",
            Self::Other => "the kernel counts these packets as dropped but reports no reason",
        };
        formatter.write_str(text)
    }
}

impl fmt::Display for Starvation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuPressure(part) => write!(
                formatter,
                "is fast enough, but waited for a CPU for {:.0} % of the time in which datagrams were lost",
                part * 100.0
            ),
            Self::Stopped => formatter.write_str("was stopped"),
            Self::Throttled(part) => write!(
                formatter,
                "is fast enough, but its cgroup was throttled for {:.0} % of the time in which datagrams were lost",
                part * 100.0
            ),
            Self::Blocked => formatter.write_str("was blocked in the kernel (disk or lock)"),
        }
    }
}

fn reader(queue: &Queue) -> String {
    match &queue.process {
        Some((id, name)) => {
            format!("{} (process {id}) at {}", Foreign(name), Foreign(&queue.local))
        }
        None => format!("the reader of {}", Foreign(&queue.local)),
    }
}

/// Formats the measured rates of a queue, if any.
struct Rates<'a>(&'a Queue);

impl fmt::Display for Rates<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queue { arrival_rate, drain_rate, buffer_seconds, are_rates_exact, .. } = self.0;
        let (most, least) = if *are_rates_exact { ("", "") } else { ("at most ", "at least ") };
        if let (Some(arrival), None) = (arrival_rate, drain_rate) {
            write!(formatter, ": {most}{}/s arrive on average", whole(*arrival))?;
        }
        if let (Some(arrival), Some(drain)) = (arrival_rate, drain_rate) {
            write!(
                formatter,
                ": {most}{}/s arrive, {most}{}/s are read while the queue is not empty",
                whole(*arrival),
                whole(*drain)
            )?;
            if arrival > drain && *drain > 0.0 {
                write!(formatter, " (ratio {least}{:.2})", arrival / drain)?;
            }
        }
        if let Some(seconds) = buffer_seconds {
            write!(formatter, "; an empty receive buffer is full after {}", duration(*seconds))?;
        }
        Ok(())
    }
}
