//! Helpers for starting the program, reading its output, and interrupting it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

/// Returns a command of the program, without the environment variables of the user who runs the
/// tests.
pub(crate) fn clearway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    command.args(arguments);
    for variable in ["QLOGDIR", "SSLKEYLOGFILE", "RUST_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command that must succeed.
pub(crate) fn succeed(arguments: &[&str]) -> Output {
    let output = clearway(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// Runs a command that must fail with exit status 1. Returns the only line of its error message.
pub(crate) fn fail(arguments: &[&str]) -> String {
    let output = clearway(arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    let line = errors.strip_prefix("clearway: ").unwrap_or_else(|| panic!("{errors}"));
    assert_eq!(line.trim_end().lines().count(), 1, "{errors}");
    line.trim_end().to_owned()
}

/// Returns the path of a recorded trace.
pub(crate) fn fixture(name: &str) -> String {
    format!("{}/../qlog/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A temporary directory, removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Two runs of the tests may share a target directory, and two tests may use the same name.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of `name` in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file of `size` pseudorandom bytes.
    pub(crate) fn fill(&self, name: &str, size: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let content: Vec<u8> = std::iter::repeat_with(next).take(size).collect();
        fs::create_dir_all(self.0.join(name).parent().unwrap()).unwrap();
        fs::write(self.0.join(name), &content).unwrap();
        content
    }

    /// Returns the names of everything in the directory, including hidden files.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that runs until it is interrupted.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The program's standard error, if it is piped.
    errors: Option<BufReader<ChildStderr>>,
    /// The address that the program listens on.
    pub(crate) address: String,
}

impl Running {
    /// Starts a server for `root` with a generated certificate, which is saved in `scratch` as
    /// `cert.pem`.
    pub(crate) fn serve(scratch: &Scratch, root: &str, more: &[&str]) -> Self {
        let certificate = scratch.path("cert.pem");
        Self::serve_as(scratch, root, &[&["--save-cert", &certificate][..], more].concat())
    }

    /// Starts a server for `root`.
    pub(crate) fn serve_as(scratch: &Scratch, root: &str, more: &[&str]) -> Self {
        let root = scratch.path(root);
        let arguments = [&["serve", &root, "--listen", "127.0.0.1:0"][..], more].concat();
        let mut command = clearway(&arguments);
        command.stderr(Stdio::null());
        Self::listening(command)
    }

    /// Starts a `serve` command, and waits until it listens.
    pub(crate) fn listening(command: Command) -> Self {
        Self::printing("listening on https://", command)
    }

    /// Starts a `balance` command, and waits until it listens.
    pub(crate) fn balancing(command: Command) -> Self {
        Self::printing("listening on ", command)
    }

    /// Starts a command whose first output line contains its address after `words`.
    pub(crate) fn printing(words: &str, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.strip_prefix(words).unwrap_or_else(|| panic!("{line}"));
        let address = address.split(' ').next().unwrap().trim().to_owned();
        let errors = child.stderr.take().map(BufReader::new);
        Self { child, output, errors, address }
    }

    /// Starts `view`, which serves its page.
    pub(crate) fn view(arguments: &[&str]) -> Self {
        let mut command = clearway(&[&["view", "--no-open"][..], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address =
            line.strip_prefix("the page is at http://").unwrap_or_else(|| panic!("{line}"));
        let address = address.trim().trim_end_matches('/').to_owned();
        Self { child, output, errors: None, address }
    }

    /// Starts `link`, which relays to `to`.
    pub(crate) fn link(to: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["link", "--listen", "127.0.0.1:0", "--to", to, "--json"];
        arguments.extend(more);
        let mut command = clearway(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("relaying ").unwrap_or_else(|| panic!("{line}"));
        let address = address.split(' ').next().unwrap().to_owned();
        Self { child, output, errors: None, address }
    }

    /// Returns the URL of a path, with the host name in the certificate.
    pub(crate) fn url(&self, path: &str) -> String {
        let port = self.address.rsplit_once(':').unwrap().1;
        format!("https://localhost:{port}/{path}")
    }

    /// Limits the program's file descriptors, so that it cannot open any more files.
    pub(crate) fn limit_descriptors(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let none = Rlimit { current: Some(3), maximum: Some(3) };
        prlimit(Some(pid), Resource::Nofile, none).unwrap();
    }

    /// Returns the current and the maximum number of descriptors (RLIMIT_NOFILE).
    pub(crate) fn descriptor_limits(&self) -> Rlimit {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", self.child.id())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
        Rlimit { current: numbers.next().unwrap(), maximum: numbers.next().unwrap() }
    }

    /// Returns the number of open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Returns the program's process ID.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line on the program's standard error.
    ///
    /// # Panics
    /// Panics if there is no line for two minutes.
    pub(crate) fn error_line(&mut self) -> String {
        let (mut line, errors) = (String::new(), self.errors.as_mut().unwrap());
        if errors.buffer().is_empty() {
            let limit = Timespec { tv_sec: 120, tv_nsec: 0 };
            let mut descriptors = [PollFd::new(errors.get_ref(), PollFlags::IN)];
            let ready = poll(&mut descriptors, Some(&limit)).unwrap();
            assert_ne!(ready, 0, "the program prints nothing more");
        }
        errors.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = kill_process(pid, signal);
    }

    /// Waits until the program ends on its own. It must succeed.
    pub(crate) fn end(mut self, patience: Duration) {
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(begun.elapsed() < patience, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(status.success(), "{status}");
    }

    /// Interrupts the program like Ctrl-C. Returns the rest of its output. The program must exit
    /// successfully.
    pub(crate) fn interrupt(mut self) -> String {
        self.signal(Signal::INT);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
