//! A proxy: checks requests for tunnels, opens sockets, and relays traffic.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_masque::auth::{Authority, Credentials};
use clearway_masque::limits::{Limiter, Limits};
use clearway_masque::policy::{Policy, Refusal};
use clearway_masque::proxy_status::{ProxyError, ProxyStatus};
use clearway_masque::request::{self, Form, TunnelRequest};
use clearway_masque::target::{Host, IpScope, ScopeTarget, Target, Values};
use clearway_masque::udp::Traffic;
use clearway_masque::{TunnelKind, UriTemplate};
use clearway_units::{AddressPrefix, Timestamp};
use clearway_wire::TransportErrorCode;
use http::{Request, Response, StatusCode};
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::Instant;

use super::counters::{Counters, OpenTunnel, ProxyStatistics};
use super::ip_relay::relay_ip_observed;
use super::ip_service::{IpOptions, IpService, TunnelRules};
use super::proxy::relay_udp_observed;
use super::stream::relay_tcp_observed;
use super::{RelayEnd, RelayOptions, TcpRelayError, TunnelError};
use crate::ConnectionError;
use crate::http3::{Body, Code, Error, RecvBody, Responder};

/// Name of the proxy in Proxy-Status fields (RFC 9209).
const NAME: &str = "clearway";
/// Time limit for resolving a name, and for each attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Name for clients without authentication whose address is unknown: they share their limits.
const ANONYMOUS: &str = "anonymous";

/// Settings of a [`Proxy`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The URI templates. If there are none, the well-known ones apply (RFC 9298 §2).
    pub templates: Vec<UriTemplate>,
    /// The permitted targets. The default denies addresses that are not public.
    pub policy: Policy,
    /// The credentials of clients; `None` accepts all clients.
    pub credentials: Option<Arc<Credentials>>,
    /// The limits of each client, and of all clients combined.
    pub limits: Limits,
    /// Settings of UDP tunnels.
    pub relay: RelayOptions,
    /// Settings of IP tunnels; `None` refuses them.
    pub ip: Option<IpOptions>,
}

/// A proxy for UDP, IP and TCP (RFC 9298, RFC 9484, RFC 9114 §4.4, draft-ietf-httpbis-connect-tcp),
/// to be used with an [`http3::Server`](crate::http3::Server).
///
/// The policy is applied to the destination of each packet of an IP tunnel. Its rules for ports do
/// not apply there; a closed policy permits no destination that is only allowed with ports.
///
/// A clone shares the limits and the addresses.
#[derive(Clone)]
pub struct Proxy(Arc<Shared>);

struct Shared {
    options: ProxyOptions,
    limiter: Mutex<Limiter>,
    ip: Option<Arc<IpService>>,
    counters: Arc<Counters>,
    began: Instant,
}

/// The outcome of a request, for logs and metrics.
#[derive(Debug)]
#[non_exhaustive]
pub struct Served {
    /// The client's name, if it was authenticated.
    pub client: Option<Arc<str>>,
    /// The kind of tunnel, if the request was valid.
    pub kind: Option<TunnelKind>,
    /// The requested target of a UDP or TCP tunnel.
    pub target: Option<Target>,
    /// The requested scope of an IP tunnel.
    pub scope: Option<IpScope>,
    /// The addresses that were assigned to an IP tunnel.
    pub addresses: Vec<IpAddr>,
    /// The status of the response.
    pub status: StatusCode,
    /// Traffic relayed from the client to the target.
    pub to_target: Traffic,
    /// Traffic relayed from the target to the client.
    pub to_client: Traffic,
    /// Number of datagrams that were dropped.
    pub dropped: u64,
    /// How the tunnel ended, or why there was none.
    pub outcome: String,
}

/// A refused request.
struct Refused {
    status: StatusCode,
    error: ProxyError,
    reason: ProxyStatus,
}

impl Refused {
    fn new(status: StatusCode, error: ProxyError, details: impl fmt::Display) -> Self {
        Self { status, error, reason: ProxyStatus::error(NAME, error).with_details(details) }
    }

    fn of(error: ProxyError, details: impl fmt::Display) -> Self {
        Self::new(error.status(), error, details)
    }
}

/// A tunnel that counts toward its client's limits until it is dropped.
struct Counted {
    shared: Arc<Shared>,
    client: Arc<str>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.limiter().close(&self.client);
    }
}

