//! Tests programs whose output is not being read: a full pipe, a stopped terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow};

use crate::support::{Scratch, clearway};

/// Timeout that is far longer than anything here takes: a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Number of requests that exceeds the number of threads that could be blocked.
const REQUESTS: usize = 40;

/// A named pipe with one reader, which reads only when the test requests it.
struct Fifo {
    path: String,
    reader: BufReader<File>,
}

impl Fifo {
    fn new(scratch: &Scratch, name: &str) -> Self {
        let path = scratch.path(name);
        rustix::fs::mkfifoat(CWD, path.as_str(), Mode::RUSR | Mode::WUSR).unwrap();
        // With this flag, opening the pipe does not wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&path).unwrap();
        Self { path, reader: BufReader::new(reader) }
    }

    /// Returns the pipe's write end, for use as a program's output.
    fn writer(&self) -> Stdio {
        OpenOptions::new().write(true).open(&self.path).unwrap().into()
    }

    fn line(&mut self) -> String {
        line(&mut self.reader)
    }

    /// Fills the pipe, so that more writes block.
    fn fill(&self) {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let writer = OpenOptions::new().write(true).custom_flags(flags).open(&self.path).unwrap();
        while (&writer).write(&[b'\n'; 512]).is_ok() {}
        while (&writer).write(b"\n").is_ok() {}
    }
}

/// Waits for a line from a non-blocking file.
fn line(reader: &mut BufReader<File>) -> String {
    let (begun, mut line) = (Instant::now(), String::new());
    while !line.ends_with('\n') {
        assert!(begun.elapsed() < TIMEOUT, "no line: {line:?}");
        // Reading fails until data is available.
        let _ = reader.read_line(&mut line);
        std::thread::sleep(Duration::from_millis(1));
    }
    line
}

