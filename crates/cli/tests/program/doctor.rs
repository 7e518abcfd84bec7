//! Tests `doctor`: the exit status is the verdict.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_ip_multicast_if;
use serde_json::Value;

use crate::support::{Running, Scratch, clearway};

/// Environment variable that marks this process as the child that reads.
const READER: &str = "CLEARWAY_TEST_READER";

/// A reader in a separate process, and a sender in this one. For each datagram, the reader waits as
/// if it queried a database, and fifty more arrive in the meantime.
struct SlowReader {
    is_over: Arc<AtomicBool>,
    sending: JoinHandle<()>,
    reader: Child,
    port: u16,
}

impl SlowReader {
    const WORK: Duration = Duration::from_millis(50);
    const PAUSE: Duration = Duration::from_millis(10);
    const BATCH: usize = 10;

    fn start() -> Self {
        let mut reader = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "doctor::reads_slowly"])
            .env(READER, "yes")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(reader.stdout.take().unwrap()).lines();
        let port =
            lines.map(Result::unwrap).find_map(|line| line.strip_prefix("port ")?.parse().ok());
        let port = port.unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let of_sender = is_over.clone();
        let sending = thread::spawn(move || {
            while !of_sender.load(Ordering::Relaxed) {
                for _ in 0..Self::BATCH {
                    sender.send_to(&[0; 1200], ("127.0.0.1", port)).unwrap();
                }
                thread::sleep(Self::PAUSE);
            }
        });
        Self { is_over, sending, reader, port }
    }

    fn end(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.sending.join().unwrap();
        self.reader.kill().unwrap();
        self.reader.wait().unwrap();
    }
}

#[test]
#[ignore = "not a test, but the process that reads in one"]
fn reads_slowly() {
    if std::env::var_os(READER).is_none() {
        return;
    }
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The name of this test may precede it, without a line end.
    println!("\nport {}", receiver.local_addr().unwrap().port());
    loop {
        receiver.recv(&mut [0; 1500]).unwrap();
        thread::sleep(SlowReader::WORK);
    }
}

fn doctor(arguments: &[&str]) -> Output {
    clearway(&[&["doctor"][..], arguments].concat()).output().unwrap()
}

