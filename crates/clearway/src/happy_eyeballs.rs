//! Connecting to a host with several addresses: Happy Eyeballs (RFC 8305).

use core::fmt;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::VecDeque;

use tokio::time::sleep;

use crate::config::ClientConfig;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error::{ConfigError, ConnectError};
#[cfg(feature = "http3")]
use crate::http3;

/// Time after which the next address is tried while earlier attempts are still pending: the
/// Connection Attempt Delay recommended by RFC 8305 §5.
pub const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Maximum number of addresses to try. Additional addresses are ignored.
const MAX_ADDRESSES: usize = 64;

/// Error returned when connection attempts to all addresses of a host failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectAnyError<E> {
    attempts: Vec<(SocketAddr, E)>,
}

impl<E> ConnectAnyError<E> {
    /// Returns the addresses with their errors, in the order in which the attempts failed. Empty if
    /// there was no address.
    pub fn attempts(&self) -> &[(SocketAddr, E)] {
        &self.attempts
    }

    /// Returns the addresses with their errors, like [`attempts`](Self::attempts).
    pub fn into_attempts(self) -> Vec<(SocketAddr, E)> {
        self.attempts
    }
}

impl<E> fmt::Display for ConnectAnyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempts.as_slice() {
            [] => f.write_str("there is no address to connect to"),
            [(address, _)] => write!(f, "cannot connect to {address}"),
            [(first, _), others @ ..] => {
                write!(f, "cannot connect to any of {first}")?;
                others.iter().try_for_each(|(address, _)| write!(f, ", {address}"))
            }
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for ConnectAnyError<E> {
    /// Returns the error of the attempt that failed first; [`attempts`](Self::attempts) has the
    /// others.
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.attempts.first().map(|(_, error)| error as &(dyn core::error::Error + 'static))
    }
}

/// The reason why the connection attempt to one address failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AttemptError {
    /// The configuration is invalid.
    Config(ConfigError),
    /// The connection could not be started, or ended before it was established.
    Connect(ConnectError),
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config(_) => "the configuration is invalid",
            Self::Connect(_) => "the connection was not established",
        })
    }
}

impl core::error::Error for AttemptError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Connect(error) => Some(error),
        }
    }
}

/// Calls `attempt` for each of `addresses`, and returns the outcome of the first one that succeeds.
///
/// By then, all other attempts have been dropped, so dropping the future of an attempt must cancel
/// it.
///
/// IPv4 and IPv6 addresses alternate, beginning with the family of the first address (RFC 8305 §4).
/// Each attempt begins [`CONNECTION_ATTEMPT_DELAY`] after the previous one, or as soon as the
/// previous one has failed (§5). Duplicates are tried once, and at most 64 addresses are tried.
/// Name resolution is up to the caller, who passes the addresses in order of preference (RFC 6724),
/// as `getaddrinfo` returns them.
///
/// Must be called in a tokio runtime with timers enabled.
///
/// # Errors
/// Returns the error of each attempt if all attempts fail. Also fails if `addresses` is empty.
///
/// # Cancel safety
/// Dropping the future cancels all attempts.
pub async fn connect_any<F, T, E>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    attempt: impl FnMut(SocketAddr) -> F,
) -> Result<T, ConnectAnyError<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut race = Race::new(addresses, attempt, || sleep(CONNECTION_ATTEMPT_DELAY));
    poll_fn(|context| race.poll(context)).await
}

/// Returns the addresses without duplicates and with alternating address families.
fn interleaved(addresses: impl IntoIterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut all = VecDeque::new();
    for address in addresses {
        if all.len() < MAX_ADDRESSES && !all.contains(&address) {
            all.push_back(address);
        }
    }
    let is_first_v6 = all.front().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut second): (VecDeque<_>, VecDeque<_>) =
        all.into_iter().partition(|address| address.is_ipv6() == is_first_v6);
    let mut turns = VecDeque::new();
    while !first.is_empty() || !second.is_empty() {
        turns.extend(first.pop_front());
        turns.extend(second.pop_front());
    }
    turns
}

struct Race<A, F, E, W, D> {
    waiting: VecDeque<SocketAddr>,
    /// Function that starts an attempt.
    attempt: A,
    running: Vec<(SocketAddr, Pin<Box<F>>)>,
    /// Function that starts a timer for the Connection Attempt Delay.
    wait: W,
    /// Timer for the next attempt, which begins then even if no attempt has failed.
    delay: Option<Pin<Box<D>>>,
    failed: Vec<(SocketAddr, E)>,
}