impl Counted {
    /// Returns whether the client's bandwidth limit permits `bytes` now.
    fn permits(&self, bytes: usize) -> bool {
        let now = self.shared.now();
        self.shared.limiter().take(&self.client, bytes as u64, now).is_ok()
    }
}

impl Shared {
    fn limiter(&self) -> std::sync::MutexGuard<'_, Limiter> {
        // No code that panics runs while the lock is held.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::ORIGIN + self.began.elapsed()
    }

    fn open_tunnel(&self, kind: TunnelKind) -> OpenTunnel {
        OpenTunnel::new(&self.counters, kind)
    }
}

impl Proxy {
    /// Creates a proxy.
    pub fn new(options: ProxyOptions) -> Self {
        let limiter = Mutex::new(Limiter::new(options.limits, Timestamp::ORIGIN));
        let ip = options.ip.clone().map(|options| Arc::new(IpService::new(options)));
        let counters = Arc::default();
        Self(Arc::new(Shared { options, limiter, ip, counters, began: Instant::now() }))
    }

    /// Returns the current counts, which include open tunnels.
    pub fn statistics(&self) -> ProxyStatistics {
        self.0.counters.statistics()
    }

    /// Returns the number of open tunnels.
    pub fn tunnels(&self) -> usize {
        self.0.limiter().tunnels()
    }

