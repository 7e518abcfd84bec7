//! Tests HTTP/3 features of `serve` and `get` other than downloads: tunnels, datagrams, priorities,
//! and server shutdown.

use std::io::Write;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Running, Scratch, clearway, fail, succeed};

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = clearway(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child: Child = command.spawn().unwrap();
    let (mut pipe, input) = (child.stdin.take().unwrap(), input.to_vec());
    // Input is written in parallel with reading the output. Otherwise, the echoed data would fill
    // the pipes.
    let writing = std::thread::spawn(move || pipe.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

/// Content and datagrams pass through a tunnel, and unsupported protocols are rejected (RFC 9220,
/// RFC 9297).
#[test]
fn a_tunnel_to_the_echo() {
    let scratch = Scratch::new("tunnel");
    let content = scratch.fill("root/file", 200_000);
    let server = Running::serve(&scratch, "root", &["--echo"]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("tunnel"));
    let tunnel = ["get", "--quiet", "--ca", &certificate, "--tunnel"];
    let echoed = with_input(&[&tunnel[..], &["echo", &url]].concat(), &content);
    assert!(echoed.status.success(), "{}", String::from_utf8_lossy(&echoed.stderr));
    assert!(echoed.stdout == content);
    let datagrams = [&tunnel[..], &["echo", "--datagrams", &url]].concat();
    let echoed = with_input(&datagrams, b"one\ntwo\nthree\n");
    assert!(echoed.status.success(), "{}", String::from_utf8_lossy(&echoed.stderr));
    let mut lines: Vec<&[u8]> = echoed.stdout.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, [&b""[..], b"one", b"three", b"two"]);
    let unknown = fail(&[&tunnel[..], &["websocket", &url]].concat());
    assert!(unknown.contains("501"), "{unknown}");
    let log = server.interrupt();
    assert!(log.contains("CONNECT \"/tunnel\" 200 200.0 kB"), "{log}");
    assert!(log.contains("CONNECT \"/tunnel\" 501"), "{log}");
}

/// Without `--echo`, the server does not offer tunnels (RFC 9220 §3).
#[test]
fn tunnels_are_not_offered() {
    let scratch = Scratch::new("no-tunnel");
    scratch.fill("root/file", 1000);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    let refused = fail(&["get", "--ca", &certificate, "--tunnel", "echo", &url]);
    assert!(refused.contains("does not accept extended CONNECT"), "{refused}");
    let two = fail(&["get", "--ca", &certificate, "--tunnel", "echo", &url, &url]);
    assert!(two.contains("several URLs"), "{two}");
}

#[test]
fn priorities_and_tables_are_options() {
    let scratch = Scratch::new("priorities");
    let content = scratch.fill("root/file", 100_000);
    let more = ["--ignore-priorities", "--qpack-table", "64KiB", "--qpack-blocked-streams", "100"];
    for options in [&[][..], &["--qpack-table", "0"], &more] {
        let server = Running::serve(&scratch, "root", options);
        let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
        for table in ["0", "1KiB"] {
            let arguments = ["get", "--ca", &certificate, "--priority", "u=1,i", "--qpack-table"];
            let printed = succeed(&[&arguments[..], &[table, &url, &url]].concat());
            assert_eq!(printed.stdout, [&content[..], &content].concat());
        }
        server.interrupt();
    }
    let wrong = clearway(&["get", "--priority", "u=9", "https://localhost/"]).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("expected u=0 to u=7"), "{wrong:?}");
}

/// A client that reads nothing does not delay a server's shutdown for longer than
/// `--shutdown-timeout`.
#[test]
fn a_shutdown_takes_a_bounded_time() {
    let scratch = Scratch::new("bounded-shutdown");
    scratch.fill("root/file", 30_000_000);
    let server = Running::serve(&scratch, "root", &["--shutdown-timeout", "500ms"]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    let mut command = clearway(&["get", "--quiet", "--ca", &certificate, &url]);
    let mut client = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // A byte has arrived, and the remaining content does not fit into the pipe and all flow control
    // windows.
    let mut pipe = client.stdout.take().unwrap();
    std::io::Read::read_exact(&mut pipe, &mut [0]).unwrap();
    let begin = Instant::now();
    server.interrupt();
    let time = begin.elapsed();
    assert!((Duration::from_millis(400)..Duration::from_secs(10)).contains(&time), "{time:?}");
    client.kill().unwrap();
    client.wait().unwrap();
}
