//! Connections to proxies, and downloads through them (RFC 9298).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use clap::Args;
use clearway::http3::{Client, Config, PROTOCOL};
use clearway::masque::target::{Host, Name};
use clearway::masque::{self, TunnelKind, UriTemplate};
use clearway::{ClientConfig, Endpoint, TransportConfigBuilder, connect_any};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::explain::Server;
use super::protocol::Protocol;
use super::target::Target;
use crate::address::{any, resolve};
use crate::certificate::read_roots;
use crate::failure::Failure;

/// The options for a proxy.
#[derive(Args, Clone, Debug)]
pub(super) struct ProxyOptions {
    /// Connect through this proxy (RFC 9298), such as https://proxy.example:443.
    ///
    /// The connection uses a CONNECT-UDP tunnel, and is still encrypted from end to end. The proxy
    /// resolves the server's name. A URI template, with {target_host} and {target_port}, replaces the
    /// well-known one. With --rebind-after, the connection to the proxy migrates.
    #[arg(long, short_alias = 'x', value_name = "URL", conflicts_with = "connect")]
    proxy: Option<String>,
    /// Trust only proxy certificate chains that end at a certificate in this PEM file.
    #[arg(long, alias = "proxy-cacert", value_name = "FILE", requires = "proxy")]
    proxy_ca: Option<PathBuf>,
    /// Dangerous: do not verify the proxy's certificate.
    #[arg(long, requires = "proxy", conflicts_with = "proxy_ca")]
    proxy_insecure: bool,
    /// Credentials for the proxy: NAME:PASSWORD or bearer:TOKEN.
    #[arg(long, short_alias = 'U', value_name = "NAME:PASSWORD", requires = "proxy")]
    proxy_user: Option<String>,
}

/// A connection to a proxy, and the endpoint inside a tunnel.
pub(super) struct Proxied {
    pub(super) endpoint: Endpoint,
    /// The address of the server inside the tunnel.
    pub(super) address: SocketAddr,
    /// Keeps the connection to the proxy open.
    pub(super) outer: Outer,
}

/// The connection to the proxy.
pub(super) struct Outer {
    pub(super) protocol: Protocol,
    pub(super) address: SocketAddr,
    _endpoint: Endpoint,
}

impl Outer {
    /// Closes the connection and its tunnels. The datagrams that tunnels have queued are sent first.
    pub(super) fn close(self) {
        self.protocol.close();
    }
}

/// A proxy, and the client's credentials for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access<'a> {
    /// The URL or the URI template.
    pub(crate) url: &'a str,
    /// The file with the trust anchors; `None` for the platform's.
    pub(crate) ca: Option<&'a Path>,
    /// Whether the certificate is not verified.
    pub(crate) is_insecure: bool,
    /// `NAME:PASSWORD` or `bearer:TOKEN`.
    pub(crate) user: Option<&'a str>,
}

/// A connection to a proxy.
pub(crate) struct Connected {
    pub(crate) client: Client,
    /// Keeps the UDP socket open while the connection exists.
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) template: UriTemplate,
    /// The proxy's name and port.
    pub(crate) name: String,
}

impl Access<'_> {
    /// Connects to the first of the proxy's addresses that responds.
    pub(crate) async fn connect(
        &self,
        kind: TunnelKind,
        transport: TransportConfigBuilder,
    ) -> Result<Connected, Failure> {
        let (proxy, template) = parse(self.url, kind)?;
        let config = self.config(transport)?;
        let name = proxy.host_and_port();
        let attempt = |address| {
            let (config, host) = (config.clone(), proxy.host.clone());
            let server = Server { name: format!("the proxy {name}"), address };
            async move { connect(&config, server, &host).await }
        };
        let (client, endpoint, address) =
            connect_any(resolve(&name).await?, attempt).await.map_err(|error| {
                let failures = error.into_attempts().into_iter().map(|(_, failure)| failure);
                let unknown = || Failure::new(format!("cannot resolve {name}"));
                Failure::of_all(failures).unwrap_or_else(unknown)
            })?;
        Ok(Connected { client, endpoint, address, template, name })
    }

    fn config(&self, transport: TransportConfigBuilder) -> Result<ClientConfig, Failure> {
        let config = if self.is_insecure {
            ClientConfig::dangerous_without_certificate_verification()
        } else if let Some(file) = self.ca {
            ClientConfig::with_roots(read_roots(file)?)
        } else {
            ClientConfig::with_native_roots().map_err(|error| {
                Failure::new(error.to_string())
                    .advise("pass a file with trusted certificates with --proxy-ca")
            })?
        };
        let transport = masque::transport_config(transport);
        let transport = transport.build().map_err(|error| Failure::new(error.to_string()))?;
        Ok(config.application_protocols([PROTOCOL]).transport(transport).key_log_from_environment())
    }

    /// Returns the fields with the credentials.
    pub(crate) fn credentials(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        let Some(user) = self.user else { return Ok(headers) };
        let value = match user.strip_prefix("bearer:") {
            Some(token) => format!("Bearer {token}"),
            None if !user.contains(':') => {
                return Err(Failure::new("--proxy-user has no password")
                    .advise("write NAME:PASSWORD, or bearer:TOKEN"));
            }
            None => {
                format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user))
            }
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| Failure::new("--proxy-user contains a control character"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
        Ok(headers)
    }
}

