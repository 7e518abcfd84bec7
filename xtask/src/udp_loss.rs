//! `cargo xtask udp-loss`: reproduces the experiment of docs/udp-loss.md on this machine. `clearway
//! doctor` observes a proxy beyond its maximum rate, the same proxy with a larger receive buffer,
//! and `clearway balance` in its place.

mod child_process;
mod picture;
mod play;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clearway_namespaces::Namespace;

use self::picture::Panel;
use self::play::{LARGER, Play, Programs, Subject};
use crate::command::{self, output, root, target};
use crate::waiting::watch_signals;

/// Path of the default receive buffer size, as the kernel counts it.
const DEFAULT_BUFFER: &str = "/proc/sys/net/core/rmem_default";
/// Path of the maximum buffer size that programs may request; the kernel doubles it.
const BUFFER_MAX: &str = "/proc/sys/net/core/rmem_max";
/// A higher priority than that of the host's other programs, which are not part of the experiment.
const NICENESS: i32 = -10;

/// Runs the experiment with the three proxies, prints the results, and draws the chart.
pub(crate) fn run(picture: Option<PathBuf>) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("udp-loss creates network namespaces; run it as root".to_owned());
    }
    Namespace::create().map_err(|error| format!("udp-loss needs namespaces: {error}"))?;
    let folder = target().join("udp-loss");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let subjects = subjects(number(DEFAULT_BUFFER)?, number(BUFFER_MAX)?)?;
    let mut build = command::build("release", &["clearway", "clearway-bench"]);
    command::run("building clearway and the benchmark", &mut build)?;
    let release = target().join("release");
    let programs = Programs {
        clearway: release.join("clearway"),
        bench: release.join("clearway-bench"),
        folder: folder.clone(),
    };
    watch_signals()?;
    // On a host that does not allow this, the experiment is only slower.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    let mut story = Story { file: folder.join("story.txt"), text: String::new() };
    story.tell(&introduction())?;
    let mut panels = Vec::new();
    for (number, subject) in subjects.into_iter().enumerate() {
        let play = play::play(subject, &programs, &format!("{}", number + 1))?;
        story.tell(&play.story())?;
        panels.push(panel(&play));
    }
    let picture = picture.unwrap_or_else(|| folder.join("udp-loss.svg"));
    let drawn = picture::draw(&panels);
    fs::write(&picture, drawn).map_err(|error| format!("{}: {error}", picture.display()))?;
    eprintln!(
        "xtask: the report is in {}, the picture in {}",
        story.file.display(),
        picture.display()
    );
    Ok(())
}

/// The report so far, which is both printed and written to a file.
struct Story {
    file: PathBuf,
    text: String,
}

impl Story {
    fn tell(&mut self, part: &str) -> Result<(), String> {
        println!("{part}");
        self.text += part;
        self.text.push('\n');
        fs::write(&self.file, &self.text)
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

/// Returns the description of the measured system.
fn introduction() -> String {
    let mut describe = Command::new("git");
    describe.args(["describe", "--always", "--dirty"]).current_dir(root());
    let commit = output("git", &mut describe).unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "commit {}, Linux {}, {cores} cores\n{}\n",
        commit.trim(),
        kernel.trim(),
        play::traffic()
    )
}

/// Returns the three proxies: with the default buffer, with a buffer up to [`LARGER`] times as
/// large if `max` allows it, and the balancer.
fn subjects(default: u64, max: u64) -> Result<[Subject; 3], String> {
    let larger = default.saturating_mul(LARGER).min(max.saturating_mul(2));
    if larger <= default {
        return Err(format!(
            "{BUFFER_MAX} is {max}: a receive buffer cannot be larger than the default of {default} bytes; for this, set \
             it to {} (sysctl -w net.core.rmem_max={0})",
            default.saturating_mul(LARGER) / 2
        ));
    }
    Ok([Subject::Loop(default), Subject::Loop(larger), Subject::Balancer])
}

fn number(path: &str) -> Result<u64, String> {
    let text = fs::read_to_string(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{path} is not a number: {text}"))
}

fn panel(play: &Play) -> Panel {
    Panel {
        title: play.subject.title(),
        lost: play.samples.lost_each(picture::STEP),
        seconds: play.samples.seconds(),
        first_lost: play.samples.first_lost(),
        verdict: (play.judged.as_secs_f64(), play.verdict_in_short()),
        has_loss: play.verdict.outcome == clearway_doctor::Outcome::Loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_buffer_is_no_larger_than_it_may_be() {
        let larger = |default, max| match subjects(default, max) {
            Ok([_, Subject::Loop(larger), _]) => Some(larger),
            _ => None,
        };
        assert_eq!(larger(1000, 1 << 20), Some(1000 * LARGER));
        assert_eq!(larger(1000, 4000), Some(8000));
        assert_eq!(larger(1000, 500), None);
    }
}
