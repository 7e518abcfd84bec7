//! Tests that a program that is ended early reports this in its output and exit status, and leaves
//! no incomplete file.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, Scratch, clearway};

/// Timeout that is far longer than anything here takes: a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

/// Returns the exit status and the output on standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (child.wait().unwrap().code(), errors)
}

#[test]
fn a_download() {
    let scratch = Scratch::new("interrupted-get");
    scratch.fill("root/file", 3_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let link = Running::link(&server.address, &["--loss", "100%", "--loss-after-bytes", "500kB"]);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let arguments = ["get", "--ca", &certificate, "--connect", &link.address];
        let mut command = clearway(&[&arguments[..], &["-o", &output, &url]].concat());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while scratch.names().len() < 3 {
            assert!(start.elapsed() < TIMEOUT, "there is no temporary file");
            thread::yield_now();
        }
        send_signal(&child, signal);
        let (code, errors) = end(child);
        assert_eq!(code, Some(status));
        assert_eq!(errors, "clearway: interrupted; incomplete files were removed\n");
        assert_eq!(scratch.names(), ["cert.pem", "root"]);
    }
}

#[test]
fn a_download_whose_reader_does_not_read() {
    let scratch = Scratch::new("interrupted-pipe");
    scratch.fill("root/file", 3_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    let mut command = clearway(&["get", "--ca", &certificate, &url]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One byte has arrived, and the remaining content does not fit into a pipe.
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut [0]).unwrap();
    send_signal(&child, Signal::INT);
    assert_eq!(end(child).0, Some(130));
}

#[test]
fn an_interrupted_demo_prints_its_results() {
    let scratch = Scratch::new("interrupted-demo");
    let qlog = scratch.path("qlog");
    let arguments = ["--size", "1", "--loss-for", "0s", "--runs", "1000000"];
    let arguments = [&["demo", "--controller", "reno", "--qlog", &qlog][..], &arguments].concat();
    let mut command = clearway(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    errors.read_line(&mut first).unwrap();
    assert!(first.starts_with("reno 1 "), "{first}");
    // When the second run ends, the first one's row is complete.
    errors.read_line(&mut first).unwrap();
    send_signal(&child, Signal::INT);
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.lines().last(), Some("clearway: interrupted"));
    let mut table = String::new();
    child.stdout.take().unwrap().read_to_string(&mut table).unwrap();
    assert!(table.starts_with("controller") && table.contains("\nreno 1 "), "{table}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
