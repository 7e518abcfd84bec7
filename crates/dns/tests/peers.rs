//! Tests the servers with Knot DNS's kdig, over QUIC, UDP and TCP.
//!
//! Without kdig (Debian's knot-dnsutils), the tests are skipped with a message; in CI, this is a
//! failure.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use clearway::{Endpoint, ServerConfig};
use clearway_dns::hickory_proto::op::{Message, ResponseCode};
use clearway_dns::hickory_proto::rr::rdata::A;
use clearway_dns::hickory_proto::rr::{RData, Record};
use clearway_dns::{
    ErrorInfo, ExtendedError, Forwarder, ForwarderConfig, Handler, PROTOCOL, Request, Server,
};
use tokio::net::{TcpListener, UdpSocket};
use tokio::process::Command;

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A certificate for localhost, in a file that kdig can read.
struct Site {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    file: PathBuf,
}

impl Site {
    fn new(name: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let file = file.join(format!("kdig-{name}-{}.pem", std::process::id()));
        fs::write(&file, certified.cert.pem()).unwrap();
        Self { certificate: certified.cert.into(), key: key.into(), file }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    /// Starts a DoQ server.
    fn serve<H: Handler>(&self, server: &Server<H>) -> Endpoint {
        let config = ServerConfig::new(vec![self.certificate.clone()], self.key.clone_key())
            .application_protocols([PROTOCOL])
            .transport(server.transport_config());
        let endpoint = Endpoint::server(loopback(), config).unwrap();
        let (server, serving) = (server.clone(), endpoint.clone());
        tokio::spawn(async move { server.serve_quic(&serving).await });
        endpoint
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// Returns whether kdig is installed.
async fn has_kdig() -> bool {
    let mut command = Command::new("kdig");
    let found = command.arg("--version").stdout(Stdio::null()).status().await.is_ok();
    if !found {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!in_ci, "kdig is missing: install knot-dnsutils");
        println!("skipped: kdig is not installed (Debian has it in knot-dnsutils)");
    }
    found
}

/// Runs kdig. Returns its output, and whether it succeeded.
async fn run(server: SocketAddr, arguments: &[&str]) -> (String, bool) {
    let mut command = Command::new("kdig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string()]);
    let output = command.args(["+timeout=20", "+retry=0"]).args(arguments).output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

/// Runs kdig, which must succeed. Returns its output.
async fn kdig(server: SocketAddr, arguments: &[&str]) -> String {
    let (text, is_success) = run(server, arguments).await;
    assert!(is_success, "{text}");
    text
}

async fn respond(request: Request) -> Message {
    match request.message().queries[0].name().to_ascii().as_str() {
        "nobody.example." => {
            let reason = ExtendedError::new(ErrorInfo::Prohibited, "as expected");
            request.failure(ResponseCode::NXDomain, &reason)
        }
        _ => {
            let mut response = request.response(ResponseCode::NoError);
            let name = request.message().queries[0].name().clone();
            let data = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
            response.add_answer(Record::from_rdata(name, 60, data));
            response
        }
    }
}

#[tokio::test]
async fn kdig_queries_over_quic() {
    if !has_kdig().await {
        return;
    }
    let site = Site::new("quic");
    let server = Server::new(respond);
    let endpoint = site.serve(&server);
    let ca = format!("+tls-ca={}", site.file.display());
    // The option for QUIC comes last, since each of the others selects TLS.
    let quic = [&ca, "+tls-host=localhost", "+quic"];
    let ask =
        async |more: &[&str]| kdig(endpoint.local_address(), &[&quic[..], more].concat()).await;
    let text = ask(&["www.example.", "A"]).await;
    assert!(text.contains("QUIC session") && text.contains("192.0.2.1"), "{text}");
    assert!(text.contains("status: NOERROR; id: 0"), "{text}");
    let text = ask(&["+padding", "+dnssec", "nobody.example.", "A"]).await;
    assert!(text.contains("status: NXDOMAIN"), "{text}");
    assert!(text.contains("Received 468 B"), "{text}");
    assert!(text.contains("Prohibited") && text.contains("as expected"), "{text}");
    assert_eq!(server.statistics().violations, 0);
    assert_eq!(server.statistics().queries[0], 2);
}

#[tokio::test]
async fn kdig_queries_a_forwarder() {
    if !has_kdig().await {
        return;
    }
    let site = Site::new("forwarder");
    let upstream = site.serve(&Server::new(respond));
    let url = format!("quic://{}#localhost", upstream.local_address());
    let config = ForwarderConfig::with_roots(site.roots()).unwrap();
    let forwarder = Forwarder::new([url.parse().unwrap()], config).unwrap();
    let server = Server::new(forwarder.clone());
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let (udp, tcp) = (socket.local_addr().unwrap(), listener.local_addr().unwrap());
    let (over_udp, over_tcp) = (server.clone(), server.clone());
    tokio::spawn(async move { over_udp.serve_udp(socket).await });
    tokio::spawn(async move { over_tcp.serve_tcp(listener).await });
    for (address, more) in [(udp, "+notcp"), (tcp, "+tcp")] {
        let text = kdig(address, &[more, "www.example.", "A"]).await;
        assert!(text.contains("status: NOERROR") && text.contains("192.0.2.1"), "{text}");
    }
    let (text, is_success) = run(tcp, &["example.", "AXFR"]).await;
    assert!(!is_success && text.contains("NOTIMPL"), "{text}");
    assert_eq!((forwarder.statistics().hits, forwarder.statistics().misses), (1, 1));
}