fn verdict(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_reader_that_is_too_slow_is_named_within_ten_seconds_and_a_file_says_the_same() {
    let scratch = Scratch::new("doctor-slow");
    let file = scratch.path("snapshots.jsonl");
    let reader = SlowReader::start();
    let (port, process) = (reader.port.to_string(), reader.reader.id());
    let output = doctor(&["--port", &port, "--json", "--save", &file]);
    reader.end();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let verdict = verdict(&output);
    // This is the time between snapshots: the rest may take longer on a busy machine.
    assert!(verdict["seconds"].as_f64().unwrap() < 11.0, "{verdict}");
    assert_eq!(verdict["outcome"], "loss");
    // Other tests may lose packets elsewhere on this host.
    let findings = verdict["findings"].as_array().unwrap();
    let local = format!("127.0.0.1:{port}");
    let is_this = |finding: &&Value| finding["cause"]["rate"]["local"] == *local;
    let finding = findings.iter().find(is_this).unwrap_or_else(|| panic!("{verdict}"));
    assert_eq!(finding["stage"], "socket", "{verdict}");
    assert_eq!(finding["cause"]["rate"]["process"][0], process, "{verdict}");
    let again = doctor(&["--port", &port, "--json", "--from", &file]);
    assert_eq!((again.status.code(), again.stdout), (Some(1), output.stdout));
    let text = doctor(&["--port", &port, "--from", &file]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("Loss") && text.contains(&local), "{text}");
    assert!(text.contains("Do not enlarge the receive buffer"), "{text}");
}

/// A sender that sends to a socket that is not read, to a port without a socket, and to a multicast
/// group without members, until it is dropped.
struct Careless {
    is_over: Arc<AtomicBool>,
    sending: Option<JoinHandle<()>>,
}

impl Careless {
    fn start() -> Self {
        let unread = UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_ip_multicast_if(&sender, &Ipv4Addr::LOCALHOST).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let of_sender = is_over.clone();
        let sending = thread::spawn(move || {
            while !of_sender.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    sender.send_to(&[0; 100], "224.0.0.251:5353").unwrap();
                    sender.send_to(&[0; 1200], unread.local_addr().unwrap()).unwrap();
                    sender.send_to(&[0; 100], closed).unwrap();
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        Self { is_over, sending: Some(sending) }
    }
}

impl Drop for Careless {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.sending.take().unwrap().join();
    }
}

/// A server's doctor sees losses of other programs on the host, but raises no alarm for them.
#[test]
fn a_server_does_not_answer_for_what_other_programs_lose() {
    let scratch = Scratch::new("doctor-others");
    scratch.fill("root/file", 100);
    let root = scratch.path("root");
    let mut command =
        clearway(&["serve", &root, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    command.stderr(Stdio::piped());
    let mut server = Running::listening(command);
    let metrics = loop {
        let line = server.error_line();
        if let Some(address) = line.strip_prefix("metrics are at ") {
            break address.trim().to_owned();
        }
    };
    let _careless = Careless::start();
    let begun = Instant::now();
    loop {
        let mut response = ureq::get(&metrics).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.rsplit_once(' ')?.1.parse::<f64>().ok()
        };
        assert_eq!(value("clearway_doctor_verdict{outcome=\"loss\"}"), Some(0.0), "{text}");
        let elsewhere = |stage_and_cause: &str| {
            value(&format!("clearway_doctor_elsewhere_lost_per_second{{{stage_and_cause}}}"))
        };
        let strays = elsewhere("stage=\"udp\",cause=\"no_socket\"");
        let overflows = elsewhere("stage=\"socket\",cause=\"overflow\"");
        // For root, the kernel's drop reasons rule out a firewall; for other users, it may be the
        // cause.
        let undelivered = elsewhere("stage=\"ip\",cause=\"undelivered\"");
        let undelivered = undelivered.or(elsewhere("stage=\"netfilter\",cause=\"firewall\""));
        if [strays, overflows, undelivered].iter().all(|it| it.is_some_and(|it| it > 10.0)) {
            assert_eq!(value("clearway_doctor_verdict{outcome=\"no_loss\"}"), Some(1.0), "{text}");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "others lose something: {text}");
        thread::sleep(Duration::from_millis(200));
    }
    server.interrupt();
}

#[test]
fn what_is_wrong_with_the_command_is_no_verdict() {
    let scratch = Scratch::new("doctor-wrong");
    let file = scratch.path("cut-off.jsonl");
    fs::write(&file, "{\"taken\": 1,").unwrap();
    let (file, missing) = (&file[..], &scratch.path("missing")[..]);
    for (arguments, words) in [
        (&["--from", missing][..], "cannot read"),
        (&["--from", file], "line 1"),
        (&["--for", "never"], "--for"),
        (&["--watch", "--json"], "cannot be used with"),
        (&["--no-such-option"], "unexpected argument"),
        (&["--watch"], "--watch needs a terminal"),
    ] {
        let output = doctor(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
    // A file without snapshots contains no information.
    fs::write(file, "").unwrap();
    assert_eq!(doctor(&["--from", file]).status.code(), Some(2));
    assert_eq!(doctor(&["--help"]).status.code(), Some(0));
}

#[test]
fn the_page_shows_the_path() {
    let mut command = clearway(&["doctor", "--listen", "127.0.0.1:0"]);
    command.stderr(Stdio::null());
    let page = Running::printing("the doctor's page is at ", command);
    let url = &page.address;
    let begun = Instant::now();
    loop {
        let mut text = String::new();
        let mut response = ureq::get(url).call().unwrap();
        response.body_mut().as_reader().read_to_string(&mut text).unwrap();
        assert!(text.contains("receiving") && text.contains("softnet"), "{text}");
        // As soon as there are two snapshots, the device's rate is shown.
        if text.contains("/s\n") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
    }
    page.interrupt();
}
