//! The server and client programs for the tests, and a folder for each test.

pub(crate) mod path;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde_json::Value;

/// The name of the served file.
pub(crate) const FILE: &str = "file";

/// Time limit for a client program.
const LIMIT: Duration = Duration::from_secs(120);

/// The program of another QUIC stack.
pub(crate) struct Peer {
    program: PathBuf,
}

/// A server, or a relay in front of it; terminated when dropped.
pub(crate) struct Server {
    child: Child,
    /// The address that the server or relay listens on; the first one if there are several.
    pub(crate) address: String,
}

/// A folder with a certificate, its key, and a file to serve.
pub(crate) struct Workspace {
    folder: PathBuf,
    content: Vec<u8>,
}

impl Workspace {
    pub(crate) fn new(name: &str, size: usize) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["root", "qlog"] {
            fs::create_dir_all(folder.join(part)).expect("the test's folders can be created");
        }
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certified = rcgen::generate_simple_self_signed(names).expect("a certificate");
        fs::write(folder.join("cert.pem"), certified.cert.pem()).expect("cert.pem");
        fs::write(folder.join("key.pem"), certified.signing_key.serialize_pem()).expect("key.pem");
        // Pseudorandom bytes, so that bytes in the wrong place are detected.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let content: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .take(size)
        .collect();
        fs::write(folder.join("root").join(FILE), &content).expect("the file to serve");
        Self { folder, content }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Checks that the file at `path` is identical to the served file.
    pub(crate) fn assert_same(&self, path: &Path) {
        let received = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(received.len(), self.content.len(), "the length differs");
        let differs = received.iter().zip(&self.content).position(|(a, b)| a != b);
        assert_eq!(differs, None, "the bytes differ");
    }
}

impl Peer {
    /// Returns the peer's program; prints a message and returns `None` if it was not built.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let folder = std::env::var_os("PEERS_OUT").map(PathBuf::from);
        let program = folder.map(|folder| folder.join(name)).filter(|program| program.exists());
        if program.is_none() {
            let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!in_ci, "{name} was not built");
            println!("skipped: {name} was not built (cargo xtask test --peers builds it)");
        }
        program.map(|program| Self { program })
    }

    /// Returns a command that runs the peer.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }

    pub(crate) fn serve(&self, workspace: &Workspace) -> Server {
        let mut command = Command::new(&self.program);
        command.args(["server", "--listen", "127.0.0.1:0", "--root", &workspace.text("root")]);
        command.args(["--cert", &workspace.text("cert.pem")]);
        command.args(["--key", &workspace.text("key.pem"), "--qlog", &workspace.text("qlog")]);
        Server::start(&mut command)
    }

    /// Starts the server without traces and without its messages about connections.
    pub(crate) fn serve_quietly(&self, workspace: &Workspace) -> Server {
        let mut command = Command::new(&self.program);
        command.args(["server", "--listen", "127.0.0.1:0", "--root", &workspace.text("root")]);
        command.args(["--cert", &workspace.text("cert.pem"), "--key", &workspace.text("key.pem")]);
        Server::start(command.stderr(Stdio::null()))
    }

    pub(crate) fn get(&self, workspace: &Workspace, address: &str, output: &Path) {
        let mut command = Command::new(&self.program);
        command.args(["client", "--ca", &workspace.text("cert.pem"), "--connect", address]);
        command.args(["--qlog", &workspace.text("qlog")]);
        command.arg("--output").arg(output).arg(url(address));
        succeed(command);
    }
}

/// Returns the sum of the samples of a metric, regardless of their labels.
pub(crate) fn metric(address: &str, name: &str) -> f64 {
    let mut stream = TcpStream::connect(address).expect("the address of the metrics");
    stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    let samples = response.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let values: Vec<f64> =
        samples.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
    assert!(!values.is_empty(), "there is no metric {name}: {response}");
    values.into_iter().sum()
}

/// Returns a command that runs the program under test.
pub(crate) fn clearway() -> Command {
    let program = std::env::var_os("CLEARWAY");
    Command::new(
        program.expect("CLEARWAY is the path of the program (run cargo xtask test --peers)"),
    )
}

pub(crate) fn clearway_serve(workspace: &Workspace) -> Server {
    clearway_serve_with(workspace, &[])
}

/// Starts a server with these options. Its traces are written to the folder `own`.
pub(crate) fn clearway_serve_with(workspace: &Workspace, options: &[&str]) -> Server {
    let mut command = clearway();
    command.args(["serve", &workspace.text("root"), "--listen", "127.0.0.1:0"]);
    command.args(["--cert", &workspace.text("cert.pem")]);
    command.args(["--key", &workspace.text("key.pem"), "--qlog", &workspace.text("own")]);
    Server::start(command.args(options))
}

pub(crate) fn clearway_get(workspace: &Workspace, address: &str, output: &Path) {
    clearway_get_with(workspace, address, output, &[]);
}

/// Downloads the file with these options. The trace is written to the folder `own`.
pub(crate) fn clearway_get_with(
    workspace: &Workspace,
    address: &str,
    output: &Path,
    options: &[&str],
) {
    let mut command = clearway();
    command.args(["get", "--ca", &workspace.text("cert.pem"), "--connect", address]);
    command.args(["--qlog", &workspace.text("own")]).args(options);
    command.arg("--output").arg(output).arg(url(address));
    succeed(command);
}

