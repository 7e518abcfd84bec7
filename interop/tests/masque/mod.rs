//! Tests tunnels (MASQUE) between `clearway` and other stacks: clients of other stacks use
//! `clearway proxy`, and `clearway get` and `clearway tunnel` use proxies of other stacks. Payloads
//! and files are compared byte for byte.

mod collapse;
mod ip;
mod migration;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::SIZE;
use crate::support::{self, FILE, Peer, Server, Workspace};

/// Size of downloads through aioquic's proxy, which is slow.
const SMALL: usize = 1_000_000;

/// Payload sizes for QUIC datagrams. The first ones start path MTU discovery at the proxy, which
/// then finds that a datagram has room for the last one.
const SIZES: &str = "0,1,1200,1300,1400";

/// Payload sizes for capsules, which have no limit. The last one fills an IPv6 packet on the Linux
/// loopback interface: the proxy sends no fragments (RFC 9298 §3.1).
const SIZES_OF_CAPSULES: &str = "0,1,1200,1452,9000,65488";

/// The largest UDP payload on an IPv4 path over Ethernet.
const ETHERNET: &str = "1472";

/// A UDP socket that returns every payload to its source, until dropped.
struct Echo {
    address: String,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Self {
        Self::with(UdpSocket::bind("127.0.0.1:0").expect("a UDP socket"))
    }

    /// Listens on the IPv6 loopback address; prints a message and returns `None` if there is none.
    fn start_v6() -> Option<Self> {
        match UdpSocket::bind("[::1]:0") {
            Ok(socket) => Some(Self::with(socket)),
            Err(error) => {
                println!("skipped: no target over IPv6 here: {error}");
                None
            }
        }
    }

