//! Tests of `clearway proxy`, and of `clearway get --proxy`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics::{self, scrape_until};
use crate::support::{Running, Scratch, clearway, fail, succeed};

/// Starts a proxy with the certificate `proxy.pem`, for targets on loopback.
fn proxy(scratch: &Scratch, more: &[&str]) -> Running {
    Running::printing("proxy at https://", command(scratch, "127.0.0.1:0", more))
}

fn command(scratch: &Scratch, listen: &str, more: &[&str]) -> Command {
    let certificate = scratch.path("proxy.pem");
    let mut arguments = vec!["proxy", "--listen", listen];
    arguments.extend(["--allow", "localhost", "--allow", "127.0.0.0/8"]);
    if !more.contains(&"--cert") {
        arguments.extend(["--save-cert", &certificate]);
    }
    arguments.extend(more);
    let mut command = clearway(&arguments);
    command.stderr(Stdio::null());
    command
}

/// Returns the arguments of a download through a proxy.
fn through(scratch: &Scratch, proxy: &str, url: &str) -> Vec<String> {
    let (ca, proxy_ca) = (scratch.path("cert.pem"), scratch.path("proxy.pem"));
    let port = proxy.rsplit_once(':').unwrap().1;
    let proxy = format!("https://localhost:{port}");
    ["get", "--ca", &ca, "--proxy", &proxy, "--proxy-ca", &proxy_ca, url].map(str::to_owned).into()
}

