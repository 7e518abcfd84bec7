//! Processes that are pinned to a core, and their CPU time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::thread::set_current_timer_slack;

/// Why a program did not finish its task.
#[derive(PartialEq, Debug)]
pub(crate) enum Failure {
    /// The program does not support the command or option.
    NotOffered,
    /// The program failed, with a description of the problem.
    Failed(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotOffered => "a program does not support this command or option".to_owned(),
            Failure::Failed(text) => text,
        }
    }
}

/// Returns whether a program exited because it does not support a command or an option: with status
/// 2, as argument parsers do, or with 127, as the interop peers do for unsupported tests.
fn is_not_offered(status: ExitStatus) -> bool {
    matches!(status.code(), Some(2 | 127))
}

/// A program that runs on its own core and is terminated when dropped. Its standard input closes on
/// drop, and also if this process exits in any other way.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The text of the program's ready message.
    said: String,
}

impl Process {
    /// Starts `program` and waits until it prints a line with the word `ready` and a second word,
    /// which is stored.
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        core: usize,
        ready: &str,
    ) -> Result<Self, Failure> {
        let mut command = pinned(program, core);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let input = child.stdin.take().ok_or_else(|| no_pipe("standard input"))?;
        let output = child.stdout.take().ok_or_else(|| no_pipe("standard output"))?;
        let mut process =
            Self { child, input, output: BufReader::new(output), said: String::new() };
        let line = process.next_line();
        match line.as_deref().unwrap_or_default().split_once(' ') {
            Some((word, said)) if word == ready => {
                process.said = said.to_owned();
                Ok(process)
            }
            _ if line.is_none() && process.child.wait().is_ok_and(is_not_offered) => {
                Err(Failure::NotOffered)
            }
            _ => Err(Failure::Failed(format!(
                "{} did not print `{ready} …`, but {line:?}",
                program.display()
            ))),
        }
    }

    /// Returns the text of the program's ready message.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// Returns the next line of the program's output; `None` if the program has exited.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.is_ok_and(|length| length > 0).then(|| line.trim().to_owned())
    }

    /// Writes an empty line to the program's standard input, so that it continues.
    ///
    /// # Errors
    /// Returns an error if the program has exited.
    pub(crate) fn go_on(&mut self) -> Result<(), String> {
        self.input.write_all(b"\n").map_err(|error| format!("a program exited: {error}"))
    }

    /// Returns the JSON object that the program prints after [`go_on`](Self::go_on).
    ///
    /// # Errors
    /// Returns an error if the program has exited, or its output is not a JSON object.
    pub(crate) fn ask(&mut self) -> Result<serde_json::Value, String> {
        self.go_on()?;
        self.answer()
    }

    /// Returns the JSON object that the program prints next.
    ///
    /// # Errors
    /// Returns an error if the program has exited, or its output is not a JSON object.
    pub(crate) fn answer(&mut self) -> Result<serde_json::Value, String> {
        let line = self.next_line().ok_or("a program exited; the reason is above")?;
        serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))
    }

    /// Returns the program's exit status; `None` while the program is running.
    ///
    /// # Errors
    /// Returns an error if the kernel does not report the status.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("waiting for a program: {error}"))
    }

    /// Returns the program's process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU seconds that the program has used so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, String> {
        cpu_seconds(self.child.id())
    }

    /// Returns the program's current resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kibibytes
            .ok_or_else(|| format!("{path} does not contain VmRSS as described in proc(5)"))?
            * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The ID of an exited process may already be reused.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// A server that runs on its own core and is terminated when dropped.
pub(crate) struct Server {
    process: Process,
    /// The address that the server listens on.
    pub(crate) address: String,
}

impl Server {
    /// Starts `program`, and waits until it prints the address that it is listening on.
    pub(crate) fn start(program: &Path, arguments: &[&str], core: usize) -> Result<Self, Failure> {
        let process = Process::start(program, arguments, core, "listening")?;
        Ok(Self { address: process.said.clone(), process })
    }

