//! Runs scripts over UDP sockets. The calls block.

mod condition;
mod driver;
mod steps;

use core::fmt;
use core::time::Duration;
use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;

use ring::rand::{SecureRandom, SystemRandom};

use crate::Data;
use crate::quic::{Config, Endpoint, EndpointError, Identity, SessionCache, Trust};
use crate::report::Report;
use crate::script::{Condition, Connect, Script, Step, Token};
use driver::{Driver, Sockets};

/// Maximum number of connection IDs that a listener remembers, so that it can ignore late packets.
const MAX_SEEN: usize = 10_000;

/// A server to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's address.
    pub address: SocketAddr,
    /// The server's name, for TLS.
    pub server_name: String,
    /// The authority of requests: the name, and the port unless it is 443.
    pub authority: String,
    /// The certificates that are accepted.
    pub trust: Trust,
}

/// Settings of runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum time until the first step begins.
    pub handshake_timeout: Duration,
    /// Maximum time to wait for an expectation that does not set its own.
    pub expect_timeout: Duration,
    /// Application protocols to use instead of `h3` in scripts.
    pub alpn: Vec<Data>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            expect_timeout: Duration::from_secs(2),
            alpn: Vec::new(),
        }
    }
}

/// The reason why a script was not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The server does not respond, or is not reachable.
    CannotConnect {
        /// The server's address.
        address: SocketAddr,
        /// The reason.
        why: String,
    },
    /// A socket cannot be opened.
    Socket {
        /// The local address or the peer's address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The peer does not support what the script needs.
    NotApplicable {
        /// What the peer does not support.
        why: String,
    },
    /// No client connected in time.
    NoClient,
    /// The connection could not be set up.
    Endpoint {
        /// The reason.
        source: EndpointError,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotConnect { address, why } => {
                write!(f, "cannot connect to {address} over QUIC: {why}")
            }
            Self::Socket { address, source } => {
                write!(f, "cannot open a UDP socket for {address}: {source}")
            }
            Self::NotApplicable { why } => write!(f, "the script does not apply: {why}"),
            Self::NoClient => f.write_str("no client has connected in time"),
            Self::Endpoint { source } => source.fmt(f),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } => Some(source),
            Self::Endpoint { source } => Some(source),
            _ => None,
        }
    }
}

impl From<EndpointError> for RunError {
    fn from(source: EndpointError) -> Self {
        Self::Endpoint { source }
    }
}

/// Returns random bytes for connection IDs.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    // Without a source of randomness, TLS would fail as well, and says so.
    let _ = SystemRandom::new().fill(&mut seed);
    seed
}

/// Returns an endpoint's settings for a script.
fn config(connect: &Connect, options: &Options) -> Config {
    let mut config = Config::new(seed());
    let is_default = connect.alpn == Connect::default().alpn;
    config.alpn = if is_default && !options.alpn.is_empty() {
        options.alpn.clone()
    } else {
        connect.alpn.clone()
    };
    let version = connect.version.constant().unwrap_or(1);
    config.version = clearway_wire::Version(u32::try_from(version).unwrap_or(1));
    config.early_data = connect.early_data;
    config.parameters = connect.parameters.clone();
    config.tls = connect.tls.clone();
    config.acknowledges = connect.acknowledge;
    config.retransmits = connect.retransmit;
    config.initial_size = connect.initial_size;
    config.source = connect.source.clone();
    config.destination = connect.destination.clone();
    config.handshake_done = connect.handshake_done;
    config
}

/// The results of an earlier connection that a later connection uses.
#[derive(Default)]
struct Earlier {
    sessions: SessionCache,
    token: Option<Vec<u8>>,
}