    /// Responds to a request: opens the tunnel and relays until it ends, or refuses it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the tunnel is reset.
    pub async fn serve(&self, request: Request<RecvBody>, responder: Responder) -> Served {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, ());
        let mut served = Served {
            client: None,
            kind: None,
            target: None,
            scope: None,
            addresses: Vec::new(),
            status: StatusCode::OK,
            to_target: Traffic::default(),
            to_client: Traffic::default(),
            dropped: 0,
            outcome: String::new(),
        };
        let admitted = self.admit(&request, &responder, &mut served).await;
        match admitted {
            Ok(Admitted::Udp(socket, counted)) => {
                let relay = &self.0.options.relay;
                let permits = |bytes| counted.permits(bytes);
                let mut tunnel = self.0.open_tunnel(TunnelKind::Udp);
                let observe = |statistics: &_| tunnel.update_udp(statistics);
                let (statistics, end) =
                    relay_udp_observed(body, responder, socket, relay, permits, observe).await;
                served.to_target = statistics.to_socket;
                served.to_client = statistics.to_peer;
                served.dropped = statistics.dropped.values().sum();
                served.outcome = ended(&end);
            }
            Ok(Admitted::Ip(tunnel)) => tunnel.relay(body, responder, &mut served).await,
            Ok(Admitted::Tcp(stream, form, counted)) => {
                let tunnel = self.0.open_tunnel(TunnelKind::Tcp);
                let observe = |direction, bytes| tunnel.on_bytes(direction, bytes);
                let (sent, received, end) =
                    relay_tcp_observed(body, responder, stream, form, &observe).await;
                served.to_target.bytes = sent;
                served.to_client.bytes = received;
                served.outcome = match end {
                    Ok(()) => "closed".to_owned(),
                    Err(TcpRelayError::Http(error)) if is_regular(&error) => "closed".to_owned(),
                    Err(error) => error.to_string(),
                };
                drop(counted);
            }
            Err(response) => {
                served.status = response.status();
                // The client may have gone.
                let _ = responder.respond(response.map(|()| Body::empty())).await;
                drop(body);
            }
        }
        served
    }

    /// Checks a request, and opens a socket for it.
    async fn admit(
        &self,
        request: &Request<()>,
        responder: &Responder,
        served: &mut Served,
    ) -> Result<Admitted, Response<()>> {
        let name = self.authenticate(request, responder, served)?;
        let refuse = |served: &mut Served, refused: Refused| {
            served.outcome = refused.reason.to_string();
            self.0.counters.on_refused(refused.error);
            request::refuse(refused.status, &refused.reason)
        };
        let parsed = match self.parse(request) {
            Ok(parsed) => parsed,
            Err(refused) => return Err(refuse(served, refused)),
        };
        served.kind = Some(parsed.kind);
        match &parsed.destination {
            Values::Target(target) => served.target = Some(target.clone()),
            Values::Scope(scope) => served.scope = Some(scope.clone()),
        }
        let opened = match (self.count(name), parsed.destination) {
            (Err(refused), _) => Err(refused),
            (Ok(counted), Values::Target(target)) => {
                self.open(parsed.kind, parsed.form, &target, counted).await
            }
            (Ok(counted), Values::Scope(scope)) => self.open_ip(scope, counted).await,
        };
        opened.map_err(|refused| refuse(served, refused))
    }

    /// Checks the scope of an IP tunnel.
    async fn open_ip(&self, scope: IpScope, counted: Counted) -> Result<Admitted, Refused> {
        let Some(service) = self.0.ip.clone() else {
            let details = "this proxy has no address pool for IP tunnels";
            let error = ProxyError::HttpRequestDenied;
            return Err(Refused::new(StatusCode::NOT_IMPLEMENTED, error, details));
        };
        let resolved = match &scope.target {
            ScopeTarget::Name(name) => {
                let policy = &self.0.options.policy;
                let admission = policy.check_scope_name(name).map_err(denied)?;
                self.lookup(name.as_str(), 0, |address| {
                    policy.check_scope_address(address, admission)
                })
                .await?
                .into_iter()
                .map(|address| address.ip())
                .collect()
            }
            ScopeTarget::Any | ScopeTarget::Prefix(_) => Vec::new(),
        };
        Ok(Admitted::Ip(Box::new(IpAdmitted { service, scope, resolved, counted })))
    }

    /// Authenticates the client. Returns the name to which its limits apply.
    fn authenticate(
        &self,
        request: &Request<()>,
        responder: &Responder,
        served: &mut Served,
    ) -> Result<Arc<str>, Response<()>> {
        let Some(credentials) = &self.0.options.credentials else {
            return Ok(limited_name(responder.remote_address()));
        };
        let is_extended = request.extensions().get::<crate::http3::Protocol>().is_some();
        let authority = if is_extended { Authority::Origin } else { Authority::Proxy };
        let names = responder.peer_identity().map(certificate_names).unwrap_or_default();
        let by_certificate = names.iter().find_map(|name| {
            credentials.check(&http::HeaderMap::new(), authority, Some(name)).ok()
        });
        let client = match by_certificate {
            Some(client) => Ok(client),
            None => credentials.check(request.headers(), authority, None),
        };
        match client {
            Ok(client) => {
                served.client = Some(client.name.clone());
                Ok(client.name)
            }
            Err(error) => {
                self.0.counters.on_unauthenticated();
                served.outcome = error.to_string();
                Err(request::challenge(credentials.challenge(authority)))
            }
        }
    }

    fn parse(&self, request: &Request<()>) -> Result<TunnelRequest, Refused> {
        let templates = &self.0.options.templates;
        let well_known;
        let templates = match templates.is_empty() {
            false => templates,
            true => {
                let authority = request.uri().authority().cloned();
                let authority =
                    authority.unwrap_or_else(|| http::uri::Authority::from_static("localhost"));
                well_known = TunnelKind::ALL
                    .map(|kind| UriTemplate::well_known(kind, authority.clone()))
                    .to_vec();
                &well_known
            }
        };
        TunnelRequest::parse(request, templates)
            .map_err(|error| Refused::new(error.status(), error.proxy_error(), error))
    }

    fn count(&self, client: Arc<str>) -> Result<Counted, Refused> {
        let opened = self.0.limiter().open(&client, self.0.now());
        match opened {
            Ok(()) => Ok(Counted { shared: self.0.clone(), client }),
            Err(limit) => Err(Refused::of(limit.proxy_error(), limit)),
        }
    }

    async fn open(
        &self,
        kind: TunnelKind,
        form: Form,
        target: &Target,
        counted: Counted,
    ) -> Result<Admitted, Refused> {
        let addresses = self.resolve(target).await?;
        let mut last = None;
        for address in addresses {
            let is_own = match is_own_address(address) {
                Ok(is_own) => is_own,
                Err(error) => {
                    last = Some(refusal(&error));
                    continue;
                }
            };
            if is_own
                && let Err(refusal) =
                    self.0.options.policy.check_own_address(address.ip(), Some(target.port))
            {
                last = Some(denied(refusal));
                continue;
            }
            let attempt = async {
                match kind {
                    TunnelKind::Udp => Ok(Opened::Udp(udp_socket(address).await?)),
                    _ => Ok(Opened::Tcp(TcpStream::connect(address).await?)),
                }
            };
            match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
                Ok(Ok(Opened::Udp(socket))) => return Ok(Admitted::Udp(socket, counted)),
                Ok(Ok(Opened::Tcp(stream))) => return Ok(Admitted::Tcp(stream, form, counted)),
                Ok(Err(error)) => last = Some(refusal(&error)),
                Err(_) => {
                    let details = format_args!("no response from {address}").to_string();
                    last = Some(Refused::of(ProxyError::ConnectionTimeout, details));
                }
            }
        }
        Err(last.unwrap_or_else(|| Refused::of(ProxyError::DnsError, "the name has no addresses")))
    }

    /// Returns the addresses of the target that the policy permits.
    async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refused> {
        let policy = &self.0.options.policy;
        let port = target.port;
        let name = match &target.host {
            Host::V4(address) => return self.literal((*address).into(), target),
            Host::V6(address) => return self.literal((*address).into(), target),
            Host::Name(name) => name,
        };
        let admission = policy.check_name(name, port).map_err(denied)?;
        self.lookup(name.as_str(), port.get(), |address| {
            policy.check_address(address, port, admission)
        })
        .await
    }

    /// Resolves a name. Returns those of its addresses that `check` permits.
    async fn lookup(
        &self,
        name: &str,
        port: u16,
        check: impl Fn(IpAddr) -> Result<(), Refusal>,
    ) -> Result<Vec<SocketAddr>, Refused> {
        let lookup = tokio::net::lookup_host((name, port));
        let found = match tokio::time::timeout(CONNECT_TIMEOUT, lookup).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(Refused::of(ProxyError::DnsError, error)),
            Err(_) => return Err(Refused::of(ProxyError::DnsTimeout, "the resolver timed out")),
        };
        let mut refused = None;
        let mut permitted = Vec::new();
        for address in found {
            match check(address.ip()) {
                Ok(()) => permitted.push(address),
                Err(refusal) => refused = Some(denied(refusal)),
            }
        }
        match (permitted.is_empty(), refused) {
            (true, Some(refused)) => Err(refused),
            _ => Ok(permitted),
        }
    }

    fn literal(&self, address: IpAddr, target: &Target) -> Result<Vec<SocketAddr>, Refused> {
        match self.0.options.policy.check_literal(address, target.port) {
            Ok(()) => Ok(vec![SocketAddr::new(address, target.port.get())]),
            Err(refusal) => Err(denied(refusal)),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("tunnels", &self.tunnels()).finish_non_exhaustive()
    }
}

