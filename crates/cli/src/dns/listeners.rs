//! The sockets that clients use.

use core::future::pending;
use std::net::SocketAddr;

use clearway::{Endpoint, EndpointError, ServerConfig, http3};
use clearway_dns::{ErrorCode, Handler, PROTOCOL, Server};
use tokio::net::{TcpListener, UdpSocket};

use super::DnsCommand;
use crate::failure::Failure;
use crate::listening::Listening;
use crate::output;
use crate::serve::certificates::Presented;

/// The listening sockets, one for each protocol.
pub(super) struct Listeners {
    quic: Endpoint,
    https: Option<http3::Server>,
    udp: Option<UdpSocket>,
    tcp: Option<TcpListener>,
    /// The addresses with their protocols.
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl Listeners {
    /// Starts listening.
    pub(super) async fn bind<H: Handler>(
        command: &DnsCommand,
        presented: &Presented,
        server: &Server<H>,
    ) -> Result<Self, Failure> {
        let config = || -> ServerConfig {
            let config = command.certificates.configure(presented);
            config.early_data(!command.no_early_data)
        };
        let transport = server.transport_config();
        let doq = config().application_protocols([PROTOCOL]).transport(transport);
        let quic = Endpoint::server(command.listen, doq);
        let quic = quic.map_err(|error| cannot_listen(Listening::UDP, command.listen, error))?;
        let mut addresses = vec![("quic", quic.local_address())];
        let https = match command.listen_https {
            Some(address) => {
                let https = http3::Server::bind(address, config());
                let failed = |error| cannot_listen(Listening::HTTPS, address, error);
                let https = https.map_err(failed)?;
                addresses.push(("https", https.local_address()));
                Some(https)
            }
            None => None,
        };
        let udp = match command.listen_udp {
            Some(address) => {
                let failed = |error| Listening::DNS_UDP.failed(address, &error);
                let socket = UdpSocket::bind(address).await.map_err(failed)?;
                addresses.push(("udp", socket.local_addr().map_err(failed)?));
                Some(socket)
            }
            None => None,
        };
        let tcp = match command.listen_tcp {
            Some(address) => {
                let failed = |error| Listening::DNS_TCP.failed(address, &error);
                let listener = TcpListener::bind(address).await.map_err(failed)?;
                addresses.push(("tcp", listener.local_addr().map_err(failed)?));
                Some(listener)
            }
            None => None,
        };
        Ok(Self { quic, https, udp, tcp, addresses })
    }

    /// Prints the addresses.
    pub(super) fn announce(&self) {
        for (scheme, address) in &self.addresses {
            let path = if *scheme == "https" { "/dns-query" } else { "" };
            output::event(&format!("listening on {scheme}://{address}{path}"));
        }
    }
}

impl Listeners {
    /// Responds to queries until a socket fails. Returns the failure.
    pub(super) async fn serve<H: Handler>(&mut self, server: &Server<H>) -> Failure {
        let (udp, tcp) = (self.udp.take(), self.tcp.take());
        let quic = async {
            server.serve_quic(&self.quic).await;
            ended(&self.quic)
        };
        let https = async {
            let Some(https) = &self.https else { return pending().await };
            server.serve_https(https).await;
            ended(https.endpoint())
        };
        let udp = async {
            let Some(socket) = udp else { return pending().await };
            let error = server.serve_udp(socket).await;
            Failure::new(format!("cannot receive queries over UDP: {error}"))
        };
        let tcp = async {
            let Some(listener) = tcp else { return pending().await };
            server.serve_tcp(listener).await;
            Failure::new("cannot accept TCP connections")
        };
        tokio::select! {
            failure = quic => failure,
            failure = https => failure,
            failure = udp => failure,
            failure = tcp => failure,
        }
    }

    /// Closes all QUIC connections, and waits until the clients have been notified.
    pub(super) async fn close(&self) {
        self.quic.close(ErrorCode::NoError.code(), b"shutting down");
        if let Some(https) = &self.https {
            https.shutdown().await;
            https.endpoint().wait_idle().await;
        }
        self.quic.wait_idle().await;
    }
}

/// Returns the failure of an endpoint whose server has ended.
fn ended(endpoint: &Endpoint) -> Failure {
    match endpoint.failure() {
        Some(failure) => Failure::new(format!("a shard of the server has exited: {failure}")),
        None => Failure::new("the server has ended"),
    }
}

/// Returns the failure that explains why an endpoint cannot be created.
fn cannot_listen(listening: Listening, address: SocketAddr, error: EndpointError) -> Failure {
    match error {
        EndpointError::Io(error) => listening.failed(address, &error),
        error => Failure::new(format!("cannot serve at {address}: {error}")),
    }
}
