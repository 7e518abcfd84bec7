//! Tests that one server replaces another while clients are served.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clearway::http3::{Client, Error, PROTOCOL};
use clearway::{ClientConfig, Endpoint};
use http::Request;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Scratch, clearway, fail, succeed};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A server, and its output.
struct Server {
    child: Child,
    address: SocketAddr,
    errors: BufReader<std::process::ChildStderr>,
}

impl Server {
    fn start(scratch: &Scratch, more: &[&str]) -> Self {
        Self::listening(command(scratch, more))
    }

    fn listening(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on https://").unwrap_or_else(|| {
            let mut why = String::new();
            errors.read_to_string(&mut why).unwrap();
            panic!("{line}{why}")
        });
        let address = address.split(' ').next().unwrap().parse().unwrap();
        Self { child, address, errors }
    }

    /// Waits until the server ends on its own.
    fn end(mut self) -> (ExitStatus, String) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < TIMEOUT, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let mut errors = String::new();
        self.errors.read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap(), errors)
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command for a replaceable server; all servers in a test share one certificate.
fn command(scratch: &Scratch, more: &[&str]) -> Command {
    let (root, socket) = (scratch.path("root"), scratch.path("s"));
    let (certificate, key) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    let arguments = ["serve", &root, "--quiet", "--hot-restart", &socket];
    let identity = ["--cert", &certificate, "--key", &key];
    clearway(&[&arguments[..], &identity, more].concat())
}

/// Creates a directory to serve, and a certificate. The path of a unix socket has at most 107
/// bytes.
fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.fill("root/small", 100);
    let identity = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    fs::write(scratch.path("cert.pem"), identity.cert.pem()).unwrap();
    fs::write(scratch.path("key.pem"), identity.signing_key.serialize_pem()).unwrap();
    scratch
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("https://localhost:{}/{path}", address.port())
}

fn serves(scratch: &Scratch, address: SocketAddr) {
    let certificate = scratch.path("cert.pem");
    let content = fs::read(scratch.path("root/small")).unwrap();
    let output = succeed(&["get", "--quiet", "--ca", &certificate, &url(address, "small")]);
    assert_eq!(output.stdout, content);
}

/// Makes short requests until `is_over`: each on a new connection, or all on one connection until
/// the server sends GOAWAY.
async fn request_often(
    address: SocketAddr,
    reuses: bool,
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
) -> Result<(), String> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::dangerous_without_certificate_verification();
    let config = config.application_protocols([PROTOCOL]);
    let mut client: Option<Client> = None;
    while !is_over.load(Ordering::SeqCst) {
        let connected = match client.take().filter(|client| reuses && client.is_open()) {
            Some(client) => client,
            None => Client::connect(&endpoint, &config, address, "localhost")
                .await
                .map_err(|error| format!("cannot connect: {error}"))?,
        };
        let request = Request::get("https://localhost/small").body(()).unwrap();
        let response = match connected.send(request).await {
            // The request was not sent or certainly not processed, so it must be retried on another
            // connection (RFC 9114 §5.2).
            Err(Error::GoingAway) => continue,
            response => response.map_err(|error| format!("no response: {error}"))?,
        };
        if !response.status().is_success() {
            return Err(format!("status {}", response.status()));
        }
        let body = response.into_body().bytes(1000).await;
        let body = body.map_err(|error| format!("no content: {error}"))?;
        assert_eq!(body.len(), 100);
        count.fetch_add(1, Ordering::SeqCst);
        client = Some(connected);
    }
    Ok(())
}

