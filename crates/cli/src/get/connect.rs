//! Connection setup from a URL.

use std::net::SocketAddr;

use clearway::http3::{Client, Config, Priority};
use clearway::transport::TransportErrorCause;
use clearway::{ClientConfig, ConnectionError, Endpoint, connect_any};
use tokio::sync::oneshot;

use super::GetCommand;
use super::early::{self, Answers, Http3Answer, Http09Answer};
use super::explain::{Server, ended};
use super::protocol::Protocol;
use super::proxied::{Outer, Proxied};
use super::rebind::Rebinding;
use super::sessions::Sessions;
use super::target::Target;
use crate::address::{any, resolve};
use crate::certificate::read_roots;
use crate::failure::Failure;
use crate::http3_options::with_datagrams;
use crate::{http09, output, quic_version};

/// A connection to a server.
pub(super) struct Session {
    pub(super) server: Server,
    pub(super) protocol: Protocol,
    /// The responses to early HTTP/3 requests.
    pub(super) early_http3: Answers<Http3Answer>,
    /// The responses to early HTTP/0.9 requests.
    pub(super) early_http09: Answers<Http09Answer>,
    /// The scheduled migration, if any.
    _rebinding: Option<Rebinding>,
    /// Keeps the UDP socket open while the connection exists.
    _endpoint: Endpoint,
    /// The connection to the proxy, if there is one.
    _outer: Option<Outer>,
}

impl Session {
    /// Waits for the end of the handshake. Returns whether the server accepted the early data.
    pub(super) async fn early_data_accepted(&self) -> bool {
        match &self.protocol {
            Protocol::Http3(client) => client.early_data_accepted().await,
            Protocol::Http09(connection) => connection.early_data_accepted().await,
        }
    }

    /// Waits until the server has responded, which is when the handshake is complete.
    async fn answered(&self) -> Result<(), Failure> {
        match &self.protocol {
            Protocol::Http3(client) => {
                client.answered().await.map_err(|error| self.server.no_client(&error))
            }
            Protocol::Http09(connection) => {
                connection.early_data_accepted().await;
                connection
                    .close_reason()
                    .map_or(Ok(()), |error| Err(self.server.not_connected(&error)))
            }
        }
    }

    /// Drops the response to the early request for `target`, if there was one, and stops receiving
    /// it.
    pub(super) fn forget_early(&self, target: &Target) {
        drop(self.early_http3.take(target));
        drop(self.early_http09.take(target));
    }

    /// Closes the connection. The CONNECTION_CLOSE frame is sent before the program ends, but not
    /// repeated: RFC 9000 §10.2 allows an endpoint to skip the closing period, and a user whose
    /// download is complete should not wait for three probe timeouts. If the frame is lost, the
    /// server's idle timeout ends the connection.
    ///
    /// Inside of a tunnel, the frame is in a datagram of the connection to the proxy, which sends
    /// this datagram before it is closed.
    pub(super) fn close(self) {
        let Self { protocol, _endpoint: endpoint, _outer: outer, .. } = self;
        let Some(outer) = outer else { return protocol.close() };
        protocol.close();
        // Passes the datagram to the tunnel.
        endpoint.halt();
        outer.close();
    }
}

