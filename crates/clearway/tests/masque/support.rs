//! A proxy and its clients.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clearway::http3::{self, Body, Client, PROTOCOL, Server};
use clearway::masque::request::TunnelRequest;
use clearway::masque::target::{Host, Target, Values};
use clearway::masque::{
    self, RelayEnd, RelayOptions, TunnelKind, UriTemplate, relay_udp, udp::UdpStatistics,
};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use http::Response;
use tokio::net::UdpSocket;

const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test, which fails if it takes too long.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(async { tokio::time::timeout(LIMIT, test).await });
    outcome.expect("the test takes too long");
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Returns the configurations of a server and of its clients.
pub(crate) fn configs(
    transport: TransportConfig,
    protocol: &'static str,
) -> (ServerConfig, ClientConfig) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let server = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([protocol])
        .transport(transport.clone());
    let client =
        ClientConfig::with_roots(roots).application_protocols([protocol]).transport(transport);
    (server, client)
}

/// A proxy without a policy, and a connection to it.
pub(crate) struct Proxied {
    pub(crate) client: Client,
    pub(crate) template: UriTemplate,
    /// How the relays ended.
    pub(crate) ended: Arc<Mutex<Vec<(UdpStatistics, RelayEnd)>>>,
    _endpoint: Endpoint,
}

pub(crate) struct Setup {
    pub(crate) transport: TransportConfig,
    pub(crate) datagrams: bool,
    pub(crate) options: RelayOptions,
}

impl Default for Setup {
    fn default() -> Self {
        let transport = masque::transport_config(TransportConfig::builder()).build().unwrap();
        Self { transport, datagrams: true, options: RelayOptions::default() }
    }
}

impl Proxied {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let (server, config) = configs(setup.transport, std::str::from_utf8(PROTOCOL).unwrap());
        let http3 = http3::Config {
            extended_connect: true,
            datagrams: setup.datagrams,
            ..http3::Config::default()
        };
        let server = Arc::new(Server::bind_with(loopback(), server, http3.clone()).unwrap());
        let address = server.local_address();
        let authority = address.to_string().parse().unwrap();
        let template = UriTemplate::well_known(TunnelKind::Udp, authority);
        let ended = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(server, template.clone(), setup.options, ended.clone()));
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client =
            Client::connect_with(&endpoint, &config, address, "localhost", http3).await.unwrap();
        Self { client, template, ended, _endpoint: endpoint }
    }

    pub(crate) async fn tunnel(&self, target: SocketAddr) -> masque::UdpTunnel {
        self.client.connect_udp(&self.template, &self::target(target)).await.unwrap()
    }

    /// Waits until a relay has ended. Returns its statistics and how it ended.
    pub(crate) async fn end(&self) -> (UdpStatistics, RelayEnd) {
        loop {
            if let Some(end) = self.ended.lock().unwrap().pop() {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn target(address: SocketAddr) -> Target {
    let host = match address {
        SocketAddr::V4(address) => Host::V4(*address.ip()),
        SocketAddr::V6(address) => Host::V6(*address.ip()),
    };
    Target { host, port: address.port().try_into().unwrap() }
}

async fn serve(
    server: Arc<Server>,
    template: UriTemplate,
    options: RelayOptions,
    ended: Arc<Mutex<Vec<(UdpStatistics, RelayEnd)>>>,
) {
    while let Some((request, responder)) = server.accept().await {
        let (parts, body) = request.into_parts();
        let parsed = TunnelRequest::parse(&http::Request::from_parts(parts, ()), [&template]);
        let Ok(TunnelRequest { destination: Values::Target(target), .. }) = parsed else {
            let response = Response::builder().status(400).body(Body::empty()).unwrap();
            responder.respond(response).await.unwrap();
            continue;
        };
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        socket.connect(target.to_string()).await.unwrap();
        let ended = ended.clone();
        tokio::spawn(async move {
            let end = relay_udp(body, responder, socket, &options, |_| true).await;
            ended.lock().unwrap().push(end);
        });
    }
}
