//! Tests `serve --quic-lb`: a client downloads while the QUIC-LB file changes.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Running, Scratch, clearway, fail};

/// The length of all connection IDs here.
const ID_LEN: usize = 10;

/// The server's connection IDs seen by the relay.
#[derive(Default)]
struct Seen {
    /// Connection IDs in the server's long headers.
    by_server: Vec<Vec<u8>>,
    /// Connection IDs in the client's short headers.
    by_client: Vec<[u8; ID_LEN]>,
}

/// Forwards datagrams between a client and the server, and reads their connection IDs as a balancer
/// does.
struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(server: &str) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        };
        let (front, back) = (socket(), socket());
        back.connect(server).unwrap();
        let address = front.local_addr().unwrap();
        let (seen, is_over) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let (notes, ends) = (seen.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let client = Mutex::new(None);
            thread::scope(|scope| {
                scope.spawn(|| to_server(&front, &back, &client, &notes, &ends));
                to_client(&front, &back, &client, &notes, &ends);
            });
        });
        Self { address, seen, is_over, thread: Some(thread) }
    }

    /// Returns the connection IDs that the client has used since the last call.
    fn taken(&self) -> Vec<[u8; ID_LEN]> {
        std::mem::take(&mut self.seen.lock().unwrap().by_client)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Receives the next datagram, unless none arrives for a while.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    match socket.recv_from(buffer) {
        Ok(received) => Some(received),
        Err(error) => match error.kind() {
            // The server may have ended, or the test may have been stopped for a while.
            ErrorKind::WouldBlock | ErrorKind::ConnectionRefused | ErrorKind::Interrupted => None,
            _ => panic!("{error}"),
        },
    }
}

fn to_server(
    front: &UdpSocket,
    back: &UdpSocket,
    client: &Mutex<Option<SocketAddr>>,
    seen: &Mutex<Seen>,
    is_over: &AtomicBool,
) {
    let mut buffer = [0; 2000];
    while !is_over.load(Ordering::SeqCst) {
        let Some((length, from)) = receive(front, &mut buffer) else { continue };
        *client.lock().unwrap() = Some(from);
        if let [0x00..=0x7f, rest @ ..] = &buffer[..length]
            && let Some(id) = rest.first_chunk()
        {
            seen.lock().unwrap().by_client.push(*id);
        }
        let _ = back.send(&buffer[..length]);
    }
}

fn to_client(
    front: &UdpSocket,
    back: &UdpSocket,
    client: &Mutex<Option<SocketAddr>>,
    seen: &Mutex<Seen>,
    is_over: &AtomicBool,
) {
    let mut buffer = [0; 2000];
    while !is_over.load(Ordering::SeqCst) {
        let Some((length, _)) = receive(back, &mut buffer) else { continue };
        if let [0x80..=0xff, _, _, _, _, destination_len, rest @ ..] = &buffer[..length]
            && let [source_len, rest @ ..] = &rest[usize::from(*destination_len)..]
        {
            let id = rest[..usize::from(*source_len)].to_vec();
            seen.lock().unwrap().by_server.push(id);
        }
        let client = *client.lock().unwrap();
        if let Some(client) = client {
            let _ = front.send_to(&buffer[..length], client);
        }
    }
}

/// Writes the file atomically.
fn write(path: &str, text: &str) {
    fs::write(format!("{path}.new"), text).unwrap();
    fs::rename(format!("{path}.new"), path).unwrap();
}

fn serve(scratch: &Scratch, more: &[&str]) -> Running {
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let arguments = ["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate];
    let mut command = clearway(&[&arguments[..], more].concat());
    command.stderr(Stdio::piped());
    Running::listening(command)
}

/// Waits until the server prints a line that contains all of `expected`.
fn wait_for(server: &mut Running, expected: &[&str]) {
    loop {
        let line = server.error_line();
        assert!(!line.is_empty(), "the server has ended without {expected:?}");
        if expected.iter().all(|part| line.contains(part)) {
            return;
        }
    }
}

/// Starts a download through the relay that continues only as fast as its output is read.
fn begin(scratch: &Scratch, server: &Running, relay: &Relay) -> Child {
    let certificate = scratch.path("cert.pem");
    let through = ["get", "--quiet", "--ca", &certificate, "--connect", &relay.address.to_string()];
    let mut command = clearway(&[&through[..], &[&server.url("file")]].concat());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

const WITHOUT_A_KEY: &str = "config-id = 1\nserver-id = \"00a1\"\n";
const WITH_A_KEY: &str = "config-id = 2\nserver-id = \"00a1\"\nnonce-length = 6\n\
    key = \"8f95f09245765f80256934e50c66207f\"\n";

#[test]
fn a_download_goes_on_with_ids_of_the_new_configuration() {
    let scratch = Scratch::new("quic-lb");
    let content = scratch.fill("root/file", 20_000_000);
    let file = scratch.path("lb.toml");
    write(&file, WITHOUT_A_KEY);
    let mut server = serve(&scratch, &["--quic-lb", &file, "--shards", "2"]);
    wait_for(&mut server, &["QUIC-LB", "configuration 1", "server ID 00a1", "without a key"]);
    let relay = Relay::start(&server.address);
    let mut download = begin(&scratch, &server, &relay);
    let mut output = download.stdout.take().unwrap();
    let mut received = vec![0; 1_000_000];
    output.read_exact(&mut received).unwrap();
    let by_server = relay.seen.lock().unwrap().by_server.clone();
    assert!(!by_server.is_empty());
    for id in &by_server {
        assert_eq!((id.len(), id[0] >> 5, &id[1..3]), (ID_LEN, 1, &[0x00, 0xa1][..]));
    }
    let taken = relay.taken();
    assert!(!taken.is_empty() && taken.iter().all(|id| id[1..3] == [0x00, 0xa1]));

    // An invalid file changes nothing.
    write(&file, "config-id = 9\nserver-id = \"00a1\"\n");
    let name = format!("{file}:1:13: config-id must be 0 to 6");
    wait_for(&mut server, &["not reloaded", "stays in use", &name]);
    write(&file, "config-id = 2\nserver-id = \"00a1\"\nnonce-length = 8\n");
    wait_for(&mut server, &["not reloaded", "11 octets", "instead of 10", "cannot change"]);
    write(&file, WITH_A_KEY);
    server.signal(Signal::HUP);
    wait_for(&mut server, &["reloaded", &file, "configuration 2", "00a1", "encrypted"]);

    output.read_to_end(&mut received).unwrap();
    assert!(received == content && download.wait().unwrap().success());
    let taken = relay.taken();
    assert!(taken.is_sorted_by_key(|id| id[0] >> 5), "no ID of the old one after the new one");
    assert_eq!(taken.last().map(|id| id[0] >> 5), Some(2));
    server.interrupt();
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_at_the_start() {
    let scratch = Scratch::new("quic-lb-wrong");
    let file = scratch.path("lb.toml");
    let refused = || fail(&["serve", "--listen", "127.0.0.1:0", "--quic-lb", &file]);
    assert!(refused().contains("cannot read the QUIC-LB configuration"), "{}", refused());
    write(&file, "config-id = 0\nserver-id = \"00a1\"\nkey = \"0102\"\n");
    assert!(
        refused().contains("lb.toml:3:7: a key must have 32 hexadecimal digits"),
        "{}",
        refused()
    );
}
