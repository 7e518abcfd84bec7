//! What went wrong between client and server, in words that help.

use std::fmt;
use std::net::SocketAddr;

use clearway::http3::Error;
use clearway::rustls::{self, AlertDescription, CertificateError, OtherError};
use clearway::transport::{TransportError, TransportErrorCause};
use clearway::wire::TransportErrorCode;
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
            ConnectionError::TransportError(error) => match &error.cause {
                TransportErrorCause::Tls(tls) => self.refused_by_us(error, tls),
                _ => Failure::new(format!("cannot connect to {self}: {error}")),
            },
            ConnectionError::ConnectionClosed { error_code, .. }
                if *error_code == no_protocol() =>
            {
                self.without_protocol()
            }
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// TLS at this end ended the handshake with `error`.
    fn refused_by_us(&self, error: &TransportError, tls: &rustls::Error) -> Failure {
        let certificate = match tls {
            rustls::Error::InvalidCertificate(certificate) => certificate,
            rustls::Error::NoApplicationProtocol => return self.without_protocol(),
            _ => return Failure::new(format!("cannot connect to {self}: {error}; {tls}")),
        };
        let text = format!("cannot trust {self}: {}", error.reason());
        let failure = Failure::new(text.as_str());
        match certificate {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                failure.advise("use the name that its certificate has, with --connect if need be")
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                failure.advise("tell who runs it, if the clock of this machine is right")
            }
            // A bad signature: an issuer of that name is trusted, but has another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                failure.advise("give its certificate or its issuer's with --ca FILE")
            }
            // What a server shows must not be an authority's certificate (RFC 5280 §4.2.1.9); many tools make such.
            CertificateError::Other(other) if is_of_an_authority(other) => failure.advise(
                "it has to be a server's own, not an authority's: openssl req -x509 needs \
                 -addext basicConstraints=critical,CA:FALSE",
            ),
            other => Failure::new(format!("{text} ({other})")),
        }
    }

    fn without_protocol(&self) -> Failure {
        self.failure("this protocol is not spoken by")
            .advise("with --http09 it is hq-interop, without it is h3")
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

/// What a server answers that speaks none of the protocols offered (RFC 9001 §8.1).
fn no_protocol() -> TransportErrorCode {
    TransportErrorCode::crypto(u8::from(AlertDescription::NoApplicationProtocol))
}

/// Whether a server shows the certificate of an authority. rustls has no variant for it and hands on the error of
/// webpki, which verifies certificates for it.
fn is_of_an_authority(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}
