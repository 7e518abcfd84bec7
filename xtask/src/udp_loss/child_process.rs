//! A program in a namespace that exits on its own, and its output.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clearway_namespaces::Namespace;

use crate::waiting::wait_until;

/// A running program; killed when dropped.
pub(super) struct ChildProcess {
    name: &'static str,
    child: Option<Child>,
}

/// The exit status and output of an exited program.
pub(super) struct Ended {
    pub(super) at: Instant,
    /// The program's exit status, unless a signal killed it.
    pub(super) status: Option<i32>,
    /// The program's standard output and standard error.
    pub(super) said: [String; 2],
}

impl ChildProcess {
    /// Starts a program whose output must fit into a pipe.
    pub(super) fn start(
        name: &'static str,
        namespace: &Namespace,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", namespace.process()));
        command.args(["setpriv", "--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // In its own process group, so that Ctrl-C interrupts only this program, which then stops
        // the other one.
        let child = command.process_group(0).spawn().map_err(|error| {
            format!("{name}: nsenter: {error} (it is in the package util-linux)")
        })?;
        Ok(Self { name, child: Some(child) })
    }

    /// Waits until the program has exited.
    pub(super) fn finish(mut self, limit: Duration) -> Result<Ended, String> {
        let name = self.name;
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let has_ended = wait_until(limit, || match &mut self.child {
            Some(child) => Ok(child.try_wait().map_err(failed)?.is_some()),
            None => Ok(true),
        })?;
        let at = Instant::now();
        let child = self.child.take_if(|_| has_ended);
        let child = child.ok_or_else(|| format!("{name} did not exit"))?;
        let output = child.wait_with_output().map_err(failed)?;
        let said = [output.stdout, output.stderr];
        let said = said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Ended { at, status: output.status.code(), said })
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
