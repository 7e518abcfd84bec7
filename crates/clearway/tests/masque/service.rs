//! The proxy as a whole: targets, clients and limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clearway::http3::{self, Client, Code, PROTOCOL, Server};
use clearway::masque::auth::Credentials;
use clearway::masque::limits::Limits;
use clearway::masque::policy::Policy;
use clearway::masque::proxy_status::ProxyError;
use clearway::masque::target::{Host, Name, Target};
use clearway::masque::udp::{DropReason, Traffic};
use clearway::masque::{
    self, Proxy, ProxyOptions, ProxyStatistics, Served, TunnelError, TunnelKind, UriTemplate,
};
use clearway::{Endpoint, Rate, TransportConfig};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;

use crate::support::{configs, loopback, run, target};

struct Service {
    client: Client,
    template: UriTemplate,
    served: mpsc::UnboundedReceiver<Served>,
    proxy: Proxy,
    _endpoint: Endpoint,
}

impl Service {
    async fn with(options: ProxyOptions) -> Self {
        let transport = masque::transport_config(TransportConfig::builder()).build().unwrap();
        let (server, config) = configs(transport, std::str::from_utf8(PROTOCOL).unwrap());
        let http3 =
            http3::Config { extended_connect: true, datagrams: true, ..http3::Config::default() };
        let server = Server::bind_with(loopback(), server, http3.clone()).unwrap();
        let address = server.local_address();
        let proxy = Proxy::new(options);
        let (sender, served) = mpsc::unbounded_channel();
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Some((request, responder)) = server.accept().await {
                let (proxy, sender) = (serving.clone(), sender.clone());
                tokio::spawn(async move { sender.send(proxy.serve(request, responder).await) });
            }
        });
        let authority = address.to_string().parse().unwrap();
        let template = UriTemplate::well_known(TunnelKind::Udp, authority);
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client =
            Client::connect_with(&endpoint, &config, address, "localhost", http3).await.unwrap();
        Self { client, template, served, proxy, _endpoint: endpoint }
    }

    /// Returns the status with which a UDP tunnel is refused, and the message.
    async fn refused(&self, target: &Target, fields: HeaderMap) -> (StatusCode, String) {
        let error = self.client.connect_udp_with(&self.template, target, fields).await.unwrap_err();
        let TunnelError::Refused(reason) = &error else { panic!("{error}") };
        let status = match reason {
            masque::request::ResponseError::Authentication { status }
            | masque::request::ResponseError::Refused { status, .. } => *status,
            other => panic!("{other}"),
        };
        (status, error.to_string())
    }
}

/// Returns options that permit targets on loopback.
fn local() -> ProxyOptions {
    let mut options = ProxyOptions::default();
    options.policy = Policy::default().with_rule("allow 127.0.0.0/8".parse().unwrap());
    options
}

fn named(name: &str, port: u16) -> Target {
    Target { host: Host::Name(Name::parse(name).unwrap()), port: port.try_into().unwrap() }
}

fn authorization(value: &'static str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert(http::header::AUTHORIZATION, HeaderValue::from_static(value));
    fields
}

#[test]
fn special_addresses_are_refused_by_default() {
    run(async {
        let mut service = Service::with(ProxyOptions::default()).await;
        for address in
            ["127.0.0.1:443", "10.0.0.1:443", "169.254.169.254:80", "[::1]:443", "[fe80::1]:1"]
        {
            let target = target(address.parse().unwrap());
            let (status, message) = service.refused(&target, HeaderMap::new()).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{address}");
            assert!(message.contains("destination_ip_prohibited"), "{message}");
            assert_eq!(service.served.recv().await.unwrap().status, StatusCode::FORBIDDEN);
        }
        // Also if a name leads there.
        let (status, _) = service.refused(&named("localhost", 443), HeaderMap::new()).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        let (status, message) =
            service.refused(&named("name.invalid", 443), HeaderMap::new()).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{message}");
        assert_eq!(service.proxy.tunnels(), 0);
        let statistics = service.proxy.statistics();
        assert_eq!(statistics.refused[&ProxyError::DestinationIpProhibited], 6);
        assert_eq!(statistics.refused.values().sum::<u64>(), 7);
        assert_eq!(statistics.udp.opened, 0);
    });
}

#[test]
fn clients_need_credentials() {
    run(async {
        let credentials = Credentials::parse("basic alice secret\nbearer token build").unwrap();
        let mut options = local();
        options.credentials = Some(Arc::new(credentials));
        let mut service = Service::with(options).await;
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let target = target(socket.local_addr().unwrap());
        for wrong in ["Basic YWxpY2U6d3Jvbmc=", "Bearer other", "Digest x", "Basic !"] {
            let (status, _) = service.refused(&target, authorization(wrong)).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{wrong}");
            assert!(service.served.recv().await.unwrap().client.is_none());
        }
        let (status, _) = service.refused(&target, HeaderMap::new()).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        service.served.recv().await.unwrap();
        assert_eq!(service.proxy.statistics().unauthenticated, 5);
        for (right, name) in [("Basic YWxpY2U6c2VjcmV0", "alice"), ("Bearer token", "build")] {
            let fields = authorization(right);
            let tunnel =
                service.client.connect_udp_with(&service.template, &target, fields).await.unwrap();
            tunnel.close();
            assert_eq!(service.served.recv().await.unwrap().client.as_deref(), Some(name));
        }
    });
}

