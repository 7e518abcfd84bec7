//! `clearway doctor`: where this host loses datagrams, and why.

mod carried;
mod collecting;
mod narrow;
mod page;
mod saved;
mod view;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clearway_doctor::{Outcome, Verdict};
use clearway_network::parse_duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
pub(crate) use carried::Carried;
use collecting::{Collecting, Gathered, Pace};
use narrow::Narrow;
use saved::Saving;

/// The exit status if the command itself failed, or its arguments are wrong. 1 and 2 say what the doctor found.
pub(crate) const FAILED: u8 = 3;

/// How long is looked at most without --for, and how long at least.
const DEFAULT_TIME: Duration = Duration::from_secs(10);
const LEAST_TIME: Duration = Duration::from_secs(3);
/// No more snapshots are kept: with a thousand sockets each takes 200 kB.
const MAX_SNAPSHOTS: u32 = 3000;

/// Say where this host loses datagrams of UDP, and why.
///
/// The doctor reads what the kernel counts at every stage, from the device to the application and back, and names the first
/// stage that loses. If a socket overflows, it measures how fast datagrams arrive and how fast they are taken, and so says
/// whether its reader is too slow, bursts are too large for the buffer, or something keeps the reader from running.
///
/// It sends nothing and changes nothing. It works for every user, in the network namespace where it runs; with more rights
/// (root; or CAP_SYS_PTRACE, CAP_BPF and CAP_PERFMON) it sees more, and says what it could not see.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorCommand {
    /// Look for this long. By default for ten seconds, or less if the verdict is certain before.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Take a snapshot so often. Causes are found by how a queue fills and empties between snapshots. By default every 100ms,
    /// or less often if it would take a hundredth of a core, as it does with many hundreds of sockets.
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Only say what concerns this process: losses at other sockets are no loss.
    #[arg(long, value_name = "PID")]
    process: Option<u32>,
    /// Only say what concerns sockets at this port.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print the verdict as one JSON object.
    #[arg(long)]
    json: bool,
    /// Also save the snapshots in this file, a line of JSON for each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "watch", "listen"])]
    save: Option<PathBuf>,
    /// Diagnose the snapshots in this file, which --save has written, here or on another host.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "interval", "watch", "listen"])]
    from: Option<PathBuf>,
    /// Show the path of datagrams in this terminal, with rates, until q or Ctrl-C.
    #[arg(long, conflicts_with_all = ["time", "json", "listen"])]
    watch: bool,
    /// Show the same as a page at http://ADDRESS, to everyone who can reach that, until Ctrl-C; port 0 means any free port.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["time", "json"])]
    listen: Option<SocketAddr>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if no datagram is lost, 1 if some are, 2 if that cannot be told, 3 if the command failed.

Examples:
  What is wrong on this host:
    sudo clearway doctor
  Does the server at port 443 lose anything:
    clearway doctor --port 443 --for 30s
  Watch while load comes:
    clearway doctor --watch
  Take snapshots on one host, and look at them on another:
    clearway doctor --for 20s --save snapshots.jsonl
    clearway doctor --from snapshots.jsonl";

fn parse_time(input: &str) -> Result<Duration, String> {
    let seconds = input.parse::<f64>().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    let time =
        seconds.map_or_else(|| parse_duration(input).map_err(|error| error.to_string()), Ok)?;
    match time.as_secs() {
        _ if time < Duration::from_millis(200) => Err("it must be at least 200ms".to_owned()),
        3600.. => Err("it must be less than an hour".to_owned()),
        _ => Ok(time),
    }
}

fn parse_interval(input: &str) -> Result<Duration, String> {
    match parse_duration(input).map_err(|error| error.to_string())? {
        interval if interval < Duration::from_millis(5) => {
            Err("it must be at least 5ms".to_owned())
        }
        interval if interval > Duration::from_secs(10) => Err("it must be at most 10s".to_owned()),
        interval => Ok(interval),
    }
}

/// Runs the command.
pub(crate) async fn run(command: DoctorCommand) -> Result<(), Failure> {
    examine(command).await.map_err(|failure| match failure.exit_status() {
        // It is none of those of a verdict, which come with it.
        1 | 2 => failure.with_exit_status(FAILED),
        _ => failure,
    })??;
    Ok(())
}

/// The failure of a verdict that is not good, or that of the command.
async fn examine(command: DoctorCommand) -> Result<Result<(), Failure>, Failure> {
    let narrow = Narrow { process: command.process, port: command.port };
    if let (Some(process), None) = (command.process, &command.from) {
        check_process(process)?;
    }
    if command.watch {
        return watch::run(Pace::new(command.interval), narrow)
            .await
            .map(|verdict| conclusion(&verdict));
    }
    let mut interrupt = Interrupt::listen()?;
    if let Some(address) = command.listen {
        page::serve(address, Pace::new(command.interval), narrow, &mut interrupt).await?;
        return Ok(Ok(()));
    }
    let saving = command.save.as_deref().map(Saving::create).transpose()?;
    let snapshots = match &command.from {
        Some(file) => saved::read(file)?,
        None => gather(&command, narrow, &mut interrupt).await?.snapshots,
    };
    if let Some(saving) = saving {
        saving.finish(&snapshots)?;
    }
    let verdict = narrow.diagnose(&snapshots);
    print(&verdict, command.json)?;
    Ok(conclusion(&verdict))
}

/// # Errors
/// If there is no such process here.
fn check_process(process: u32) -> Result<(), Failure> {
    match std::fs::exists(format!("/proc/{process}")) {
        Ok(false) => {
            Err(Failure::new(format!("there is no process {process} that this user may see"))
                .advise("`ss -uanp` shows the processes with sockets of UDP"))
        }
        _ => Ok(()),
    }
}

/// Takes snapshots until the time is over, the verdict is certain, or the user has seen enough.
async fn gather(
    command: &DoctorCommand,
    narrow: Narrow,
    interrupt: &mut Interrupt,
) -> Result<Gathered, Failure> {
    let time = command.time.unwrap_or(DEFAULT_TIME);
    let pace = Pace::new(command.interval).at_least(time / MAX_SNAPSHOTS);
    let least = if command.time.is_some() { time } else { LEAST_TIME };
    let mut collecting = Collecting::start(pace, time)?;
    output::status(&format!("looking for {:.1} s", time.as_secs_f64()));
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
        let verdict = narrow.diagnose(&collecting.snapshots());
        let certain = narrow::certain_causes(&verdict);
        if certain.is_some() && certain == previous {
            return Ok(collecting.finish().await);
        }
        previous = certain;
    }
}

fn print(verdict: &Verdict, as_json: bool) -> Result<(), Failure> {
    output::result(&match as_json {
        true => serde_json::to_string(verdict)
            .map_err(|error| Failure::new(format!("the verdict has no form in JSON: {error}")))?,
        false => verdict.to_string().trim_end().to_owned(),
    })
}

/// What the exit status says, in words.
fn conclusion(verdict: &Verdict) -> Result<(), Failure> {
    let status = verdict.outcome.exit_status();
    match verdict.outcome {
        Outcome::NoLoss => Ok(()),
        Outcome::Loss => Err(Failure::new("datagrams are lost").with_exit_status(status)),
        Outcome::Unknown => {
            Err(Failure::new("it cannot be told whether datagrams are lost")
                .with_exit_status(status))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