impl ProxyOptions {
    /// Opens a tunnel to the server of `target`, if a proxy was given.
    pub(super) async fn tunnel(&self, target: &Target) -> Result<Option<Proxied>, Failure> {
        let Some(url) = &self.proxy else { return Ok(None) };
        let access = Access {
            url,
            ca: self.proxy_ca.as_deref(),
            is_insecure: self.proxy_insecure,
            user: self.proxy_user.as_deref(),
        };
        let transport = clearway::TransportConfig::builder();
        let connected = access.connect(TunnelKind::Udp, transport).await?;
        let Connected { client, endpoint: outer, address: proxy_address, template, name } =
            connected;
        let tunnel = client
            .connect_udp_with(&template, &destination(target)?, access.credentials()?)
            .await
            .map_err(|error| {
                let server = target.host_and_port();
                Failure::new(format!("cannot reach {server} through the proxy {name}: {error}"))
            })?;
        // Inside of the tunnel, the address is only a name for the target.
        let address = SocketAddr::new(proxy_address.ip(), target.port);
        let local = any(address);
        let endpoint = Endpoint::client_over(tunnel.into_socket(local, address))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        let protocol = Protocol::Http3(client);
        let outer = Outer { protocol, address: proxy_address, _endpoint: outer };
        Ok(Some(Proxied { endpoint, address, outer }))
    }
}

async fn connect(
    config: &ClientConfig,
    server: Server,
    host: &str,
) -> Result<(Client, Endpoint, SocketAddr), Failure> {
    let endpoint = Endpoint::client(any(server.address))
        .map_err(|error| Failure::new(format!("cannot open a UDP socket: {error}")))?;
    let http3 = Config { datagrams: true, ..Config::default() };
    let client = Client::connect_with(&endpoint, config, server.address, host, http3).await;
    let client = client.map_err(|error| server.no_client(&error))?;
    Ok((client, endpoint, server.address))
}

/// Parses the URL of a proxy, or its URI template.
fn parse(url: &str, kind: TunnelKind) -> Result<(Target, UriTemplate), Failure> {
    let invalid = |why: String| {
        Failure::new(format!("cannot use the proxy {url}: {why}"))
            .advise("use a URL such as https://proxy.example:443")
    };
    if url.contains('{') {
        let template = UriTemplate::parse(kind, url);
        let template = template.map_err(|error| invalid(error.to_string()))?;
        let proxy = Target::parse(&format!("https://{}/", template.authority()))?;
        return Ok((proxy, template));
    }
    let proxy = Target::parse(url)?;
    let authority =
        proxy.uri.authority().ok_or_else(|| invalid("the URL has no host".to_owned()))?;
    let template = UriTemplate::well_known(kind, authority.clone());
    Ok((proxy, template))
}

/// Returns the target of the tunnel.
fn destination(target: &Target) -> Result<masque::target::Target, Failure> {
    let invalid = || Failure::new(format!("{} is not a valid host name", target.host));
    let host = target.host.trim_start_matches('[').trim_end_matches(']');
    let host = match host.parse() {
        Ok(std::net::IpAddr::V4(address)) => Host::V4(address),
        Ok(std::net::IpAddr::V6(address)) => Host::V6(address),
        Err(_) => Host::Name(Name::parse(host).map_err(|_| invalid())?),
    };
    let port = target.port.try_into().map_err(|_| invalid())?;
    Ok(masque::target::Target { host, port })
}