enum Opened {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

enum Admitted {
    Udp(UdpSocket, Counted),
    Ip(Box<IpAdmitted>),
    Tcp(TcpStream, Form, Counted),
}

/// A request for an IP tunnel that was admitted.
struct IpAdmitted {
    service: Arc<IpService>,
    scope: IpScope,
    /// The addresses to which the scope's name resolved.
    resolved: Vec<IpAddr>,
    counted: Counted,
}

impl IpAdmitted {
    async fn relay(self, body: RecvBody, responder: Responder, served: &mut Served) {
        let Self { service, scope, resolved, counted } = self;
        let options = service.relay(&scope, &resolved);
        let port = service.port();
        let mut tunnel = counted.shared.open_tunnel(TunnelKind::Ip);
        let addresses = Arc::new(Mutex::new(Vec::new()));
        let rules = TunnelRules {
            policy: counted.shared.options.policy.clone(),
            service,
            port: port.clone(),
            scope,
            permits: move |bytes| counted.permits(bytes),
            addresses: addresses.clone(),
        };
        let observe = |statistics: &_| tunnel.update_ip(statistics);
        let (statistics, end) =
            relay_ip_observed(body, responder, port, options, rules, observe).await;
        served.addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        served.to_target = statistics.received;
        served.to_client = statistics.sent;
        served.dropped = statistics.dropped.values().sum();
        served.outcome = ended(&end);
    }
}

/// Returns the name to which the limits of a client without authentication apply: its IPv4 address,
/// or the /64 of its IPv6 address.
fn limited_name(client: Option<SocketAddr>) -> Arc<str> {
    client.map_or(ANONYMOUS.into(), |client| AddressPrefix::host(client).to_string().into())
}

/// Returns whether an address belongs to this host: the source address for a destination on this
/// host is the destination itself. Sends nothing.
///
/// # Errors
/// Fails if the system cannot tell: the target must be refused then.
fn is_own_address(target: SocketAddr) -> io::Result<bool> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    Ok(socket.local_addr()?.ip() == target.ip())
}