/// Returns the configuration shared by all connections.
pub(super) fn config(
    command: &GetCommand,
    sessions: Option<&Sessions>,
) -> Result<ClientConfig, Failure> {
    let config = if command.insecure {
        ClientConfig::dangerous_without_certificate_verification()
    } else if let Some(file) = &command.ca {
        ClientConfig::with_roots(read_roots(file)?)
    } else {
        ClientConfig::with_native_roots().map_err(|error| {
            Failure::new(error.to_string())
                .advise("pass a file with trusted certificates with --ca")
        })?
    };
    let keep_alive_interval = Some(command.keep_alive).filter(|interval| !interval.is_zero());
    let mut transport = command.connection.transport().keep_alive_interval(keep_alive_interval);
    quic_version::check(&command.quic_versions)?;
    if !command.quic_versions.is_empty() {
        transport = transport.versions(command.quic_versions.iter().copied());
    }
    if let Some(first) = command.quic_version {
        transport = transport.first_version(first);
    }
    if command.datagrams {
        transport = with_datagrams(transport);
    }
    let transport = transport.build().map_err(|error| Failure::new(error.to_string()))?;
    let observers = command.connection.observers(&transport, None)?;
    let protocol = match command.http09 {
        true => http09::PROTOCOL,
        false => clearway::http3::PROTOCOL,
    };
    let config = match command.cipher_suites.as_slice() {
        [] => config,
        suites => config.cipher_suites(suites.iter().copied()),
    };
    let config = command
        .tls
        .configure(config)?
        .application_protocols([protocol])
        .transport(transport)
        .early_data(command.early_data)
        .key_log_from_environment();
    let config = match sessions {
        Some(sessions) => config.session_store(sessions.store()),
        None => config,
    };
    Ok(match observers {
        Some(observers) => config.observer(observers),
        None => config,
    })
}

/// Connects to the server of `target`: to the first of its addresses that responds (RFC 8305). The
/// targets in `early` are requested immediately if the server allows early data.
pub(super) async fn connect(
    command: &GetCommand,
    config: &ClientConfig,
    target: &Target,
    early: &[Target],
) -> Result<Session, Failure> {
    let name = target.host_and_port();
    let attempt = |address| Attempt {
        server: Server { name: name.clone(), address },
        host: target.host.clone(),
        config: config.clone(),
        early: early.to_vec(),
        http09: command.http09,
        http3: Config { datagrams: command.datagrams, ..command.http3.config() },
        priority: command.priority,
    };
    if let Some(Proxied { endpoint, address, outer }) = command.proxy.tunnel(target).await? {
        let session = connect_over(endpoint, attempt(address)).await;
        let session = session.map_err(|unconnected| unconnected.failure)?;
        let rebinding = rebind(command, &outer.protocol, outer.address);
        return Ok(Session { _outer: Some(outer), _rebinding: rebinding, ..session });
    }
    let addresses = resolve(command.connect.as_deref().unwrap_or(&name)).await?;
    let is_only = addresses.len() == 1;
    let attempt = |address| {
        let attempt = attempt(address);
        async move {
            let session = try_connect(command, attempt).await?;
            // With early data, a connection is usable before the server has responded.
            if !is_only {
                session.answered().await?;
            }
            Ok(session)
        }
    };
    connect_any(addresses, attempt).await.map_err(|error| {
        let failures = error.into_attempts().into_iter().map(|(_, failure)| failure);
        let unknown = || Failure::new(format!("cannot resolve {name}: the name has no addresses"));
        Failure::of_all(failures).unwrap_or_else(unknown)
    })
}

/// Connects, and retries once if the server sends other ECH configurations.
async fn try_connect(command: &GetCommand, attempt: Attempt) -> Result<Session, Failure> {
    let session = at_most_twice(attempt, |attempt| connect_once(command, attempt)).await;
    session.map_err(|unconnected| unconnected.failure)
}

/// Calls `connect`, and calls it once more with the server's ECH configurations if the server sends
/// any.
async fn at_most_twice<T, F>(
    attempt: Attempt,
    connect: impl Fn(Attempt) -> F,
) -> Result<T, Unconnected>
where
    F: Future<Output = Result<T, Unconnected>>,
{
    match connect(attempt.clone()).await {
        Err(Unconnected { ech_configs: Some(list), .. }) => {
            output::status(&format!(
                "{} has changed its ECH keys; retrying with the new ones",
                attempt.server
            ));
            let config = attempt.config.clone().encrypted_client_hello(list);
            connect(Attempt { config, ..attempt }).await
        }
        first => first,
    }
}

async fn connect_once(command: &GetCommand, attempt: Attempt) -> Result<Session, Unconnected> {
    let endpoint = Endpoint::client(any(attempt.server.address))
        .map_err(|error| Failure::new(format!("cannot open a UDP socket: {error}")))?;
    let address = attempt.server.address;
    let session = connect_over(endpoint, attempt).await?;
    let rebinding = rebind(command, &session.protocol, address);
    Ok(Session { _rebinding: rebinding, ..session })
}

