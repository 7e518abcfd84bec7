//! Error messages for failed connections and requests.

use std::fmt;
use std::net::{SocketAddr, UdpSocket};

use clearway::http3::Error;
use clearway::rustls::{self, AlertDescription, CertificateError, OtherError};
use clearway::transport::{DropReason, SessionError, TransportError, TransportErrorCause};
use clearway::wire::TransportErrorCode;
use clearway::{
    ConfigError, ConnectError, ConnectionError, HandshakePackets, ReadError, WriteError,
};

use crate::address::any;
use crate::failure::Failure;

/// The server of a connection, for error messages.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// The server's name, as the user specified it, and the port.
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

    /// Explains why the connection could not be established.
    pub(super) fn not_connected(&self, error: &ConnectionError) -> Failure {
        match error {
            ConnectionError::Unreachable => self.unreachable(),
            ConnectionError::HandshakeTimedOut(packets) => self.no_handshake(packets),
            ConnectionError::VersionMismatch => Failure::new(format!(
                "cannot connect to {self}: {error} (from its Version Negotiation packet)"
            )),
            ConnectionError::TransportError(error) => match &error.cause {
                TransportErrorCause::Tls(tls) => self.refused_by_us(error, tls),
                TransportErrorCause::EncryptedClientHelloRejected { retry_configs } => {
                    let failure = self.failure("ECH was rejected by");
                    match retry_configs {
                        Some(_) => failure.advise("the server also rejected the keys that it had sent; report this to its operator"),
                        None => failure.advise(
                            "the server currently has no ECH keys; without --ech, everyone on the path can see the server's name",
                        ),
                    }
                }
                _ => Failure::new(format!("cannot connect to {self}: {error}")),
            },
            ConnectionError::ConnectionClosed { error_code, .. }
                if *error_code == no_protocol() =>
            {
                self.without_protocol()
            }
            error => match self.refused_certificate(error) {
                Some(failure) => failure,
                None => Failure::new(format!("cannot connect to {self}: {error}")),
            },
        }
    }

    /// Explains why the handshake did not complete, from the packets that did arrive.
    fn no_handshake(&self, packets: &HandshakePackets) -> Failure {
        let what = match (packets.arrived(), packets.processed) {
            (0, _) => {
                return self.failure("no response from").advise(
                    "check the address and the port, and that nothing on the path blocks UDP; the site may not support HTTP/3",
                );
            }
            (_, 0) => "no usable response from",
            _ => "no complete handshake with",
        };
        let failure = Failure::new(format!("{what} {self}: {packets}"));
        if packets.dropped.get(DropReason::Retry) > 0 {
            failure.advise(
                "the server rejected the token of its own Retry packet; report this to its operator",
            )
        } else if packets.processed > 0 {
            failure.advise("the path may drop or alter some packets; try again")
        } else {
            failure.advise(
                "check the address and the port: the responder may not be a QUIC server, or something on the path \
                 alters its packets",
            )
        }
    }

    /// Explains why no datagram reaches the server: this host has no route, or the server's host
    /// reports it as unreachable.
    fn unreachable(&self) -> Failure {
        // Connecting a UDP socket sends nothing: it only looks up a route.
        let routed = UdpSocket::bind(any(self.address)).and_then(|it| it.connect(self.address));
        match routed {
            Err(error) => Failure::new(format!("this host cannot send to {self}: {error}"))
                .advise("check its addresses and routes, or choose another address with --connect"),
            Ok(()) => Failure::new(format!("cannot connect to {self} over QUIC (UDP): unreachable (ICMP)")).advise(
                "start the server there, or check the address and the port; the site may not support HTTP/3",
            ),
        }
    }

    /// Explains a server's rejection of this client's certificate: the server sends a TLS alert
    /// after the client's part of the handshake is complete.
    fn refused_certificate(&self, error: &ConnectionError) -> Option<Failure> {
        let ConnectionError::ConnectionClosed { error_code, .. } = error else { return None };
        let refused =
            |why: &str| Failure::new(format!("{self} rejected the certificate of --cert: {why}"));
        Some(match AlertDescription::from(error_code.alert()?) {
            AlertDescription::CertificateRequired => {
                Failure::new(format!("{self} accepts only clients with a certificate"))
                    .advise("pass a certificate that the server trusts, and its key, with --cert FILE --key FILE")
            }
            AlertDescription::UnknownCA => refused("it does not trust the issuer")
                .advise("use a certificate from an issuer that it trusts, followed by the intermediate certificates"),
            AlertDescription::CertificateExpired => {
                refused("it has expired or is not valid yet").advise("renew it, or correct the clocks")
            }
            AlertDescription::CertificateRevoked => refused("it was revoked"),
            AlertDescription::UnsupportedCertificate => {
                refused("it is not a client certificate").advise("the certificate's extended key usage must include client authentication")
            }
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => refused(&error.to_string()),
            _ => return None,
        })
    }

    /// Explains why no connection could be started.
    pub(super) fn not_configured(&self, error: &ConfigError) -> Failure {
        match error {
            ConfigError::Tls(SessionError::EncryptedClientHello(_)) => Failure::new(format!(
                "cannot connect to {self}: {error}"
            ))
            .advise(
                "the --ech file must contain the ech parameter of the server's HTTPS record in DNS",
            ),
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Explains why the local TLS stack aborted the handshake with `error`.
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
                failure.advise("use a name that its certificate contains, with --connect if necessary")
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                failure.advise("if the clock of this machine is right, report this to the server's operator")
            }
            // BadSignature: an issuer with that name is trusted, but it has another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                failure.advise("to trust the server, pass its certificate or its issuer's with --ca FILE")
            }
            // A server's certificate must not be a CA certificate (RFC 5280 §4.2.1.9), but many
            // tools generate such certificates.
            CertificateError::Other(other) if is_of_an_authority(other) => failure.advise(
                "the certificate must be a server certificate, not a CA certificate: openssl req -x509 needs \
                 -addext basicConstraints=critical,CA:FALSE",
            ),
            other => Failure::new(format!("{text} ({other})")),
        }
    }

    fn without_protocol(&self) -> Failure {
        Failure::new(format!("{self} does not support the application protocol of this request"))
            .advise("the protocol is hq-interop with --http09, and h3 otherwise")
    }

    /// Explains why an HTTP/3 connection could not be established.
    pub(super) fn no_client(&self, error: &Error) -> Failure {
        match error {
            Error::Connection(error) => self.not_connected(error),
            Error::Config(error) => self.not_configured(error),
            Error::WrongProtocol => Failure::new(format!("{self} does not support HTTP/3")),
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Explains why a QUIC connection for HTTP/0.9 could not be established.
    pub(super) fn no_connection(&self, error: &ConnectError) -> Failure {
        match error {
            ConnectError::Lost(error) => self.not_connected(error),
            error => Failure::new(format!("cannot connect to {self}: {error}")),
        }
    }

    /// Explains why a request received no response.
    pub(super) fn unanswered(&self, url: &str, why: &(dyn std::error::Error + 'static)) -> Failure {
        let refused = ended(why).and_then(|error| self.refused_certificate(error));
        refused.unwrap_or_else(|| self.cut_off(url, "no response", why))
    }

    /// Explains why a download was not completed.
    pub(super) fn cut_off(&self, url: &str, progress: &str, why: &dyn fmt::Display) -> Failure {
        Failure::new(format!("the download of {url} was aborted ({progress}): {why}"))
            .advise(format!("the incomplete content was discarded; try {} again", self.name))
    }
}

/// Returns why the connection ended, if `error` says so.
pub(super) fn ended<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a ConnectionError> {
    if let Some(Error::Connection(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(ConnectError::Lost(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(ReadError::ConnectionLost(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(WriteError::ConnectionLost(error)) = error.downcast_ref() {
        return Some(error);
    }
    error.downcast_ref()
}

/// Returns the error code with which a server rejects all offered application protocols (RFC 9001
/// §8.1).
fn no_protocol() -> TransportErrorCode {
    TransportErrorCode::crypto(u8::from(AlertDescription::NoApplicationProtocol))
}

/// Returns whether the server's certificate is a CA certificate. rustls has no error variant for
/// this: it passes on the error from webpki, which verifies certificates for it.
fn is_of_an_authority(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
