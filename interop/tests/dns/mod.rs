//! Tests `clearway dns` with CoreDNS as its upstream server and as its client, and with dnspython as
//! its client.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{self, Peer, Server, Workspace};

/// The number of strings of 200 octets in the record of `large.example.`, whose response takes
/// several QUIC packets, and TCP instead of UDP.
const STRINGS: usize = 10;

/// The zone `example.`, without the record of `large.example.`.
const ZONE: &str = "\
$TTL 300
@ SOA ns.example. admin.example. 1 7200 3600 86400 60
@ NS ns.example.
ns A 127.0.0.1
www A 192.0.2.1
www AAAA 2001:db8::1
alias CNAME www
";

/// Queries to the zone, with the results that dnspython prints.
const EXCHANGES: [[&str; 3]; 6] = [
    ["www.example.", "A", "192.0.2.1"],
    ["WWW.example.", "AAAA", "2001:db8::1"],
    ["alias.example.", "A", "www.example.|192.0.2.1"],
    ["example.", "NS", "ns.example."],
    ["www.example.", "MX", "NOERROR"],
    ["nobody.example.", "A", "NXDOMAIN"],
];

/// Returns the data of the record of `large.example.`.
fn large() -> String {
    [format!("\"{}\"", "x".repeat(200)).as_str()].repeat(STRINGS).join(" ")
}

/// A DNS server with several sockets.
struct Dns {
    _server: Server,
    /// The URLs of the sockets.
    urls: Vec<String>,
}

impl Dns {
    fn start(command: &mut Command, sockets: usize) -> Self {
        let (server, urls) = Server::start_with_sockets(command, sockets);
        Self { _server: server, urls }
    }

    /// Returns the URL of the socket for a protocol.
    fn url(&self, scheme: &str) -> &str {
        let url = self.urls.iter().find(|url| url.split("://").next() == Some(scheme));
        url.unwrap_or_else(|| panic!("there is no socket for {scheme}: {:?}", self.urls))
    }

    /// Returns the URL for `clearway dns --upstream`.
    fn upstream(&self, scheme: &str) -> String {
        let url = self.url(scheme);
        match scheme {
            "udp" | "tcp" => url.to_owned(),
            _ => format!("{url}#localhost"),
        }
    }
}

/// The programs of a test, and its files.
struct Setup {
    coredns: Peer,
    dnspython: Peer,
    workspace: Workspace,
}

impl Setup {
    /// Returns `None` if a peer was not built.
    fn new(name: &str) -> Option<Self> {
        let (coredns, dnspython) = (Peer::find("coredns")?, Peer::find("dnspython")?);
        let workspace = Workspace::new(name, 0);
        let zone = format!("{ZONE}large TXT {}\n", large());
        fs::write(workspace.path("zone"), zone).expect("the zone");
        Some(Self { coredns, dnspython, workspace })
    }

    /// Starts CoreDNS as the server of the zone, over every transport.
    fn zone_server(&self) -> Dns {
        let mut command = self.coredns.command();
        command.args(["-cert", &self.workspace.text("cert.pem")]);
        command.args(["-key", &self.workspace.text("key.pem")]);
        command.args(["-zone", &self.workspace.text("zone"), "quic", "https3", "tls", "dns"]);
        Dns::start(&mut command, 5)
    }

    /// Starts CoreDNS as a forwarder, over UDP and TCP.
    fn coredns_forwarder(&self, upstream: &str) -> Dns {
        let mut command = self.coredns.command();
        command.args(["-forward", upstream, "-ca", &self.workspace.text("cert.pem"), "dns"]);
        Dns::start(&mut command, 2)
    }

    /// Starts `clearway dns` without a cache, so that every query reaches the upstream servers.
    fn clearway_dns(&self, upstreams: &[String]) -> Dns {
        let mut command = support::clearway();
        command.args(["dns", "--listen", "127.0.0.1:0", "--listen-https", "127.0.0.1:0"]);
        command.args(["--listen-udp", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0"]);
        let certificate = self.workspace.text("cert.pem");
        command.args(["--cert", &certificate, "--key", &self.workspace.text("key.pem")]);
        command.args(["--ca", &certificate, "--cache-size", "0", "--upstream-timeout", "1s"]);
        for upstream in upstreams {
            command.args(["--upstream", upstream]);
        }
        Dns::start(command.stderr(Stdio::null()), 4)
    }

    /// Sends all queries with dnspython, and checks the responses. `has_large` includes the query
    /// whose response is too large for UDP.
    fn query(&self, url: &str, has_large: bool) {
        let large = large();
        let mut exchanges = EXCHANGES.to_vec();
        if has_large {
            exchanges.push(["large.example.", "TXT", &large]);
        }
        let mut command = self.dnspython.command();
        command.args(["--ca", &self.workspace.text("cert.pem"), url]).args(exchanges.concat());
        support::succeed(command);
    }
}

#[test]
fn dnspython_queries_clearway_dns() {
    let Some(setup) = Setup::new("dns-dnspython") else { return };
    let zone = setup.zone_server();
    let forwarder = setup.clearway_dns(&[zone.upstream("tcp")]);
    for scheme in ["quic", "https", "udp", "tcp"] {
        setup.query(forwarder.url(scheme), scheme != "udp");
    }
}

#[test]
fn clearway_dns_queries_coredns() {
    let Some(setup) = Setup::new("dns-coredns-upstream") else { return };
    let zone = setup.zone_server();
    for scheme in ["quic", "https", "tls", "tcp", "udp"] {
        let forwarder = setup.clearway_dns(&[zone.upstream(scheme)]);
        // CoreDNS listens on another TCP port than the one to which a truncated response leads.
        setup.query(forwarder.url("quic"), scheme != "udp");
    }
}

#[test]
fn clearway_dns_queries_the_next_coredns_when_the_first_one_exits() {
    let Some(setup) = Setup::new("dns-coredns-failover") else { return };
    let (first, second) = (setup.zone_server(), setup.zone_server());
    let forwarder = setup.clearway_dns(&[first.upstream("quic"), second.upstream("tls")]);
    setup.query(forwarder.url("quic"), true);
    drop(first);
    setup.query(forwarder.url("quic"), true);
}

#[test]
fn coredns_queries_clearway_dns() {
    let Some(setup) = Setup::new("dns-coredns-client") else { return };
    let zone = setup.zone_server();
    let clearway = setup.clearway_dns(&[zone.upstream("quic")]);
    // The name in the certificate is between the address and the port.
    let quic = clearway.url("quic").replace("127.0.0.1", "127.0.0.1%localhost");
    let udp = clearway.url("udp").replace("udp://", "dns://");
    let tcp = clearway.url("tcp").replace("tcp://", "dns://");
    for (upstream, scheme) in [(quic, "tcp"), (udp, "udp"), (tcp, "tcp")] {
        // CoreDNS forwards a query to a plain upstream server over the protocol that it came by.
        let forwarder = setup.coredns_forwarder(&upstream);
        setup.query(forwarder.url(scheme), scheme != "udp");
    }
}