/// One download lasts from the first server's start to its end, while that server is replaced
/// twice.
#[test]
fn no_request_fails_and_a_long_download_is_completed() {
    let scratch = scratch("hr-load");
    let content = scratch.fill("root/long", 3_000_000);
    let shards = ["--shards", "2"];
    let first = Server::start(&scratch, &[&["--listen", "127.0.0.1:0"][..], &shards].concat());
    let address = first.address;
    let listen = address.to_string();
    let more = ["--listen", &listen, "--shards", "2"];
    let (certificate, target) = (scratch.path("cert.pem"), scratch.path("downloaded"));
    let long = url(address, "long");
    // The download takes about six seconds.
    let link = crate::support::Running::link(&listen, &["--rate", "4mbit"]);
    let download = ["get", "--quiet", "--ca", &certificate, "--connect", &link.address];
    let mut download =
        clearway(&[&download[..], &["-o", &target, &long]].concat()).spawn().unwrap();

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (is_over, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let workers: Vec<_> = [true, true, false, false]
        .map(|reuses| {
            let (is_over, count) = (is_over.clone(), count.clone());
            runtime.spawn(request_often(address, reuses, is_over, count))
        })
        .into();
    let wait_for = |more: usize| {
        let (begun, until) = (Instant::now(), count.load(Ordering::SeqCst) + more);
        while count.load(Ordering::SeqCst) < until {
            assert!(begun.elapsed() < TIMEOUT, "the requests do not proceed");
            thread::sleep(Duration::from_millis(2));
        }
    };
    wait_for(100);
    let second = Server::start(&scratch, &more);
    assert_eq!(second.address, address);
    wait_for(100);
    assert!(download.try_wait().unwrap().is_none(), "the download ended too early for this test");
    // The third server waits until the first one has ended, and therefore until the download has
    // ended.
    let waiting = Server::listening(command(&scratch, &more));
    assert!(download.wait().unwrap().success());
    assert!(fs::read(&target).unwrap() == content);
    let (status, said) = first.end();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("another process has replaced this one"), "{said}");
    wait_for(100);
    let fourth = Server::start(&scratch, &more);
    let (status, said) = second.end();
    assert!(status.success(), "{status}: {said}");
    let mut third = waiting;
    let mut line = String::new();
    while !line.contains("a previous process is still draining; waiting for it to exit") {
        line.clear();
        assert_ne!(third.errors.read_line(&mut line).unwrap(), 0, "it did not wait");
    }
    wait_for(100);
    let (status, said) = third.end();
    assert!(status.success(), "{status}: {said}");
    is_over.store(true, Ordering::SeqCst);
    for worker in workers {
        let outcome = runtime.block_on(worker).unwrap();
        assert_eq!(outcome, Ok(()), "after {} requests", count.load(Ordering::SeqCst));
    }
    fourth.signal(Signal::INT);
    let (status, said) = fourth.end();
    assert!(status.success(), "{status}: {said}");
    assert!(!fs::exists(scratch.path("s")).unwrap(), "the socket is left");
}

/// A server that cannot start does not affect the running one.
#[test]
fn a_server_that_cannot_start_changes_nothing() {
    let scratch = scratch("hr-fails");
    let mut server = Server::start(&scratch, &["--listen", "127.0.0.1:0", "--shards", "2"]);
    let listen = server.address.to_string();
    let (root, socket) = (scratch.path("root"), scratch.path("s"));
    let (certificate, key) = (scratch.path("cert.pem"), scratch.path("key.pem"));
    let again = ["serve", &root, "--hot-restart", &socket, "--listen", &listen];
    let good = ["--cert", &certificate, "--key", &key];

    let error = fail(&[&again[..], &good, &["--shards", "3"]].concat());
    let named = "cannot take over: the running process has 2 shards, but this one would have 3";
    assert!(error.starts_with(named) && error.contains("use --shards 2"), "{error}");
    serves(&scratch, server.address);

    let bad = scratch.path("root/small");
    let error = fail(&[&again[..], &["--cert", &bad, "--key", &bad]].concat());
    assert!(error.contains("small"), "{error}");
    serves(&scratch, server.address);

    let elsewhere = ["serve", &root, "--hot-restart", &socket, "--listen", "127.0.0.1:1"];
    let error = fail(&[&elsewhere[..], &good].concat());
    assert!(error.contains("the running process listens at"), "{error}");
    serves(&scratch, server.address);

    assert!(server.is_running());
    // Without `--shards`, the number of shards is that of the running server.
    let next = Server::start(&scratch, &["--listen", &listen]);
    let (status, said) = server.end();
    assert!(status.success(), "{status}: {said}");
    serves(&scratch, next.address);
}

