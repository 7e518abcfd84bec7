//! `clearway doctor`: reports where this host loses datagrams, and why.

mod carried;
mod collecting;
mod page;
mod saved;
mod view;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway_doctor::{Certainty, Outcome, Scope, Stage, Verdict, diagnose_for};
use clearway_network::parse_duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
pub(crate) use carried::Carried;
use collecting::{Collecting, Gathered, Pace};
use saved::Saving;

/// The exit status if the command itself failed, or its arguments are invalid. Statuses 1 and 2 are
/// verdicts.
pub(crate) const FAILED: u8 = 3;

/// Maximum and minimum measuring time if `--for` is not given.
const DEFAULT_TIME: Duration = Duration::from_secs(10);
const LEAST_TIME: Duration = Duration::from_secs(3);
/// Maximum number of snapshots to keep: each takes 200 kB with a thousand sockets.
const MAX_SNAPSHOTS: u32 = 3000;

/// Report where and why this host drops UDP datagrams, and how to fix it.
///
/// The doctor reads the kernel's counters at every stage, from the device to the application and
/// back, and reports the stages that lose packets, worst first. If a socket overflows, it measures
/// how fast datagrams arrive and how fast they are read, and so determines whether the reader is
/// too slow, bursts are too large for the buffer, or something keeps the reader from running.
///
/// Losses are reported if they reach 1 packet in 1,000 and 1 per second. Rejected packets (by a
/// firewall, for a bad checksum, without a route), which every host on the Internet sees, are
/// reported if they reach 1 in 10 and 10 per second. Smaller losses are listed as below the floor.
/// Stray packets (to ports without a socket) do not count as losses.
///
/// The doctor is read-only: it sends nothing and changes nothing. It works for every user, in the
/// network namespace where it runs; with more privileges (root; or CAP_SYS_PTRACE, CAP_BPF and
/// CAP_PERFMON) it sees more, and it reports what it could not see.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorCommand {
    /// How long to measure [default: 10s, or less if the verdict is certain earlier].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_time)]
    time: Option<Duration>,
    /// Interval between snapshots [default: 100ms].
    ///
    /// Causes are derived from how a queue fills and empties between snapshots. The default is
    /// longer if snapshots would take more than 1 % of a core, for example with many hundreds of
    /// sockets.
    #[arg(long, value_name = "DURATION", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Examine only the sockets of this process; losses at other sockets do not count.
    #[arg(long, value_name = "PID")]
    process: Option<u32>,
    /// Examine only sockets at this port; losses at other sockets do not count.
    ///
    /// Packets to other closed ports do not count either.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print the verdict as one JSON object.
    #[arg(long)]
    json: bool,
    /// Also save the snapshots to this file, one line of JSON each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "watch", "listen"])]
    save: Option<PathBuf>,
    /// Diagnose the snapshots in this file, written by --save on any host.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "interval", "watch", "listen"])]
    from: Option<PathBuf>,
    /// Show the path of datagrams with live rates in the terminal, until q or Ctrl-C.
    #[arg(long, conflicts_with_all = ["time", "json", "listen"])]
    watch: bool,
    /// Serve the live view as a page at http://ADDR until Ctrl-C.
    ///
    /// Everyone who can reach the address can see the page. Port 0 selects any free port.
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["time", "json"])]
    listen: Option<SocketAddr>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if nothing is lost above the floor (1 packet in 1,000 and 1 per second; for rejected packets, 1 in 10 and 10 per
second) or all lost packets are stray, 1 if datagrams are lost, 2 if this cannot be determined, 3 if the command failed.

Examples:
  Diagnose this host:
    sudo clearway doctor
  Check only the server on port 443:
    clearway doctor --port 443 --for 30s
  Watch under load:
    clearway doctor --watch
  Take snapshots on one host, and diagnose them on another:
    clearway doctor --for 20s --save snapshots.jsonl
    clearway doctor --from snapshots.jsonl";

fn parse_time(input: &str) -> Result<Duration, String> {
    let seconds = input.parse::<f64>().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    let time =
        seconds.map_or_else(|| parse_duration(input).map_err(|error| error.to_string()), Ok)?;
    match time.as_secs() {
        _ if time < Duration::from_millis(200) => Err("must be at least 200ms".to_owned()),
        3600.. => Err("must be less than an hour".to_owned()),
        _ => Ok(time),
    }
}

fn parse_interval(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        interval if interval < Duration::from_millis(5) => Err("must be at least 5ms".to_owned()),
        interval if interval > Duration::from_secs(10) => Err("must be at most 10s".to_owned()),
        interval => Ok(interval),
    }
}

/// Runs the command.
pub(crate) async fn run(command: DoctorCommand) -> Result<(), Failure> {
    examine(command).await.map_err(|failure| match failure.exit_status() {
        // The exit status of a failed command must differ from those of verdicts.
        1 | 2 => failure.with_exit_status(FAILED),
        _ => failure,
    })??;
    Ok(())
}

