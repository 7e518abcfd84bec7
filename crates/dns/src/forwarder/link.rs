//! Links to upstream servers: one connection each, which is reestablished when it is needed.

mod dialer;
mod https;
mod quic;
mod reconnecting;
mod stream;
mod udp;

use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use clearway::ConnectAnyError;
use hickory_proto::op::Message;
use rustix::io::Errno;

use super::question::Question;
use crate::extended_error::{ErrorInfo, ExtendedError};
use crate::upstream::{Upstream, UpstreamProtocol};
use crate::violation::Violation;
pub(crate) use dialer::Dialer;
use https::HttpsConnector;
use quic::QuicConnector;
use reconnecting::Reconnecting;
use stream::{TcpConnector, TlsConnector};
use udp::UdpLink;

/// The reason why an upstream server gave no response.
#[derive(Clone, Debug)]
pub(crate) enum LinkError {
    /// No connection can be established.
    Unreachable(Arc<str>),
    /// The connection ended, or the server abandoned the query.
    Lost(Arc<str>),
    /// The response violates the protocol.
    Invalid(Violation),
    TimedOut,
    /// This host lacks descriptors, ports or memory, which says nothing about the server.
    Shortage(Arc<str>),
}

impl LinkError {
    /// Returns the error for a failure to open or connect a socket.
    pub(crate) fn opening(error: &io::Error) -> Self {
        match is_shortage(error) {
            true => Self::Shortage(error.to_string().into()),
            false => Self::unreachable(error),
        }
    }

    pub(crate) fn unreachable(error: impl fmt::Display) -> Self {
        Self::Unreachable(error.to_string().into())
    }

    /// Returns the error for failed attempts to connect to all addresses of a server.
    pub(crate) fn of_attempts(error: ConnectAnyError<Self>) -> Self {
        let shortage = error.attempts().iter().find(|(_, it)| matches!(it, Self::Shortage(_)));
        shortage.map_or_else(|| Self::unreachable(&error), |(_, shortage)| shortage.clone())
    }

    pub(crate) fn lost(error: impl fmt::Display) -> Self {
        Self::Lost(error.to_string().into())
    }

    /// Returns the error to send to clients, which does not name the server.
    pub(crate) fn extended_error(&self) -> ExtendedError {
        match self {
            Self::Unreachable(_) => {
                let text = "no upstream server can be reached";
                ExtendedError::new(ErrorInfo::NoReachableAuthority, text)
            }
            Self::TimedOut => {
                let text = "no upstream server responded in time";
                ExtendedError::new(ErrorInfo::NoReachableAuthority, text)
            }
            Self::Lost(_) => {
                let text = "the connection to the upstream server failed";
                ExtendedError::new(ErrorInfo::NetworkError, text)
            }
            Self::Invalid(_) => {
                let text = "the upstream server's response is invalid";
                ExtendedError::new(ErrorInfo::InvalidData, text)
            }
            Self::Shortage(_) => {
                let text = "the server is overloaded";
                ExtendedError::new(ErrorInfo::Other, text)
            }
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "cannot connect: {why}"),
            Self::Lost(why) => f.write_str(why),
            Self::Invalid(violation) => write!(f, "invalid response: {violation}"),
            Self::TimedOut => f.write_str("no response in time"),
            Self::Shortage(why) => write!(f, "cannot open a socket: {why}"),
        }
    }
}

/// Returns whether an error means that this host lacks descriptors, ports or memory.
fn is_shortage(error: &io::Error) -> bool {
    let shortages =
        [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRINUSE, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// A link to an upstream server.
pub(crate) enum Link {
    Quic(Reconnecting<QuicConnector>),
    Https(Reconnecting<HttpsConnector>),
    Tls(Reconnecting<TlsConnector>),
    Tcp(Reconnecting<TcpConnector>),
    Udp(UdpLink),
}

impl Link {
    pub(crate) fn new(upstream: Upstream, dialer: Arc<Dialer>) -> Self {
        match upstream.protocol() {
            UpstreamProtocol::Quic => {
                Self::Quic(Reconnecting::new(QuicConnector { upstream, dialer }))
            }
            UpstreamProtocol::Https => {
                Self::Https(Reconnecting::new(HttpsConnector { upstream, dialer }))
            }
            UpstreamProtocol::Tls => {
                Self::Tls(Reconnecting::new(TlsConnector { upstream, dialer }))
            }
            UpstreamProtocol::Tcp => Self::Tcp(Reconnecting::new(TcpConnector { upstream })),
            UpstreamProtocol::Udp => Self::Udp(UdpLink::new(upstream, dialer.sockets.clone())),
        }
    }

    /// Sends a question, and returns the response. If the connection has ended since the last
    /// question, establishes a new one.
    ///
    /// Some servers (CoreDNS over QUIC and HTTP/3) truncate responses to the EDNS payload size even
    /// on connections that carry messages of any size. They are queried again with a larger one.
    pub(crate) async fn exchange(
        &self,
        question: &Question,
        limit: Duration,
    ) -> Result<Message, LinkError> {
        let begun = Instant::now();
        let response = self.exchange_once(question, limit).await?;
        if !response.metadata.truncation || matches!(self, Self::Udp(_)) {
            return Ok(response);
        }
        let remaining = limit.saturating_sub(begun.elapsed());
        self.exchange_once(&question.with_max_payload(), remaining).await
    }

    async fn exchange_once(
        &self,
        question: &Question,
        limit: Duration,
    ) -> Result<Message, LinkError> {
        match self {
            Self::Quic(link) => link.exchange(question, limit).await,
            Self::Https(link) => link.exchange(question, limit).await,
            Self::Tls(link) => link.exchange(question, limit).await,
            Self::Tcp(link) => link.exchange(question, limit).await,
            Self::Udp(link) => link.exchange(question, limit).await,
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_on_this_host_is_not_the_servers_failure() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRINUSE] {
            let error = LinkError::opening(&errno.into());
            assert!(matches!(error, LinkError::Shortage(_)), "{errno:?}: {error:?}");
        }
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::TIMEDOUT] {
            let error = LinkError::opening(&errno.into());
            assert!(matches!(error, LinkError::Unreachable(_)), "{errno:?}: {error:?}");
        }
    }
}