#[test]
fn a_stale_socket_is_replaced_and_one_without_a_folder_is_an_error() {
    let scratch = scratch("hr-stale");
    drop(UnixListener::bind(scratch.path("s")).unwrap());
    let server = Server::start(&scratch, &["--listen", "127.0.0.1:0"]);
    serves(&scratch, server.address);
    drop(server);
    // The server was killed, so its unix socket still exists.
    assert!(fs::exists(scratch.path("s")).unwrap());
    let server = Server::start(&scratch, &["--listen", "127.0.0.1:0"]);
    serves(&scratch, server.address);

    let (root, missing) = (scratch.path("root"), scratch.path("missing/socket"));
    let error = fail(&["serve", &root, "--listen", "127.0.0.1:0", "--hot-restart", &missing]);
    assert!(error.contains("cannot use the socket") && error.contains("missing"), "{error}");
}

/// With a time limit, a replaced server ends even if a client stays connected.
#[test]
fn draining_can_be_limited() {
    let scratch = scratch("hr-drain");
    scratch.fill("root/long", 3_000_000);
    let drain = ["--drain", "300ms"];
    let first = Server::start(&scratch, &[&["--listen", "127.0.0.1:0"][..], &drain].concat());
    let listen = first.address.to_string();
    let link = crate::support::Running::link(&listen, &["--rate", "200kbit"]);
    let (certificate, long) = (scratch.path("cert.pem"), url(first.address, "long"));
    let download = ["get", "--quiet", "--ca", &certificate, "--connect", &link.address];
    let mut download = clearway(&[&download[..], &[&long]].concat());
    let mut download = download.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    download.stdout.as_mut().unwrap().read_exact(&mut [0; 100]).unwrap();
    let second = Server::start(&scratch, &["--listen", &listen]);
    let (status, said) = first.end();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("aborting responses that are incomplete after 300ms"), "{said}");
    serves(&scratch, second.address);
    download.kill().unwrap();
    download.wait().unwrap();
}

/// The new server exports metrics at the address of the old one, which stops exporting: scrapes
/// always reach the server that accepts clients.
#[test]
fn the_address_of_the_metrics_passes_on() {
    let scratch = scratch("hr-metrics");
    let metrics = |server: &mut Server| loop {
        let mut line = String::new();
        assert_ne!(server.errors.read_line(&mut line).unwrap(), 0, "no address is printed");
        if let Some(address) = line.strip_prefix("metrics are at ") {
            return address.trim().to_owned();
        }
    };
    let any = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let mut first = Server::start(&scratch, &any);
    let page = metrics(&mut first);
    serves(&scratch, first.address);
    let scrape = || ureq::get(&page).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(scrape().contains("clearway_http3_requests_total 1\n"), "{}", scrape());

    let listen = first.address.to_string();
    let address = page.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut second = Server::start(&scratch, &["--listen", &listen, "--metrics", address]);
    assert_eq!(metrics(&mut second), page);
    assert!(scrape().contains("clearway_http3_requests_total 0\n"), "{}", scrape());
    let (status, said) = first.end();
    assert!(status.success(), "{status}: {said}");
}

/// The server is started as by a service manager: the socket is descriptor 3, and LISTEN_PID is the
/// process itself.
#[test]
fn the_sockets_of_a_service_manager_are_used() {
    let scratch = scratch("hr-activated");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
    let program = format!(
        "exec 3<&{}; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"",
        socket.as_raw_fd()
    );
    let serve = command(&scratch, &[]);
    let mut shell = Command::new("bash");
    shell.args(["-c", &program]).arg(serve.get_program()).args(serve.get_args());
    shell.env_remove("QLOGDIR").env_remove("SSLKEYLOGFILE").arg0("bash");
    let server = Server::listening(shell);
    assert_eq!(server.address, address);
    drop(socket);
    serves(&scratch, address);
}