/// A running program, which is killed at the end of the test at the latest.
struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the program to exit, which must happen soon. Returns the exit status.
    fn ends(mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < TIMEOUT, "it does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a command that serves one file.
fn serve(scratch: &Scratch, more: &[&str]) -> Command {
    scratch.fill("root/file", 1000);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let arguments = ["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate];
    let mut command = clearway(&[&arguments[..], more].concat());
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Requests `paths` in one command, which must succeed, or at least receive responses.
fn request(scratch: &Scratch, listening: &str, paths: &[String]) {
    let port = listening.split(' ').nth(2).unwrap().rsplit_once(':').unwrap().1;
    let certificate = scratch.path("cert.pem");
    let urls: Vec<_> =
        paths.iter().map(|path| format!("https://localhost:{port}/{path}")).collect();
    let mut arguments = vec!["get", "--quiet", "--timeout", "20s", "--ca", &certificate];
    arguments.extend(urls.iter().map(String::as_str));
    let mut command = clearway(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let all_are_missing = errors.contains("404");
    assert!(output.status.success() || all_are_missing, "{errors:.1000}");
    assert!(!errors.contains("timed out after"), "{errors:.1000}");
}

fn files(count: usize) -> Vec<String> {
    vec!["file".to_owned(); count]
}

#[test]
fn a_server_whose_log_is_not_read_serves_and_ends() {
    let scratch = Scratch::new("stalled-serve");
    let mut log = Fifo::new(&scratch, "log");
    let mut command = serve(&scratch, &[]);
    let server = Program::start({
        command.stdout(log.writer());
        command
    });
    let listening = log.line();
    log.fill();
    request(&scratch, &listening, &files(REQUESTS));
    // The server also responds to a separate client.
    request(&scratch, &listening, &files(1));
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn lines_that_are_left_out_are_counted_and_long_paths_are_cut() {
    let scratch = Scratch::new("stalled-counted");
    let mut log = Fifo::new(&scratch, "log");
    let errors = scratch.path("errors");
    let mut command = serve(&scratch, &["--metrics", "127.0.0.1:0"]);
    let server = Program::start({
        command.stdout(log.writer()).stderr(File::create(&errors).unwrap());
        command
    });
    let listening = log.line();
    // Each log line contains 1 kB of the path's 20 kB.
    request(&scratch, &listening, &["\"".repeat(20_000)]);
    let line = log.line();
    assert!(line.contains("more bytes)\" 404 ") && line.len() < 1200, "{}: {line}", line.len());
    log.fill();
    for _ in 0..10 {
        request(&scratch, &listening, &vec!["x".repeat(1100); 150]);
    }
    let metrics = fs::read_to_string(&errors).unwrap();
    let address = metrics.lines().find_map(|line| line.strip_prefix("metrics are at ")).unwrap();
    let text = ureq::get(address).call().unwrap().body_mut().read_to_string().unwrap();
    let name = "clearway_output_lines_dropped_total{stream=\"stdout\"} ";
    let dropped: f64 = text.lines().find_map(|it| it.strip_prefix(name)).unwrap().parse().unwrap();
    assert!(dropped > 100.0, "{dropped}");
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_server_in_a_stopped_terminal_serves_and_ends() {
    let scratch = Scratch::new("stalled-terminal");
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    rustix::io::ioctl_fionbio(&terminal, true).unwrap();
    let other_end = ptsname(&terminal, Vec::new()).unwrap();
    let other_end = open(other_end, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let stream = || Stdio::from(other_end.try_clone().unwrap());
    let mut command = serve(&scratch, &[]);
    let server = Program::start({
        command.stdin(stream()).stdout(stream()).stderr(stream());
        command
    });
    let mut reader = BufReader::new(File::from(terminal));
    let mut listening = String::new();
    while !listening.starts_with("listening") {
        listening = line(&mut reader);
    }
    // This has the same effect as Ctrl-S.
    tcflow(&other_end, Action::OOff).unwrap();
    request(&scratch, &listening, &files(REQUESTS));
    server.signal(Signal::TERM);
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let scratch = Scratch::new("stalled-twice");
    scratch.fill("root/large", 50_000_000);
    let mut log = Fifo::new(&scratch, "log");
    let mut command = serve(&scratch, &["--shutdown-timeout", "10min"]);
    let server = Program::start({
        command.stdout(log.writer());
        command
    });
    let listening = log.line();
    log.fill();
    let port = listening.split(' ').nth(2).unwrap().rsplit_once(':').unwrap().1;
    let (certificate, url) = (scratch.path("cert.pem"), format!("https://localhost:{port}/large"));
    // This download never ends, because its output is not read.
    let mut command = clearway(&["get", "--quiet", "--ca", &certificate, &url]);
    let mut client = Program::start({
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    });
    client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 100]).unwrap();
    let begun = Instant::now();
    server.signal(Signal::TERM);
    // Two signals in quick succession may count as one.
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::TERM);
    server.ends();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_balancer_whose_messages_are_not_read_checks_servers_and_ends() {
    let scratch = Scratch::new("stalled-balance");
    let (mut messages, backends) = (Fifo::new(&scratch, "messages"), scratch.path("backends.toml"));
    let of = |name: &str| {
        format!(
            "[[server]]\nname = \"{name}\"\naddress = \"127.0.0.1:9\"\npreface = false\n\
             [health]\ninterval = \"50ms\"\ntimeout = \"50ms\"\ndown-after = 1\n"
        )
    };
    fs::write(&backends, of("first")).unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut command = clearway(&[&["balance", "--backends", &backends][..], &arguments].concat());
    let balancer = Program::start({
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.writer());
        command
    });
    let mut metrics = String::new();
    while !metrics.starts_with("metrics are at ") {
        metrics = messages.line();
    }
    let metrics = metrics["metrics are at ".len()..].trim().to_owned();
    messages.fill();
    // Each change to the file causes a line, and so does a server that is down.
    for number in 0..3 {
        let name = format!("server-{number}");
        fs::write(&backends, of(&name)).unwrap();
        balancer.signal(Signal::HUP);
        let checked = format!("server_checks_total{{server=\"{name}\",outcome=\"failed\"}} ");
        let begun = Instant::now();
        loop {
            let text = ureq::get(&metrics).call().unwrap().body_mut().read_to_string().unwrap();
            let count = text.split_once(&checked).map(|(_, rest)| &rest[..1]);
            if count.is_some_and(|first_digit| first_digit != "0") {
                break;
            }
            assert!(begun.elapsed() < TIMEOUT, "{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    balancer.signal(Signal::TERM);
    assert_eq!(balancer.ends(), Some(0));
}