/// Starts a relay to the server at `address` that emulates a network with these conditions.
pub(crate) fn clearway_link(address: &str, conditions: &[&str]) -> Server {
    let mut command = clearway();
    command.args(["link", "--listen", "127.0.0.1:0", "--to", address]).args(conditions);
    // The program prints its report on standard output when it exits.
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Server::await_address(&mut command, |child| child.stderr.take().map(|it| Box::new(it) as _))
}

/// Returns the QUIC version that `clearway` negotiated on its last connection, according to the
/// trace.
pub(crate) fn version_used(workspace: &Workspace) -> String {
    const FIELD: &str = "\"chosen_version\":\"";
    let folder = workspace.path("own");
    let logs = fs::read_dir(&folder).expect("a folder of traces");
    let log = logs.map(|log| log.expect("a trace").path()).max().expect("a trace");
    let text = fs::read_to_string(log).expect("a trace");
    let chosen = text.rsplit_once(FIELD).expect("a version was chosen").1;
    chosen.split('"').next().unwrap_or_default().to_owned()
}

/// Returns the output of `clearway view --findings` for the traces written by a peer. There must be
/// at least one trace.
pub(crate) fn read_traces(workspace: &Workspace) -> Vec<Value> {
    let folder = workspace.path("qlog");
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    let mut command = clearway();
    command.args(["view", "--findings", "--json"]).args(&files);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let report = String::from_utf8_lossy(&output.stdout);
    // Exit status 1 means that there are findings, which this test accepts.
    assert!(matches!(output.status.code(), Some(0 | 1)) && !files.is_empty(), "{output:?}");
    report.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Returns the URL of the served file, with the host name of the certificate.
pub(crate) fn url(address: &str) -> String {
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    format!("https://localhost:{port}/{FILE}")
}

/// Runs a command that has to succeed within the time limit.
pub(crate) fn succeed(command: Command) {
    let description = format!("{command:?}");
    let output = output(command);
    assert!(
        output.status.success(),
        "{description} failed with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a command, and returns its output. Panics if it does not exit within the time limit.
pub(crate) fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("a process");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let _ = pidfd_send_signal(&process, Signal::KILL);
        panic!("{command:?} did not exit within {LIMIT:?}");
    });
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

impl Server {
    /// Starts a server that prints its address on standard output.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped());
        Self::await_address(command, |child| child.stdout.take().map(|it| Box::new(it) as _))
    }

    /// Starts a server that prints the URLs of its sockets on standard output. Returns it with
    /// these URLs.
    pub(crate) fn start_with_sockets(command: &mut Command, count: usize) -> (Self, Vec<String>) {
        command.stdout(Stdio::piped());
        let output = |child: &mut Child| child.stdout.take().map(|it| Box::new(it) as _);
        let (child, lines) = await_listening(command, count, output);
        let urls = lines.iter().filter_map(|line| listening_in(line)).map(str::to_owned);
        let address = address_in(&lines[0]).expect("an address");
        (Self { child, address }, urls.collect())
    }

    /// Starts `command`, which has the option `--metrics`. Also returns the address of the metrics,
    /// which it prints on standard error.
    pub(crate) fn start_with_metrics(command: &mut Command) -> (Self, String) {
        const BEGINNING: &str = "metrics are at http://";
        let mut server = Self::start(command.stderr(Stdio::piped()));
        let errors = server.child.stderr.take().expect("standard error is piped");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let metrics = lines.find_map(|line| {
            Some(line.strip_prefix(BEGINNING)?.trim_end_matches("/metrics").to_owned())
        });
        let metrics = metrics.unwrap_or_else(|| panic!("{command:?} has no metrics"));
        (server, metrics)
    }

    /// Starts `command`, and waits for the output line that contains the address it listens on.
    fn await_address(
        command: &mut Command,
        output: impl FnOnce(&mut Child) -> Option<Box<dyn Read>>,
    ) -> Self {
        let (child, lines) = await_listening(command, 1, output);
        Self { child, address: address_in(&lines[0]).expect("an address") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Starts `command`, and waits for this many output lines that contain an address it listens on.
fn await_listening(
    command: &mut Command,
    count: usize,
    output: impl FnOnce(&mut Child) -> Option<Box<dyn Read>>,
) -> (Child, Vec<String>) {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let output = output(&mut child).expect("the output is piped");
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    let lines = lines.filter(|line| listening_in(line).is_some()).take(count);
    let lines: Vec<_> = lines.collect();
    if lines.len() < count {
        let _ = child.kill();
        panic!("{command:?} did not print where it listens: {lines:?}, {:?}", child.wait());
    }
    (child, lines)
}

/// Parses the address or URL from `listening ADDRESS`, `listening on URL`, `relaying ADDRESS`,
/// `proxy at URL`, or `tunnel through ADDRESS: …`.
fn listening_in(line: &str) -> Option<&str> {
    const BEGINNINGS: [&str; 4] = ["listening ", "relaying ", "proxy at ", "tunnel through "];
    let rest = BEGINNINGS.into_iter().find_map(|beginning| line.strip_prefix(beginning))?;
    let rest = rest.strip_prefix("on ").unwrap_or(rest);
    rest.split(' ').next()
}

/// Parses the address from a line that contains an address or a URL.
fn address_in(line: &str) -> Option<String> {
    let listening = listening_in(line)?;
    let address = listening.split_once("://").map_or(listening, |(_, address)| address);
    let address = address.split('/').next()?.trim_end_matches(':');
    Some(address.replace("localhost", "127.0.0.1"))
}