/// Schedules the migration of a connection, if requested.
fn rebind(command: &GetCommand, protocol: &Protocol, address: SocketAddr) -> Option<Rebinding> {
    let quiet = command.quiet || command.json;
    command.rebind_after.map(|after| Rebinding::start(protocol, address, after, quiet))
}

async fn connect_over(endpoint: Endpoint, attempt: Attempt) -> Result<Session, Unconnected> {
    let server = attempt.server.clone();
    let (mut sender, made) = oneshot::channel();
    endpoint.spawn({
        let endpoint = endpoint.clone();
        async move {
            tokio::select! {
                // The receiver is gone only if the user has interrupted the program.
                made = attempt.make(&endpoint) => drop(sender.send(made)),
                // Another address has responded. Dropping this attempt closes it.
                () = sender.closed() => {}
            }
        }
    });
    let ended = || Err(Failure::new("the connection's thread has exited").into());
    let Made { protocol, early_http3, early_http09 } = made.await.unwrap_or_else(|_| ended())?;
    Ok(Session {
        server,
        protocol,
        early_http3,
        early_http09,
        _rebinding: None,
        _endpoint: endpoint,
        _outer: None,
    })
}

/// State of one attempt to connect to a server. It runs on the shard's thread.
#[derive(Clone)]
struct Attempt {
    server: Server,
    /// The host name for which the server's certificate must be valid.
    host: String,
    config: ClientConfig,
    /// The targets to request immediately, if the server allows early data.
    early: Vec<Target>,
    http09: bool,
    http3: Config,
    priority: Option<Priority>,
}

/// A connection, and its early requests.
struct Made {
    protocol: Protocol,
    early_http3: Answers<Http3Answer>,
    early_http09: Answers<Http09Answer>,
}

impl Attempt {
    async fn make(self, endpoint: &Endpoint) -> Result<Made, Unconnected> {
        if self.http09 { self.http09(endpoint).await } else { self.http3(endpoint).await }
    }

    async fn http09(self, endpoint: &Endpoint) -> Result<Made, Unconnected> {
        let Self { server, host, config, early, .. } = self;
        let connecting = endpoint.connect_with(&config, server.address, &host);
        let connecting = connecting.map_err(|error| server.not_configured(&error))?;
        let connection = match connecting.into_0rtt().await {
            Ok((connection, _)) => Ok(connection),
            Err(connecting) => connecting.await,
        };
        let connection = connection.map_err(|error| Unconnected {
            failure: server.no_connection(&error),
            ech_configs: other_ech_configs(&error),
        })?;
        let early_http09 = early::ask_all(&connection, early);
        let protocol = Protocol::Http09(connection);
        Ok(Made { protocol, early_http3: Answers::default(), early_http09 })
    }

    async fn http3(self, endpoint: &Endpoint) -> Result<Made, Unconnected> {
        let Self { server, host, config, early, http3, priority, .. } = self;
        let client = Client::connect_with(endpoint, &config, server.address, &host, http3).await;
        let client = client.map_err(|error| Unconnected {
            failure: server.no_client(&error),
            ech_configs: other_ech_configs(&error),
        })?;
        let early_http3 = early::send(&client, early, priority);
        let protocol = Protocol::Http3(client);
        Ok(Made { protocol, early_http3, early_http09: Answers::default() })
    }
}

/// The reason that there is no connection, and the ECH configurations for a retry.
struct Unconnected {
    failure: Failure,
    ech_configs: Option<Vec<u8>>,
}

impl From<Failure> for Unconnected {
    fn from(failure: Failure) -> Self {
        Self { failure, ech_configs: None }
    }
}

/// Returns the retry configurations from a server that does not have the key of the ECH
/// configuration that was used (RFC 9849 §6.1.6).
fn other_ech_configs(error: &(dyn std::error::Error + 'static)) -> Option<Vec<u8>> {
    let ConnectionError::TransportError(error) = ended(error)? else { return None };
    match &error.cause {
        TransportErrorCause::EncryptedClientHelloRejected { retry_configs } => {
            retry_configs.clone()
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