fn text(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_download_passes_while_the_client_migrates() {
    let scratch = Scratch::new("proxied");
    let content = scratch.fill("root/file", 30_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let proxy = proxy(&scratch, &[]);
    let output = scratch.path("output");
    let mut arguments = through(&scratch, &proxy.address, &server.url("file"));
    arguments.extend(["-o".to_owned(), output.clone()]);
    arguments.extend(["--rebind-after".to_owned(), "50ms".to_owned()]);
    succeed(&text(&arguments));
    assert!(fs::read(output).unwrap() == content);
}

/// The connection inside of the tunnel is closed, so that the server does not wait for its idle
/// timeout.
#[test]
fn the_end_of_a_proxied_download_reaches_the_server() {
    let scratch = Scratch::new("proxied-end");
    scratch.fill("root/file", 10_000);
    let proxy = proxy(&scratch, &[]);
    let output = scratch.path("output");
    for _ in 0..8 {
        let server = Running::serve(&scratch, "root", &["--shutdown-timeout", "60s"]);
        let mut arguments = through(&scratch, &proxy.address, &server.url("file"));
        arguments.extend(["-o".to_owned(), output.clone()]);
        succeed(&text(&arguments));
        let interrupted = Instant::now();
        server.interrupt();
        assert!(interrupted.elapsed() < Duration::from_secs(10), "{:?}", interrupted.elapsed());
    }
}

#[test]
fn a_download_passes_while_the_proxy_is_replaced() {
    let scratch = Scratch::new("proxied-restart");
    let content = scratch.fill("root/file", 60_000_000);
    let server = Running::serve(&scratch, "root", &[]);
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (scratch.path("proxy.pem"), scratch.path("proxy.key"));
    fs::write(&certificate, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let socket = scratch.path("restart");
    let more = ["--cert", &certificate, "--key", &key, "--hot-restart", &socket];
    let first = proxy(&scratch, &more);
    let output = scratch.path("output");
    let mut arguments = through(&scratch, &first.address, &server.url("file"));
    arguments.extend(["-o".to_owned(), output.clone()]);
    let downloading = thread::spawn(move || succeed(&text(&arguments)));
    thread::sleep(Duration::from_millis(100));
    let second = Running::printing("proxy at https://", command(&scratch, &first.address, &more));
    downloading.join().unwrap();
    assert!(fs::read(&output).unwrap() == content);
    // The second proxy serves as well.
    let arguments = through(&scratch, &second.address, &server.url("file"));
    succeed(&text(&[arguments, vec!["-o".to_owned(), output.clone()]].concat()));
    assert!(fs::read(&output).unwrap() == content);
}

#[test]
fn clients_need_the_right_password() {
    let scratch = Scratch::new("proxied-users");
    scratch.fill("root/file", 10);
    fs::write(scratch.path("users.txt"), "basic alice correct horse\n").unwrap();
    let server = Running::serve(&scratch, "root", &[]);
    let proxy = proxy(&scratch, &["--users", &scratch.path("users.txt")]);
    let arguments = through(&scratch, &proxy.address, &server.url("file"));
    let line = fail(&text(&arguments));
    assert!(line.contains("requires authentication"), "{line}");
    let with =
        |user: &str| [arguments.clone(), vec!["--proxy-user".to_owned(), user.to_owned()]].concat();
    let line = fail(&text(&with("alice:wrong")));
    assert!(line.contains("requires authentication") && !line.contains("wrong"), "{line}");
    succeed(&text(&with("alice:correct horse")));
}

/// Metrics show a tunnel while it is open, and what has become of all requests and datagrams.
#[test]
fn metrics_show_tunnels() {
    let scratch = Scratch::new("proxied-metrics");
    let content = scratch.fill("root/file", 2_000_000);
    fs::write(scratch.path("users.txt"), "basic alice secret\n").unwrap();
    let server = Running::serve(&scratch, "root", &[]);
    let (users, listen) = (scratch.path("users.txt"), "127.0.0.1:0");
    let more = ["--users", &users, "--bandwidth", "8mbit", "--metrics", listen];
    let mut command = command(&scratch, listen, &more);
    command.stderr(Stdio::piped());
    let mut proxy = Running::printing("proxy at https://", command);
    let metrics = metrics::address(&mut proxy);
    let get = |url: &str, user: &str| {
        let mut arguments = through(&scratch, &proxy.address, url);
        arguments.extend(["--proxy-user", user].map(str::to_owned));
        arguments
    };
    fail(&text(&get(&server.url("file"), "alice:wrong")));
    fail(&text(&get("https://10.0.0.1/", "alice:secret")));
    let arguments = get(&server.url("file"), "alice:secret");
    let downloading = thread::spawn(move || succeed(&text(&arguments)).stdout);
    const BYTES: &str = "clearway_proxy_relayed_bytes_total{kind=\"udp\",direction=\"to_clients\"}";
    let samples = scrape_until(&metrics, |samples| samples.one(BYTES) > 100_000.0);
    assert_eq!(samples.one("clearway_proxy_tunnels{kind=\"udp\"}"), 1.0);
    assert!(downloading.join().unwrap() == content);
    let open = "clearway_proxy_tunnels{kind=\"udp\"}";
    let samples = scrape_until(&metrics, |samples| samples.one(open) == 0.0);
    for (name, expected) in [
        ("clearway_proxy_tunnels_opened_total{kind=\"udp\"}", 1.0),
        ("clearway_proxy_tunnels_opened_total{kind=\"tcp\"}", 0.0),
        ("clearway_proxy_tunnels_refused_total{reason=\"unauthenticated\"}", 1.0),
        ("clearway_proxy_tunnels_refused_total{reason=\"destination_ip_prohibited\"}", 1.0),
        ("clearway_proxy_datagrams_dropped_total{kind=\"udp\",reason=\"unknown_context\"}", 0.0),
    ] {
        assert_eq!(samples.one(name), expected, "{name}");
    }
    assert_eq!(samples.sum("clearway_proxy_tunnels_refused_total"), 2.0);
    assert!(samples.one(BYTES) > content.len() as f64);
    let datagrams = samples.sum("clearway_proxy_datagrams_relayed_total");
    assert!(datagrams > content.len() as f64 / 65_536.0, "{datagrams}");
    // The server sends faster than 8 Mbit/s.
    let dropped = "clearway_proxy_datagrams_dropped_total{kind=\"udp\",reason=\"bandwidth\"}";
    assert!(samples.one(dropped) > 0.0);
    assert_eq!(samples.sum("clearway_quic_handshakes_completed_total"), 3.0);
    proxy.interrupt();
}

/// Special addresses are refused, whatever the client asks for.
#[test]
fn targets_that_are_not_public_are_refused() {
    let scratch = Scratch::new("proxied-targets");
    let proxy = proxy(&scratch, &[]);
    fs::copy(scratch.path("proxy.pem"), scratch.path("cert.pem")).unwrap();
    for target in ["10.0.0.1", "169.254.169.254", "[::1]", "224.0.0.1", "0.0.0.0"] {
        let url = format!("https://{target}:443/");
        let line = fail(&text(&through(&scratch, &proxy.address, &url)));
        assert!(line.contains("403") && line.contains("destination_ip_prohibited"), "{line}");
    }
}

#[test]
fn an_open_proxy_has_to_be_requested() {
    let line = fail(&["proxy", "--listen", "0.0.0.0:0"]);
    assert!(line.contains("would relay anyone's traffic"), "{line}");
    assert!(line.contains("--users") && line.contains("--open"), "{line}");
}

/// Sockets of a service manager replace `--listen`, whose default is on loopback.
#[test]
fn a_proxy_with_inherited_sockets_is_not_open_by_accident() {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).unwrap();
    let script = format!(
        "exec 3<&{}; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" proxy",
        std::os::fd::AsRawFd::as_raw_fd(&socket)
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_clearway")]);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("the proxy is open to everyone");
        }
        thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("would relay anyone's traffic"), "{errors}");
}