/// Returns the failure that represents a bad verdict, or the failure of the command itself.
async fn examine(command: DoctorCommand) -> Result<Result<(), Failure>, Failure> {
    let scope = match (command.process, command.port) {
        (None, None) => Scope::Host,
        (process, port) => Scope::Sockets { process, port },
    };
    if let (Some(process), None) = (command.process, &command.from) {
        check_process(process)?;
    }
    if command.watch {
        return watch::run(Pace::new(command.interval), scope)
            .await
            .map(|verdict| conclusion(&verdict));
    }
    let mut interrupt = Interrupt::listen()?;
    if let Some(address) = command.listen {
        page::serve(address, Pace::new(command.interval), scope, &mut interrupt).await?;
        return Ok(Ok(()));
    }
    let saving = command.save.as_deref().map(Saving::create).transpose()?;
    let snapshots = match &command.from {
        Some(file) => saved::read(file)?,
        None => gather(&command, scope, &mut interrupt).await?.snapshots,
    };
    if let Some(saving) = saving {
        saving.finish(&snapshots)?;
    }
    let verdict = diagnose_for(&snapshots, scope);
    print(&verdict, command.json)?;
    Ok(conclusion(&verdict))
}

/// # Errors
/// Returns an error if there is no process with this ID.
fn check_process(process: u32) -> Result<(), Failure> {
    match std::fs::exists(format!("/proc/{process}")) {
        Ok(false) => Err(Failure::new(format!(
            "process {process} does not exist, or this user may not see it"
        ))
        .advise("run `ss -uanp` to list the processes with UDP sockets")),
        _ => Ok(()),
    }
}

/// Takes snapshots until the time is over, the verdict is certain, or the user interrupts the
/// command.
async fn gather(
    command: &DoctorCommand,
    scope: Scope,
    interrupt: &mut Interrupt,
) -> Result<Gathered, Failure> {
    let time = command.time.unwrap_or(DEFAULT_TIME);
    let pace = Pace::new(command.interval).at_least(time / MAX_SNAPSHOTS);
    let least = if command.time.is_some() { time } else { LEAST_TIME };
    let mut collecting = Collecting::start(pace, time)?;
    let up_to = if command.time.is_some() { "" } else { "up to " };
    output::status(&format!("measuring for {up_to}{:.1} s", time.as_secs_f64()));
    let mut previous = None;
    loop {
        let ended = tokio::select! {
            ended = collecting.progress() => ended,
            _ = interrupt.received() => return Ok(collecting.finish().await),
        };
        if ended {
            return Ok(collecting.finish().await);
        }
        if collecting.elapsed() < least || command.time.is_some() {
            continue;
        }
        let verdict = diagnose_for(&collecting.snapshots(), scope);
        let certain = certain_causes(&verdict);
        if certain.is_some() && certain == previous {
            return Ok(collecting.finish().await);
        }
        previous = certain;
    }
}

/// Returns the relevant stages and causes of a verdict, worst first.
fn causes(verdict: &Verdict) -> Vec<(Stage, &'static str)> {
    let above = verdict.findings.iter().filter(|finding| finding.is_above_floor);
    above.map(|finding| (finding.stage, finding.cause.name())).collect()
}

/// Like [`causes`], if the verdict is a loss and the losses at its worst stage are certain.
fn certain_causes(verdict: &Verdict) -> Option<Vec<(Stage, &'static str)>> {
    let worst = verdict.findings.first()?.stage;
    let mut at_worst = verdict.findings.iter().filter(|it| it.stage == worst && it.is_above_floor);
    let is_certain = at_worst.all(|it| it.certainty == Certainty::Certain);
    (verdict.outcome == Outcome::Loss && is_certain).then(|| causes(verdict))
}

fn print(verdict: &Verdict, as_json: bool) -> Result<(), Failure> {
    output::result(&match as_json {
        true => serde_json::to_string(verdict)
            .map_err(|error| Failure::new(format!("cannot write the verdict as JSON: {error}")))?,
        false => verdict.to_string().trim_end().to_owned(),
    })
}

/// Converts a verdict to an exit status with a description in words.
fn conclusion(verdict: &Verdict) -> Result<(), Failure> {
    let status = verdict.outcome.exit_status();
    match verdict.outcome {
        Outcome::NoLoss | Outcome::Stray => Ok(()),
        Outcome::Loss => Err(Failure::new("datagrams are lost").with_exit_status(status)),
        Outcome::Unknown => {
            Err(Failure::new("cannot determine whether datagrams are lost")
                .with_exit_status(status))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clearway_doctor::{Cause, Finding, Queue};

    use super::*;

    /// Returns a verdict about a slow reader on a port.
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
            share: Some(0.033),
            is_above_floor: true,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
            actions: Vec::new(),
        };
        Verdict {
            outcome: Outcome::Loss,
            seconds: 10.0,
            findings: vec![finding],
            elsewhere: Vec::new(),
            unseen: Vec::new(),
            oddities: Vec::new(),
        }
    }

    #[test]
    fn a_verdict_is_certain_if_its_worst_stage_is_and_little_losses_do_not_count() {
        let mut verdict = slow(7, 4433);
        let expected = Some(vec![(Stage::Socket, "rate")]);
        assert_eq!(certain_causes(&verdict), expected);
        let possible = Finding { certainty: Certainty::Possible, ..verdict.findings[0].clone() };
        verdict.findings.push(Finding { is_above_floor: false, ..possible.clone() });
        assert_eq!(certain_causes(&verdict), expected);
        verdict.findings.push(possible);
        assert_eq!(certain_causes(&verdict), None);
        assert_eq!(certain_causes(&Verdict { outcome: Outcome::NoLoss, ..slow(7, 4433) }), None);
    }

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        assert_eq!(parse_time("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(parse_time("20s"), Ok(Duration::from_secs(20)));
        for bad in ["0", "-1", "1h", "100ms", "soon", "NaN", "1e30"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        assert!(parse_interval("1ms").is_err() && parse_interval("1m").is_err());
        assert_eq!(parse_interval("50ms"), Ok(Duration::from_millis(50)));
    }
}
