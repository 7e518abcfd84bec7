//! What went wrong between client and server, in words that help.

use std::fmt;
use std::net::SocketAddr;

use clearway::http3::Error;
use clearway::transport::TransportError;
use clearway::{ConnectError, ConnectionError};

use crate::failure::Failure;

/// The server that was talked to.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// What the user called it, with the port.
    pub(super) name: String,
    pub(super) address: SocketAddr,
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name == self.address.to_string() {
            true => formatter.write_str(&self.name),
            false => write!(formatter, "{} ({})", self.name, self.address),
        }
    }
}

impl Server {
    fn failure(&self, what: &str) -> Failure {
        Failure::new(format!("{what} {self}"))
    }

    /// Why there is no connection.
    pub(super) fn not_connected(&self, error: &ConnectionError) -> Failure {
        match error {
            ConnectionError::Unreachable => self
                .failure("nobody listens at")
                .advise("start the server there, or check the address and the port"),
            ConnectionError::HandshakeTimedOut | ConnectionError::TimedOut => self
                .failure("no answer from")
                .advise("check the address and the port, and that nothing on the way blocks UDP"),
            ConnectionError::TransportError(error) => self.refused_by_us(error),
            // The alert no_application_protocol (RFC 9001 §8.1).
            ConnectionError::ConnectionClosed { error_code, .. }
                if error_code.alert() == Some(120) =>
            {
                self.failure("this protocol is not spoken by")
                    .advise("with --http09 it is hq-interop, without it is h3")
            }
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// TLS did not accept the server, or the server broke a rule.
    fn refused_by_us(&self, error: &TransportError) -> Failure {
        let text = format!("cannot trust {self}: {}", error.reason);
        match error.code.alert() {
            Some(_) if error.reason.contains("another name") => Failure::new(text)
                .advise("use the name that its certificate has, with --connect if need be"),
            Some(_)
                if error.reason.contains("expired") || error.reason.contains("not valid yet") =>
            {
                Failure::new(text).advise("tell who runs it, if the clock of this machine is right")
            }
            // A bad signature: an issuer of that name is trusted, but has another key.
            Some(_) if error.reason.contains("issuer") || error.reason.contains("signature") => {
                Failure::new(text).advise("give its certificate or its issuer's with --ca FILE")
            }
            // What a server shows must not be an authority's certificate (RFC 5280 §4.2.1.9); many tools make such.
            Some(_) if error.reason.contains("not acceptable") => Failure::new(text).advise(
                "it has to be a server's own, not an authority's: openssl req -x509 needs \
                 -addext basicConstraints=critical,CA:FALSE",
            ),
            Some(_) => Failure::new(text),
            None => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Why a connection over HTTP/3 was not established.
    pub(super) fn no_client(&self, error: &Error) -> Failure {
        match error {
            Error::Connection(error) => self.not_connected(error),
            Error::WrongProtocol => self.failure("HTTP/3 is not spoken by"),
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Why a connection of streams was not established.
    pub(super) fn no_connection(&self, error: &ConnectError) -> Failure {
        match error {
            ConnectError::Lost(error) => self.not_connected(error),
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Why a download was not completed.
    pub(super) fn cut_off(&self, url: &str, progress: &str, why: &dyn fmt::Display) -> Failure {
        Failure::new(format!("{url} was cut off after {progress}: {why}"))
            .advise(format!("nothing was kept; ask {} again", self.name))
    }
}
