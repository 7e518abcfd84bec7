//! Error messages for a failure to listen on an address.

use std::io;
use std::net::SocketAddr;

use crate::failure::Failure;

/// The kind of a listening socket, and the option that sets its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    protocol: &'static str,
    option: &'static str,
}

impl Listening {
    /// The socket for QUIC connections or relayed datagrams.
    pub(crate) const UDP: Self = Self { protocol: "UDP", option: "--listen" };
    /// The socket for a server's preferred address.
    pub(crate) const PREFERRED: Self = Self { protocol: "UDP", option: "--preferred-address" };
    /// The socket for the viewer's page.
    pub(crate) const PAGE: Self = Self { protocol: "TCP", option: "--listen" };
    /// The socket for traces that `view --live` can follow.
    pub(crate) const TRACES: Self = Self { protocol: "TCP", option: "--live" };

    /// The socket for DNS over HTTP/3.
    pub(crate) const HTTPS: Self = Self { protocol: "UDP", option: "--listen-https" };
    /// The socket for DNS over UDP.
    pub(crate) const DNS_UDP: Self = Self { protocol: "UDP", option: "--listen-udp" };
    /// The socket for DNS over TCP.
    pub(crate) const DNS_TCP: Self = Self { protocol: "TCP", option: "--listen-tcp" };
    /// The socket for a server's metrics.
    pub(crate) const METRICS: Self = Self { protocol: "TCP", option: "--metrics" };

    /// Returns the failure to listen on `address`, with advice.
    pub(crate) fn failed(self, address: SocketAddr, error: &io::Error) -> Failure {
        let Self { protocol, option } = self;
        let failure = Failure::new(format!("cannot listen on {protocol} {address}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => failure.advise(format!(
                "another program uses this port: stop it, or choose another port with {option}"
            )),
            io::ErrorKind::AddrNotAvailable => failure
                .advise("this machine has no such address; 127.0.0.1 and 0.0.0.0 always work"),
            io::ErrorKind::PermissionDenied => failure.advise("ports below 1024 need privileges"),
            _ => failure,
        }
    }
}
