//! From a URL to a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clearway::http3::{Client, Code};
use clearway::{ClientConfig, Connection, Endpoint};

use super::GetCommand;
use super::explain::Server;
use super::target::Target;
use crate::address::resolve;
use crate::certificate::read_roots;
use crate::failure::Failure;
use crate::http09;

/// A connection to a server.
pub(super) struct Session {
    pub(super) server: Server,
    pub(super) protocol: Protocol,
    /// Keeps the UDP socket open for as long as the connection exists.
    _endpoint: Endpoint,
}

/// The application protocol of a connection.
pub(super) enum Protocol {
    Http3(Client),
    Http09(Connection),
}

impl Session {
    /// Closes the connection. The CONNECTION_CLOSE frame is sent before the program ends, but not repeated: RFC 9000
    /// §10.2 permits an endpoint to skip the closing period, and a user who has the file should not wait for three
    /// probe timeouts. If the frame is lost, the server's idle timeout ends the connection.
    pub(super) fn close(self) {
        match self.protocol {
            Protocol::Http3(client) => client.close(Code::NO_ERROR),
            Protocol::Http09(connection) => connection.close(clearway::VarInt::from_u32(0), b""),
        }
    }
}

/// The settings of all connections.
pub(super) fn config(command: &GetCommand) -> Result<ClientConfig, Failure> {
    let config = if command.insecure {
        ClientConfig::dangerous_without_certificate_verification()
    } else if let Some(file) = &command.ca {
        ClientConfig::with_roots(read_roots(file)?)
    } else {
        ClientConfig::with_native_roots().map_err(|error| {
            Failure::new(error.to_string()).advise("name a file of trusted certificates with --ca")
        })?
    };
    let keep_alive_interval = Some(command.keep_alive).filter(|interval| !interval.is_zero());
    let mut transport = command.connection.transport().keep_alive_interval(keep_alive_interval);
    if !command.quic_versions.is_empty() {
        transport = transport.versions(command.quic_versions.iter().copied());
    }
    if let Some(first) = command.quic_version {
        transport = transport.first_version(first);
    }
    let transport = transport.build()?;
    let observers = command.connection.observers(&transport, None)?;
    let protocol = match command.http09 {
        true => http09::PROTOCOL,
        false => clearway::http3::PROTOCOL,
    };
    let config = match command.cipher_suites.as_slice() {
        [] => config,
        suites => config.cipher_suites(suites.iter().copied()),
    };
    let config =
        config.application_protocols([protocol]).transport(transport).key_log_from_environment();
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

/// Connects to the server of `target`: to the first of its addresses that responds.
pub(super) async fn connect(
    command: &GetCommand,
    config: &ClientConfig,
    target: &Target,
) -> Result<Session, Failure> {
    let name = target.host_and_port();
    let addresses = match &command.connect {
        Some(instead) => resolve(instead).await?,
        None => resolve(&name).await?,
    };
    let mut failure = None;
    for address in addresses {
        let server = Server { name: name.clone(), address };
        match try_connect(command, config, target, server).await {
            Ok(session) => return Ok(session),
            // The failure of the first address is reported, since that is the one that the resolver prefers.
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| Failure::new(format!("{name} has no address"))))
}

async fn try_connect(
    command: &GetCommand,
    config: &ClientConfig,
    target: &Target,
    server: Server,
) -> Result<Session, Failure> {
    let address = server.address;
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let endpoint = Endpoint::client(SocketAddr::new(any, 0))
        .map_err(|error| Failure::new(format!("cannot open a UDP socket: {error}")))?;
    let protocol = if command.http09 {
        let connecting = endpoint.connect_with(config, address, &target.host);
        let connecting = connecting.map_err(|error| Failure::new(error.to_string()))?;
        Protocol::Http09(connecting.await.map_err(|error| server.no_connection(&error))?)
    } else {
        let client = Client::connect(&endpoint, config, address, &target.host).await;
        Protocol::Http3(client.map_err(|error| server.no_client(&error))?)
    };
    Ok(Session { server, protocol, _endpoint: endpoint })
}
