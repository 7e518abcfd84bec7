//! Tests `clearway link` between programs that are not aware of it.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clearway_qlog::read::{EventKind, Frame, Item, QlogReader};

use crate::support::{Running, Scratch, succeed};

#[test]
fn relays_and_counts() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let to = server.local_addr().unwrap().to_string();
    let link = Running::link(&to, &["--to-server-loss-list", "2,4", "--to-client-duplicate=100%"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for number in 1..=5 {
        client.send_to(&[number; 100], &link.address).unwrap();
    }
    let mut buffer = [0; 2000];
    for number in [1, 3, 5] {
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [number; 100]);
        server.send_to(&buffer[..length], from).unwrap();
        for _ in 0..2 {
            let length = client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..length], [number; 100]);
        }
    }
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    let (to_server, to_client) = (&counters["to_server"], &counters["to_client"]);
    assert_eq!((&to_server["received"], &to_server["lost_listed"]), (&5.into(), &2.into()));
    assert_eq!(to_server["delivered_bytes"], 300);
    assert_eq!((&to_client["duplicated"], &to_client["delivered"]), (&3.into(), &6.into()));
    assert_eq!(counters["clients"], 1);
}

#[test]
fn a_download_survives_a_bad_link_with_rebinding() {
    let scratch = Scratch::new("bad-link");
    let content = scratch.fill("root/file", 1_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let conditions = [
        "--delay=2ms",
        "--loss=1%",
        "--reorder=2%",
        "--reorder-by=3ms",
        "--duplicate=1%",
        "--corrupt=0.5%",
        "--to-client-rate=20mbit",
        "--to-client-queue=100",
        "--rebind-after=50ms",
        "--rebind-every=200ms",
        "--rebind-address",
    ];
    let link = Running::link(&server.address, &conditions);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    // A client that only receives must send something so that the server learns its new address.
    let patient = ["get", "--keep-alive", "30ms", "--connect", &link.address];
    succeed(&[&patient[..], &["--ca", &certificate, "-o", &output, &url]].concat());
    assert_eq!(std::fs::read(&output).unwrap(), content);
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    assert!(counters["to_client"]["duplicated"].as_u64().unwrap() > 0, "{counters}");
    server.interrupt();
}

/// Returns the minimum round-trip time in the only trace in `folder`.
fn least_round_trip(folder: &str) -> Duration {
    let mut traces = std::fs::read_dir(Path::new(folder)).unwrap();
    let trace = QlogReader::open(&traces.next().unwrap().unwrap().path()).unwrap();
    let least = trace.filter_map(|item| match item {
        Item::Event(event) => match event.kind {
            EventKind::Metrics(metrics) => metrics.minimum_rtt,
            _ => None,
        },
        _ => None,
    });
    least.min().unwrap()
}

/// Threads that keep all processors busy until this is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn new() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..2 * thread::available_parallelism().map_or(1, usize::from) {
            let is_over = is_over.clone();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            });
        }
        Self(is_over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// On a busy machine, threads are delayed, even between reading the clock and calling the kernel.
/// This may make an RTT sample longer, which later samples correct, but never shorter.
#[test]
fn on_a_busy_machine_no_round_trip_is_shorter_than_the_path() {
    let scratch = Scratch::new("busy");
    scratch.fill("root/file", 1_000_000);
    let (server_log, client_log) = (scratch.path("server"), scratch.path("client"));
    let server = Running::serve(&scratch, "root", &["--qlog", &server_log]);
    let conditions = ["--delay=10ms", "--loss=2%"];
    let link = Running::link(&server.address, &conditions);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    let connect = ["get", "--connect", &link.address, "--qlog", &client_log];
    let busy = Busy::new();
    succeed(&[&connect[..], &["--ca", &certificate, "-o", &output, &url]].concat());
    drop(busy);
    link.interrupt();
    server.interrupt();
    for log in [server_log, client_log] {
        let least = least_round_trip(&log);

        assert!(least >= Duration::from_millis(20), "{least:?}");
    }
}

/// A path whose MTU shrinks during a transfer: the download continues with datagrams that still
/// pass.
#[test]
fn a_download_survives_a_black_hole_for_large_datagrams() {
    let scratch = Scratch::new("black-hole");
    let content = scratch.fill("root/file", 3_000_000);
    let log = scratch.path("log");
    let server = Running::serve(&scratch, "root", &["--qlog", &log]);
    let conditions = [
        "--delay=5ms",
        "--to-client-rate=20mbit",
        "--to-client-queue=100",
        "--mtu=1472,1300@500ms",
    ];
    let link = Running::link(&server.address, &conditions);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    let connect = ["get", "--connect", &link.address];
    succeed(&[&connect[..], &["--ca", &certificate, "-o", &output, &url]].concat());
    assert_eq!(std::fs::read(&output).unwrap(), content);
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    assert!(counters["to_client"]["too_large"].as_u64().unwrap() > 0, "{counters}");
    server.interrupt();
    let mut traces = std::fs::read_dir(Path::new(&log)).unwrap();
    let trace = QlogReader::open(&traces.next().unwrap().unwrap().path()).unwrap();
    let sizes = trace.filter_map(|item| match item {
        Item::Event(event) => match event.kind {
            EventKind::Mtu { new, .. } => Some(new),
            _ => None,
        },
        _ => None,
    });
    let sizes: Vec<_> = sizes.collect();
    let fell = sizes.iter().position(|size| *size == 1200).expect("the size never fell");
    assert!(sizes[..fell].contains(&1472), "{sizes:?}");
    assert!(sizes.last().is_some_and(|size| (1284..=1300).contains(size)), "{sizes:?}");
}

/// Uses real sockets: packets are marked ECT, a queue marks them CE, and the server receives the
/// ECN counts and responds.
#[test]
fn marks_of_a_queue_reach_the_sender() {
    let scratch = Scratch::new("marks");
    let content = scratch.fill("root/file", 2_000_000);
    let log = scratch.path("log");
    let server = Running::serve(&scratch, "root", &["--qlog", &log]);
    let conditions = ["--delay=5ms", "--to-client-rate=20mbit", "--to-client-mark-above=5ms"];
    let link = Running::link(&server.address, &conditions);
    let (certificate, output) = (scratch.path("cert.pem"), scratch.path("file"));
    let url = server.url("file");
    let connect = ["get", "--connect", &link.address];
    succeed(&[&connect[..], &["--ca", &certificate, "-o", &output, &url]].concat());
    assert_eq!(std::fs::read(&output).unwrap(), content);
    let counters: serde_json::Value = serde_json::from_str(&link.interrupt()).unwrap();
    assert!(counters["to_client"]["marked"].as_u64().unwrap() > 0, "{counters}");
    server.interrupt();
    let mut traces = std::fs::read_dir(Path::new(&log)).unwrap();
    let trace = QlogReader::open(&traces.next().unwrap().unwrap().path()).unwrap();
    let (mut states, mut reported) = (Vec::new(), 0);
    for item in trace {
        let Item::Event(event) = item else { continue };
        match event.kind {
            EventKind::Ecn(state) => states.push(state.into_string()),
            EventKind::PacketReceived(packet) => {
                let counts = packet.frames.iter().flatten().filter_map(|frame| match frame {
                    Frame::Ack { ce, .. } => *ce,
                    _ => None,
                });
                reported = counts.max().unwrap_or(0).max(reported);
            }
            _ => {}
        }
    }
    assert_eq!(states.last().map(String::as_str), Some("capable"), "{states:?}");
    assert!(reported > 0, "no CE mark was reported");
}