    /// Returns the CPU seconds that the server has used so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, String> {
        self.process.cpu_seconds()
    }

    /// Returns the server's process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the server's current resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, String> {
        self.process.resident_bytes()
    }

    /// Returns the server's memory in bytes once it has not changed for two seconds: unused memory
    /// has been released by then.
    pub(crate) fn settled_bytes(&self) -> Result<u64, String> {
        let began = Instant::now();
        let mut last = self.resident_bytes()?;
        let mut quiet_seconds = 0;
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.resident_bytes()?;
            let is_quiet = now.abs_diff(last) as f64 <= SETTLED * last as f64;
            quiet_seconds = if is_quiet { quiet_seconds + 1 } else { 0 };
            if quiet_seconds == 2 || began.elapsed() > MAX_SETTLING {
                return Ok(now);
            }
            last = now;
        }
    }
}

/// Maximum relative change of memory per second that counts as unchanged.
const SETTLED: f64 = 0.002;
const MAX_SETTLING: Duration = Duration::from_secs(30);

/// Runs a client to completion. Returns the last JSON object in its output, and the CPU seconds
/// that it used.
pub(crate) fn client(
    program: &Path,
    arguments: &[&str],
    core: usize,
) -> Result<(serde_json::Value, f64), Failure> {
    let mut command = pinned(program, core);
    command.args(arguments).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let output = child.stdout.take().ok_or_else(|| no_pipe("standard output"))?;
    let lines: Vec<String> = BufReader::new(output).lines().map_while(Result::ok).collect();
    let pid = Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| "the client has no process ID".to_owned())?;
    // An exited process stays in the process table, with its CPU times, until its parent waits for
    // it.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .map_err(|error| format!("waiting for the client: {error}"))?;
    let seconds = cpu_seconds(child.id())?;
    let status = child.wait().map_err(|error| format!("waiting for the client: {error}"))?;
    if is_not_offered(status) {
        return Err(Failure::NotOffered);
    }
    if !status.success() {
        let said = lines.join(" ");
        return Err(Failure::Failed(format!("{} failed ({status}): {said}", program.display())));
    }
    let last = lines.iter().rev().find(|line| line.starts_with('{'));
    let last = last.ok_or_else(|| format!("{} did not print a result", program.display()))?;
    let result = serde_json::from_str(last).map_err(|error| format!("{last:?}: {error}"))?;
    Ok((result, seconds))
}

fn no_pipe(what: &str) -> String {
    format!("the {what} of a program is not a pipe")
}

/// Returns a command that runs `program` on one core. The kernel wakes the program at the requested
/// time, not up to 50 us later: it inherits that setting from this thread.
fn pinned(program: &Path, core: usize) -> Command {
    // Without this setting, latencies are slightly higher for all programs.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(core.to_string()).arg(program);
    command
}

/// Returns the user and system time of a process (proc(5): fields 14 and 15 of stat, in 10 ms
/// ticks).
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    match ticks.as_slice() {
        [user, system] => Ok((user + system) / 100.0),
        _ => Err(format!("{path} does not have the format of proc(5): {stat}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str) -> Result<serde_json::Value, Failure> {
        client(Path::new("sh"), &["-c", command], 0).map(|(result, _)| result)
    }

    #[test]
    fn a_program_without_the_command_is_told_from_one_that_fails() {
        assert_eq!(shell(r#"echo '{"bytes":1}'"#), Ok(serde_json::json!({"bytes": 1})));
        assert_eq!(shell("exit 2"), Err(Failure::NotOffered));
        assert_eq!(shell("exit 127"), Err(Failure::NotOffered));
        assert!(matches!(shell("exit 1"), Err(Failure::Failed(_))));
        let server =
            |command| Process::start(Path::new("sh"), &["-c", command], 0, "listening").err();
        assert_eq!(server("exit 2"), Some(Failure::NotOffered));
        assert!(matches!(server("exit 1"), Some(Failure::Failed(_))));
        assert!(matches!(server("echo other words"), Some(Failure::Failed(_))));
        assert_eq!(server("echo listening here"), None);
    }
}
