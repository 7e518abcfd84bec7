//! Tests that each server event that an operator must know about causes a line on standard error
//! and is counted in the metrics.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::support::{Running, Scratch, clearway, succeed};

/// The files that a server reloads.
struct Files<'a>(&'a Scratch);

impl Files<'_> {
    fn write(&self, name: &str, content: &str) {
        let path = self.0.path(name);
        fs::write(format!("{path}.new"), content).unwrap();
        fs::rename(format!("{path}.new"), path).unwrap();
    }

    fn write_good(&self, number: u8) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        self.write("cert.pem", &made.cert.pem());
        self.write("key.pem", &made.signing_key.serialize_pem());
        self.write("ca.pem", &made.cert.pem());
        self.write("keys", &format!("{number:02x}").repeat(32));
        self.write("lb.toml", &format!("config-id = {number}\nserver-id = \"0{number}\"\n"));
    }

    fn write_bad(&self) {
        ["cert.pem", "ca.pem", "keys", "lb.toml"].iter().for_each(|name| self.write(name, "?"));
    }
}

/// A server, and the address of its metrics.
struct Server {
    running: Running,
    metrics: String,
}

impl Server {
    fn start(scratch: &Scratch) -> Self {
        let path = |name: &str| scratch.path(name);
        let mut command = clearway(&["serve", &path("root"), "--listen", "127.0.0.1:0", "--quiet"]);
        for (option, file) in [
            ("--cert", "cert.pem"),
            ("--key", "key.pem"),
            ("--client-ca", "ca.pem"),
            ("--ticket-keys", "keys"),
            ("--quic-lb", "lb.toml"),
            ("--qlog", "qlog"),
        ] {
            command.args([option, &path(file)]);
        }
        command.args(["--client-certificate", "optional", "--qlog-max-total", "1MiB"]);
        command.args(["--metrics", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut server = Self { running: Running::listening(command), metrics: String::new() };
        let line = server.line("metrics are at http://");
        server.metrics = line.trim().rsplit("http://").next().unwrap().to_owned();
        server
    }

    /// Waits for a line on standard error that contains this text.
    fn line(&mut self, text: &str) -> String {
        loop {
            let line = self.running.error_line();
            assert!(!line.is_empty(), "the server has ended without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns how many times an event has occurred.
    fn count(&self, event: &str) -> u64 {
        let mut response = ureq::get(format!("http://{}", self.metrics)).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        let sample = format!("clearway_events_total{{event=\"{event}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&sample));
        value.unwrap_or_else(|| panic!("no {event} in {text}")).parse().unwrap()
    }

    fn limit(&self, current: u64) {
        let process = Pid::from_raw(self.running.process().cast_signed());
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(current), maximum };
        prlimit(process, Resource::Nofile, limit).unwrap();
    }

    /// Returns the lowest unused descriptor number. With this number as the limit, nothing can be
    /// opened.
    fn first_free_descriptor(&self) -> u64 {
        let is_free = |number: &u64| {
            let path = format!("/proc/{}/fd/{number}", self.running.process());
            fs::symlink_metadata(path).is_err()
        };
        (0..).find(is_free).unwrap()
    }
}

#[test]
fn events_are_lines_and_counts() {
    let scratch = Scratch::new("events");
    let content = scratch.fill("root/file", 1_000);
    let files = Files(&scratch);
    files.write_good(1);
    let mut server = Server::start(&scratch);
    let expect = |server: &mut Server, events: &[(&str, &str)]| {
        // The lines may come in any order, but all events are counted when the metrics are read.
        let mut missing: Vec<_> = events.to_vec();
        while !missing.is_empty() {
            let line = server.line("");
            missing.retain(|(_, text)| !line.contains(text));
        }
        for (event, _) in events {
            assert!(server.count(event) > 0, "{event}");
        }
    };
    files.write_bad();
    expect(
        &mut server,
        &[
            ("certificates_not_reloaded", "the certificates were not reloaded"),
            ("client_ca_not_reloaded", "the client CA was not reloaded"),
            (
                "ticket_keys_not_reloaded",
                "were not reloaded and the previous ones stay in use: each key must be",
            ),
            ("quic_lb_not_reloaded", "the QUIC-LB configuration was not reloaded"),
        ],
    );
    assert_eq!(server.count("certificates_reloaded"), 0);
    files.write_good(2);
    expect(
        &mut server,
        &[
            ("certificates_reloaded", "reloaded the certificate"),
            ("client_ca_reloaded", "reloaded the client CA"),
            ("ticket_keys_reloaded", "reloaded the ticket keys"),
            ("quic_lb_reloaded", "QUIC-LB, configuration 2"),
        ],
    );
    server.running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(2_500));
    server.running.signal(Signal::CONT);
    expect(&mut server, &[("process_stalled", "the program did not run for")]);
    server.limit(server.first_free_descriptor());
    let (certificate, url) = (scratch.path("cert.pem"), server.running.url("file"));
    for _ in 0..3 {
        let output = succeed(&["get", "--quiet", "--ca", &certificate, &url]);
        assert_eq!(output.stdout, content);
    }
    server.limit(1_024);
    expect(&mut server, &[("no_descriptor", "using reserved descriptors")]);
    server.running.signal(Signal::INT);
    server.line("interrupted: draining");
    server.line("drained: all responses were complete");
}