/// Connects once to obtain session tickets and a token.
fn earlier(target: &Target, script: &Script, options: &Options) -> Result<Earlier, RunError> {
    let sessions = SessionCache::default();
    let first = Script {
        connect: Connect { alpn: script.connect.alpn.clone(), ..Connect::default() },
        steps: vec![Step::Wait {
            // Tickets and tokens are sent right after the handshake.
            until: Some(Condition::Frame { name: "crypto".to_owned() }),
            milliseconds: 500,
        }],
    };
    let first = match script.connect.token {
        Some(Token::Previous) => first.wait(Condition::Frame { name: "new_token".to_owned() }),
        _ => first,
    };
    let mut config = config(&first.connect, options);
    config.sessions = sessions.clone();
    let driver = run_client(target, &first, options, config)?;
    Ok(Earlier { sessions, token: driver.endpoint().tokens().last().cloned() })
}

/// Connects to a server and executes a script.
///
/// # Errors
/// If no packet arrives from the server, or it lacks what the script needs: early data or tokens.
pub fn connect(target: &Target, script: &Script, options: &Options) -> Result<Report, RunError> {
    let mut config = config(&script.connect, options);
    let needs_token = script.connect.token == Some(Token::Previous);
    if script.connect.resume || script.connect.early_data || needs_token {
        let earlier = earlier(target, script, options)?;
        if needs_token {
            let why = || "the server sends no NEW_TOKEN frame".to_owned();
            let token = earlier.token.ok_or_else(|| RunError::NotApplicable { why: why() })?;
            config.token = Data::new(token);
        }
        config.sessions = earlier.sessions;
    }
    if let Some(Token::Bytes(bytes)) = &script.connect.token {
        config.token = bytes.clone();
    }
    Ok(run_client(target, script, options, config)?.into_report())
}

fn run_client(
    target: &Target,
    script: &Script,
    options: &Options,
    mut config: Config,
) -> Result<Driver, RunError> {
    config.server_name = target.server_name.clone();
    config.trust = target.trust.clone();
    let early_data = config.early_data;
    let sockets = Sockets::connect(target.address)?;
    let endpoint = Endpoint::client(config, clearway_units::Timestamp::ORIGIN)?;
    if early_data && !endpoint.has_early_keys() {
        return Err(RunError::NotApplicable { why: "the server offers no early data".to_owned() });
    }
    let mut driver = Driver::new(endpoint, sockets, target.authority.clone(), options.clone());
    driver.begin(&script.connect)?;
    driver.execute(&script.steps);
    driver.finish();
    Ok(driver)
}

/// A UDP socket on which the probe acts as a server, for one client at a time.
#[derive(Debug)]
pub struct Listener {
    socket: UdpSocket,
    address: SocketAddr,
    identity: Identity,
    /// The connection IDs of earlier connections, whose late packets are ignored.
    seen: Mutex<HashSet<Vec<u8>>>,
}

impl Listener {
    /// Opens a socket.
    ///
    /// # Errors
    /// If the address is in use, or not one of this machine.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Self, RunError> {
        let failed = |source| RunError::Socket { address, source };
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, identity, seen: Mutex::default() })
    }

    /// Returns the local address.
    pub const fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's certificate and key.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Waits for the next client and executes a script.
    ///
    /// # Errors
    /// If no client sends an Initial packet within the handshake timeout.
    pub fn accept(&self, script: &Script, options: &Options) -> Result<Report, RunError> {
        let mut config = config(&script.connect, options);
        config.identity = Some(self.identity.clone());
        config.holds_first = script.connect.until == crate::quic::Progress::Start;
        let endpoint = Endpoint::server(config, clearway_units::Timestamp::ORIGIN)?;
        let seen = self.seen.lock().map(|seen| seen.clone()).unwrap_or_default();
        let failed = |source| RunError::Socket { address: self.address, source };
        let socket = self.socket.try_clone().map_err(failed)?;
        let sockets = Sockets::listen(socket, seen, endpoint.connection_ids().0.len());
        let mut driver = Driver::new(endpoint, sockets, self.address.to_string(), options.clone());
        driver.begin(&script.connect)?;
        driver.execute(&script.steps);
        driver.finish();
        if let Ok(mut seen) = self.seen.lock()
            && seen.len() < MAX_SEEN
        {
            seen.extend(driver.endpoint().own_ids());
        }
        Ok(driver.into_report())
    }
}