/// Opens a socket that sends to and receives from `target` only.
async fn udp_socket(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target).await?;
    Ok(socket)
}

/// Returns the refusal for a target that the policy denies.
fn denied(refusal: Refusal) -> Refused {
    Refused::new(refusal.status(), refusal.proxy_error(), refusal)
}

/// Returns the refusal for an error of a socket.
fn refusal(error: &io::Error) -> Refused {
    let kind = match error.kind() {
        io::ErrorKind::ConnectionRefused => ProxyError::ConnectionRefused,
        io::ErrorKind::TimedOut => ProxyError::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ProxyError::DestinationIpUnroutable
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::NetworkDown => ProxyError::DestinationUnavailable,
        // A lack of descriptors, ports or memory on this host, which is not about the target.
        _ => ProxyError::ProxyInternalError,
    };
    Refused::of(kind, error)
}

/// Describes how a tunnel ended.
fn ended(end: &RelayEnd) -> String {
    match end {
        RelayEnd::Closed => "closed".to_owned(),
        RelayEnd::Tunnel(TunnelError::Http(error)) if is_regular(error) => "closed".to_owned(),
        RelayEnd::Idle => "idle".to_owned(),
        RelayEnd::Tunnel(error) => error.to_string(),
        RelayEnd::Socket(error) => format!("the socket failed: {error}"),
        RelayEnd::Device(error) => format!("the device failed: {error}"),
    }
}

/// Returns whether the client has closed the tunnel or the connection without an error.
fn is_regular(error: &Error) -> bool {
    let codes = [Code::NO_ERROR, Code::REQUEST_CANCELLED];
    match error {
        Error::Reset(code) | Error::Stopped(code) => codes.contains(code),
        Error::Connection(ConnectionError::ApplicationClosed { error_code, .. }) => {
            error_code.get() == Code::NO_ERROR.get()
        }
        Error::Connection(ConnectionError::ConnectionClosed { error_code, .. }) => {
            *error_code == TransportErrorCode::NO_ERROR
        }
        _ => false,
    }
}

/// Returns the DNS names of a client's certificate.
fn certificate_names(chain: &[CertificateDer<'static>]) -> Vec<String> {
    let Some(first) = chain.first() else { return Vec::new() };
    let Ok(certificate) = webpki::EndEntityCert::try_from(first) else { return Vec::new() };
    certificate.valid_dns_names().map(str::to_ascii_lowercase).collect()
}

impl Served {
    /// Returns whether the tunnel was opened.
    pub fn is_opened(&self) -> bool {
        self.status.is_success()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host can have any address of its /64.
    #[test]
    fn the_addresses_of_a_host_share_its_limits() {
        let name = |client: &str| limited_name(Some(client.parse().unwrap()));
        assert_eq!(name("[2001:db8::1]:5"), name("[2001:db8::ffff:2]:6"));
        assert_ne!(name("[2001:db8::1]:5"), name("[2001:db8:0:1::1]:5"));
        assert_eq!(name("192.0.2.1:5"), name("[::ffff:192.0.2.1]:6"));
        assert_ne!(name("192.0.2.1:5"), name("192.0.2.2:5"));
        assert_eq!(&*limited_name(None), ANONYMOUS);
    }

    #[test]
    fn the_hosts_own_addresses_are_recognized() {
        assert!(is_own_address((Ipv4Addr::LOCALHOST, 9).into()).unwrap());
        // The system cannot tell: UDP sockets must not connect to a broadcast address.
        assert!(is_own_address((Ipv4Addr::BROADCAST, 9).into()).is_err());
    }

    #[test]
    fn a_shortage_on_this_host_is_not_the_targets_failure() {
        use rustix::io::Errno;

        for (errno, expected) in [
            (Errno::MFILE, ProxyError::ProxyInternalError),
            (Errno::ADDRNOTAVAIL, ProxyError::ProxyInternalError),
            (Errno::CONNREFUSED, ProxyError::ConnectionRefused),
            (Errno::HOSTUNREACH, ProxyError::DestinationIpUnroutable),
            (Errno::CONNRESET, ProxyError::DestinationUnavailable),
        ] {
            assert_eq!(refusal(&errno.into()).error, expected, "{errno:?}");
        }
    }
}