impl<A, F, T, E, W, D> Race<A, F, E, W, D>
where
    A: FnMut(SocketAddr) -> F,
    F: Future<Output = Result<T, E>>,
    W: FnMut() -> D,
    D: Future<Output = ()>,
{
    fn new(addresses: impl IntoIterator<Item = SocketAddr>, attempt: A, wait: W) -> Self {
        let waiting = interleaved(addresses);
        Self { waiting, attempt, running: Vec::new(), wait, delay: None, failed: Vec::new() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, ConnectAnyError<E>>> {
        if self.running.is_empty() && !self.begin() {
            return Poll::Ready(Err(self.failure()));
        }
        loop {
            let failed_before = self.failed.len();
            if let Some(won) = self.poll_running(context) {
                self.running.clear();
                return Poll::Ready(Ok(won));
            }
            let is_delay_over =
                self.delay.as_mut().is_some_and(|delay| delay.as_mut().poll(context).is_ready());
            let may_begin = is_delay_over || self.failed.len() > failed_before;
            if may_begin && self.begin() {
                // The new attempt needs to be polled too.
                continue;
            }
            return match self.running.is_empty() {
                true => Poll::Ready(Err(self.failure())),
                false => Poll::Pending,
            };
        }
    }

    /// Begins the next attempt, if there is one.
    fn begin(&mut self) -> bool {
        let Some(address) = self.waiting.pop_front() else {
            self.delay = None;
            return false;
        };
        self.running.push((address, Box::pin((self.attempt)(address))));
        let has_more = !self.waiting.is_empty();
        self.delay = has_more.then(|| Box::pin((self.wait)()));
        true
    }

    /// Polls all running attempts, and returns the outcome of the first that has succeeded.
    fn poll_running(&mut self, context: &mut Context<'_>) -> Option<T> {
        let mut at = 0;
        while let Some((address, attempt)) = self.running.get_mut(at) {
            match attempt.as_mut().poll(context) {
                Poll::Ready(Ok(won)) => return Some(won),
                Poll::Ready(Err(error)) => {
                    self.failed.push((*address, error));
                    drop(self.running.remove(at));
                }
                Poll::Pending => at += 1,
            }
        }
        None
    }

    fn failure(&mut self) -> ConnectAnyError<E> {
        ConnectAnyError { attempts: core::mem::take(&mut self.failed) }
    }
}

impl Endpoint {
    /// Connects to the first of `addresses` that responds, and waits until the handshake is
    /// complete.
    ///
    /// The server's certificate must be valid for `server_name`. Attempts overlap as described at
    /// [`connect_any`]; the connections of the other attempts are closed.
    ///
    /// The endpoint must be able to reach all of the addresses: an endpoint at `[::]:0` can reach
    /// both IPv4 and IPv6 addresses.
    ///
    /// Must be called in a tokio runtime with timers enabled.
    ///
    /// # Errors
    /// Fails if no connection can be established, with the error for each address.
    ///
    /// # Cancel safety
    /// Dropping the future cancels all attempts and closes their connections.
    pub async fn connect_any(
        &self,
        config: &ClientConfig,
        addresses: impl IntoIterator<Item = SocketAddr>,
        server_name: &str,
    ) -> Result<Connection, ConnectAnyError<AttemptError>> {
        connect_any(addresses, |address| async move {
            let connecting = self.connect_with(config, address, server_name);
            connecting.map_err(AttemptError::Config)?.await.map_err(AttemptError::Connect)
        })
        .await
    }
}

#[cfg(feature = "http3")]
impl http3::Client {
    /// Connects to the first of `addresses` that responds, and waits until the handshake is
    /// complete.
    ///
    /// It waits even with [early data](ClientConfig::early_data), so that a server that does not
    /// respond is not chosen. The server's certificate must be valid for `server_name`. Attempts
    /// overlap as described at [`connect_any`]; the connections of the other attempts are closed.
    ///
    /// The endpoint must be able to reach all of the addresses: an endpoint at `[::]:0` can reach
    /// both IPv4 and IPv6 addresses.
    ///
    /// Must be called in a tokio runtime with timers enabled.
    ///
    /// # Errors
    /// Fails if no connection can be established, with the error for each address, as returned by
    /// [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future cancels all attempts and closes their connections.
    pub async fn connect_any(
        endpoint: &Endpoint,
        config: &ClientConfig,
        addresses: impl IntoIterator<Item = SocketAddr>,
        server_name: &str,
        http3: http3::Config,
    ) -> Result<Self, ConnectAnyError<http3::Error>> {
        connect_any(addresses, |address| {
            let connecting =
                Self::connect_with(endpoint, config, address, server_name, http3.clone());
            async move {
                let client = connecting.await?;
                client.answered().await?;
                Ok(client)
            }
        })
        .await
    }

    /// Waits until the handshake is complete.
    ///
    /// # Errors
    /// Returns the reason if the connection ended before that.
    pub async fn answered(&self) -> Result<(), http3::Error> {
        self.early_data_accepted().await;
        if self.is_open() { Ok(()) } else { Err(self.closed().await) }
    }
}

#[cfg(test)]
#[path = "happy_eyeballs_tests.rs"]
mod tests;