#[test]
fn tunnels_of_a_client_are_limited() {
    run(async {
        let mut options = local();
        options.limits = Limits { tunnels_per_client: 2, ..Limits::default() };
        let mut service = Service::with(options).await;
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let target = target(socket.local_addr().unwrap());
        let open = || service.client.connect_udp(&service.template, &target);
        let (first, _second) = (open().await.unwrap(), open().await.unwrap());
        let (status, message) = service.refused(&target, HeaderMap::new()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{message}");
        first.close();
        let served = service.served.recv().await.unwrap();
        assert_eq!(served.status, StatusCode::SERVICE_UNAVAILABLE);
        let served = service.served.recv().await.unwrap();
        assert_eq!((served.status, served.outcome.as_str()), (StatusCode::OK, "closed"));
        service.client.connect_udp(&service.template, &target).await.unwrap();
        let refused = service.proxy.statistics().refused;
        assert_eq!(refused[&ProxyError::ConnectionLimitReached], 1);
    });
}

/// Counts are current while a tunnel is open, and excess datagrams are counted by reason.
#[test]
fn open_udp_tunnels_are_counted() {
    run(async {
        let mut options = local();
        options.limits.bandwidth = Some(Rate::from_bytes_per_second(1));
        let mut service = Service::with(options).await;
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let target = target(socket.local_addr().unwrap());
        let mut tunnel = service.client.connect_udp(&service.template, &target).await.unwrap();
        for _ in 0..64 {
            tunnel.send(&[7; 1200]).unwrap();
        }
        let counted = |statistics: &ProxyStatistics| {
            statistics.udp.to_targets.datagrams + statistics.udp_dropped[&DropReason::Bandwidth]
        };
        while counted(&service.proxy.statistics()) < 64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The limit permits a burst of 64 KiB.
        let statistics = service.proxy.statistics();
        let expected = Traffic { datagrams: 54, bytes: 54 * 1200 };
        assert_eq!((statistics.udp.open, statistics.udp.opened), (1, 1));
        assert_eq!(statistics.udp.to_targets, expected);
        assert_eq!(statistics.udp_dropped[&DropReason::Bandwidth], 10);
        tunnel.close();
        let served = service.served.recv().await.unwrap();
        assert_eq!((served.to_target, served.dropped), (expected, 10));
        assert_eq!(service.proxy.statistics().udp.open, 0);
    });
}

/// A TCP server that sends what it has received when its client has sent FIN.
async fn reversing() -> SocketAddr {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut content = Vec::new();
            stream.read_to_end(&mut content).await.unwrap();
            content.reverse();
            stream.write_all(&content).await.unwrap();
        }
    });
    address
}

/// One direction of a TCP tunnel ends before the other (RFC 9114 §4.4).
#[test]
fn tcp_is_half_closed() {
    run(async {
        let mut service = Service::with(local()).await;
        let target = target(reversing().await);
        let content: Vec<u8> = (0..1_000_000u32).map(|at| (at * 31 + at / 251) as u8).collect();
        let (mut send, mut body) =
            service.client.connect_tcp(&target, HeaderMap::new()).await.unwrap();
        send.write_chunk(content.clone()).await.unwrap();
        send.finish().await.unwrap();
        let mut received = body.bytes(2_000_000).await.unwrap().to_vec();
        received.reverse();
        assert!(received == content);
        let served = service.served.recv().await.unwrap();
        assert_eq!((served.to_target.bytes, served.to_client.bytes), (1_000_000, 1_000_000));
        assert_eq!(served.outcome, "closed");
        let statistics = service.proxy.statistics().tcp;
        assert_eq!((statistics.open, statistics.opened), (0, 1));
        assert_eq!(statistics.to_targets, Traffic { datagrams: 0, bytes: 1_000_000 });
        assert_eq!(statistics.to_clients, Traffic { datagrams: 0, bytes: 1_000_000 });
    });
}

/// A TCP reset becomes a reset with H3_CONNECT_ERROR, and a canceled tunnel becomes a TCP reset (RFC
/// 9114 §4.4).
#[test]
fn tcp_resets_pass_in_both_directions() {
    run(async {
        let mut service = Service::with(local()).await;
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let target = target(listener.local_addr().unwrap());
        let open = service.client.connect_tcp(&target, HeaderMap::new());
        let (opened, accepted) = tokio::join!(open, listener.accept());
        let ((_send, mut body), (stream, _)) = (opened.unwrap(), accepted.unwrap());
        stream.set_zero_linger().unwrap();
        drop(stream);
        let error = body.chunk().await.unwrap().unwrap_err();
        assert!(matches!(error, http3::Error::Reset(Code::CONNECT_ERROR)), "{error}");
        service.served.recv().await.unwrap();

        let open = service.client.connect_tcp(&target, HeaderMap::new());
        let (opened, accepted) = tokio::join!(open, listener.accept());
        let ((send, _body), (mut stream, _)) = (opened.unwrap(), accepted.unwrap());
        send.reset(Code::CONNECT_ERROR);
        let error = stream.read(&mut [0; 10]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_closed_tcp_port_is_reported() {
    run(async {
        let service = Service::with(local()).await;
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let target = target(listener.local_addr().unwrap());
        drop(listener);
        let error = service.client.connect_tcp(&target, HeaderMap::new()).await.unwrap_err();
        assert!(error.to_string().contains("connection_refused"), "{error}");
    });
}