    fn with(socket: UdpSocket) -> Self {
        let address = socket.local_addr().expect("an address").to_string();
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let is_ended = Arc::new(AtomicBool::new(false));
        let flag = is_ended.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while !flag.load(Ordering::Relaxed) {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => drop(socket.send_to(&buffer[..length], from)),
                    Err(error)
                        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(error) => panic!("the echo socket has failed: {error}"),
                }
            }
        });
        Self { address, is_ended, thread: Some(thread) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns `address` with the host name of the certificate.
fn named(address: &str) -> String {
    address.replace("127.0.0.1", "localhost")
}

fn proxy_of(program: Command, workspace: &Workspace, options: &[&str]) -> Server {
    let mut command = program;
    command.args(options).stderr(Stdio::null());
    command.args(["--cert", &workspace.text("cert.pem"), "--key", &workspace.text("key.pem")]);
    Server::start(&mut command)
}

/// Starts `clearway proxy`, which permits targets on loopback. It does not wait long for clients
/// that exit without closing the connection, as curl does with TCP tunnels.
fn clearway_proxy(workspace: &Workspace) -> Server {
    let policy = ["--allow", "localhost", "--allow", "127.0.0.0/8", "--allow", "::1"];
    let base = ["proxy", "--listen", "127.0.0.1:0", "--quiet", "--shutdown-timeout", "1s"];
    let options = [&base[..], &policy].concat();
    proxy_of(support::clearway(), workspace, &options)
}

/// Starts `clearway serve`. A client that ends together with its tunnel may lose the frame that
/// closes the connection inside, and the server would wait for this client.
fn clearway_serve(workspace: &Workspace) -> Server {
    support::clearway_serve_with(workspace, &["--shutdown-timeout", "1s"])
}

/// Downloads the file from `clearway serve` with `clearway get` through the proxy.
fn clearway_downloads_through(proxy: &Server, workspace: &Workspace) {
    let server = clearway_serve(workspace);
    let (certificate, output) = (workspace.text("cert.pem"), workspace.path("downloaded"));
    let mut command = support::clearway();
    command.args(["get", "--proxy", &format!("https://{}", named(&proxy.address))]);
    command.args(["--proxy-ca", &certificate, "--ca", &certificate]);
    command.arg("--output").arg(&output).arg(format!("https://{}/{FILE}", server.address));
    support::succeed(command);
    workspace.assert_same(&output);
}

/// Returns a client of quic-go with a tunnel through the proxy. `options` come before the target.
fn quic_go_client(peer: &Peer, workspace: &Workspace, proxy: &Server, options: &[&str]) -> Command {
    let mut command = peer.command();
    command.args(["client", "-proxy", &named(&proxy.address)]);
    command.args(["-proxy-ca", &workspace.text("cert.pem")]).args(options);
    command
}

fn quic_go_client_echoes(name: &str, options: &[&str]) {
    let Some(peer) = Peer::find("quic-go-masque") else { return };
    let workspace = Workspace::new(name, 0);
    let (proxy, echo, echo_v6) = (clearway_proxy(&workspace), Echo::start(), Echo::start_v6());
    let v6 = echo_v6.as_ref().map(|echo| echo.address.clone());
    for target in [echo.address.clone(), named(&echo.address)].into_iter().chain(v6) {
        let mut command = quic_go_client(&peer, &workspace, &proxy, options);
        command.arg(target);
        support::succeed(command);
    }
}

#[test]
fn quic_go_client_echoes_in_datagrams() {
    quic_go_client_echoes("masque-quic-go-datagrams", &["-sizes", SIZES]);
}

/// A client without QUIC datagrams: the proxy has to use capsules, too.
#[test]
fn quic_go_client_echoes_in_capsules() {
    let options = ["-capsules", "-sizes", SIZES_OF_CAPSULES];
    quic_go_client_echoes("masque-quic-go-capsules", &options);
}

/// quic-go in a tunnel of quic-go.
fn quic_go_client_downloads(name: &str, options: &[&str]) {
    let Some(peer) = Peer::find("quic-go-masque") else { return };
    let workspace = Workspace::new(name, SIZE);
    let (server, proxy) = (clearway_serve(&workspace), clearway_proxy(&workspace));
    let (target, output) = (named(&server.address), workspace.path("downloaded"));
    let mut command = quic_go_client(&peer, &workspace, &proxy, options);
    command.args(["-get", &format!("https://{target}/{FILE}")]);
    command.args(["-ca", &workspace.text("cert.pem")]);
    command.arg("-output").arg(&output).arg(target);
    support::succeed(command);
    workspace.assert_same(&output);
}

#[test]
fn quic_go_client_downloads_in_datagrams() {
    quic_go_client_downloads("masque-quic-go-download", &[]);
}

#[test]
fn quic_go_client_downloads_in_capsules() {
    quic_go_client_downloads("masque-quic-go-download-capsules", &["-capsules"]);
}

#[test]
fn aioquic_client_echoes_in_datagrams() {
    let Some(peer) = Peer::find("aioquic-masque") else { return };
    let workspace = Workspace::new("masque-aioquic-client", 0);
    let (proxy, echo, echo_v6) = (clearway_proxy(&workspace), Echo::start(), Echo::start_v6());
    for target in [Some(&echo), echo_v6.as_ref()].into_iter().flatten() {
        let mut command = peer.command();
        command.args(["client", "--proxy", &named(&proxy.address)]);
        command.args(["--sizes", "0,1,1200,1300,1386"]);
        command.args(["--proxy-ca", &workspace.text("cert.pem")]).arg(&target.address);
        support::succeed(command);
    }
}

/// Downloads with curl through `clearway proxy` from the server at `address`, with this HTTP
/// version.
fn curl_downloads(curl: &Peer, workspace: &Workspace, address: &str, version: &str) {
    let proxy = clearway_proxy(workspace);
    let (certificate, output) = (workspace.text("cert.pem"), workspace.path("downloaded"));
    let mut command = curl.command();
    command.args(["--proxy", &format!("https://{}", named(&proxy.address)), "--http", version]);
    command.args(["--proxy-ca", &certificate, "--ca", &certificate]);
    command.arg("--output").arg(&output).arg(format!("https://{}/{FILE}", named(address)));
    support::succeed(command);
    workspace.assert_same(&output);
}

/// curl uses CONNECT-UDP with capsules. It fails if a payload is longer than its packet buffer, so
/// the path to the server carries no more than Ethernet does; over loopback, the server would find
/// that it carries 65,507 bytes.
#[test]
fn curl_downloads_over_http_3() {
    let Some(curl) = Peer::find("curl-cffi") else { return };
    let workspace = Workspace::new("masque-curl-3", SIZE);
    let server = clearway_serve(&workspace);
    let link = support::clearway_link(&server.address, &["--mtu", ETHERNET]);
    curl_downloads(&curl, &workspace, &link.address, "3");
}

/// curl uses CONNECT for TCP.
#[test]
fn curl_downloads_over_http_1_1() {
    let (Some(curl), Some(server)) = (Peer::find("curl-cffi"), Peer::find("https-server")) else {
        return;
    };
    let workspace = Workspace::new("masque-curl-1", SIZE);
    let server = proxy_of(server.command(), &workspace, &["--root", &workspace.text("root")]);
    curl_downloads(&curl, &workspace, &server.address, "1.1");
}

fn clearway_downloads_through_quic_go(name: &str, options: &[&str]) {
    let Some(peer) = Peer::find("quic-go-masque") else { return };
    let workspace = Workspace::new(name, SIZE);
    let proxy = proxy_of(peer.command(), &workspace, &[&["proxy"], options].concat());
    clearway_downloads_through(&proxy, &workspace);
}

#[test]
fn clearway_downloads_through_quic_go_in_datagrams() {
    clearway_downloads_through_quic_go("masque-through-quic-go", &[]);
}

/// A proxy without QUIC datagrams: `clearway get` has to use capsules, too.
#[test]
fn clearway_downloads_through_quic_go_in_capsules() {
    clearway_downloads_through_quic_go("masque-through-quic-go-capsules", &["-capsules"]);
}

#[test]
fn clearway_downloads_through_aioquic() {
    let Some(peer) = Peer::find("aioquic-masque") else { return };
    let workspace = Workspace::new("masque-through-aioquic", SMALL);
    let proxy = proxy_of(peer.command(), &workspace, &["proxy"]);
    clearway_downloads_through(&proxy, &workspace);
}
