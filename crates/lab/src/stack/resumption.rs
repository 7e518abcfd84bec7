//! Endpoints that resume an earlier connection; the earlier connection is not part of the run.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use std::sync::Arc;

use clearway_network::Ecn;
use clearway_transport::{Observer, TlsClientConfig, TlsServerConfig, TransportConfig};
use clearway_units::{Random, Timestamp};

use super::clearway::ClearwayStack;
use super::tls::{self, LabCertificateError};
use super::{LocalAddress, Stack};
use crate::setup::{EarlyDataSetup, TlsSetup};

/// The TLS configuration of a client that has a session with its server, and offers early data.
pub struct ResumedTls {
    client: Arc<TlsClientConfig>,
    server: Arc<TlsServerConfig>,
}

/// The duration of the earlier connection: its session tickets are sent at the end of the
/// handshake.
const LENGTH: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(1);

impl ResumedTls {
    /// Lets two endpoints with the given settings connect over a path without delay.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be set up.
    pub fn new(
        setup: TlsSetup,
        early_data: EarlyDataSetup,
        (client, server): (TransportConfig, TransportConfig),
        random: &mut Random,
    ) -> Result<Self, LabCertificateError> {
        let make = || tls::server(setup).map(|it| Arc::unwrap_or_clone(it).early_data(true));
        let known = Self {
            client: Arc::new(Arc::unwrap_or_clone(tls::client(setup)?).early_data(true)),
            server: Arc::new(make()?),
        };
        known.connect(client, server, random);
        Ok(match early_data {
            EarlyDataSetup::Accepted => known,
            // The sessions are in the table of the server that was replaced.
            EarlyDataSetup::Rejected => Self { server: Arc::new(make()?), ..known },
        })
    }

    /// Creates the client of the run.
    pub fn client(
        &self,
        now: Timestamp,
        server: SocketAddr,
        transport: TransportConfig,
        random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> ClearwayStack {
        let sessions = self.client.clone();
        ClearwayStack::client_with(now, server, sessions, transport, random, observer)
    }

    /// Creates the server of the run.
    pub fn server(
        &self,
        now: Timestamp,
        transport: TransportConfig,
        preferred: Option<SocketAddrV4>,
        random: Random,
        observer: Option<Box<dyn Observer>>,
    ) -> ClearwayStack {
        let sessions = self.server.clone();
        ClearwayStack::server_with(now, sessions, transport, preferred, random, observer)
    }

    fn connect(&self, client: TransportConfig, server: TransportConfig, random: &mut Random) {
        let [from, to] =
            [2, 1].map(|host| SocketAddr::new(Ipv4Addr::new(10, 0, 0, host).into(), 443));
        let mut now = Timestamp::ORIGIN;
        let sessions = self.server.clone();
        let mut server =
            ClearwayStack::server_with(now, sessions, server, None, random.fork(), None);
        let sessions = self.client.clone();
        let mut client = ClearwayStack::client_with(now, to, sessions, client, random.fork(), None);
        while now < Timestamp::from_origin(LENGTH) {
            pass(now, &mut client, (&mut server, from));
            pass(now, &mut server, (&mut client, to));
            now += STEP;
            client.on_deadline(now);
            server.on_deadline(now);
        }
    }
}

/// Passes one endpoint's datagrams to the other, where they arrive from `address`.
fn pass(
    now: Timestamp,
    sender: &mut ClearwayStack,
    (receiver, address): (&mut ClearwayStack, SocketAddr),
) {
    let mut datagrams = Vec::new();
    sender.transmit(now, &mut |_, _, _, datagram| datagrams.push(datagram.to_vec()));
    for mut datagram in datagrams {
        let at = LocalAddress { socket: 0, ip: None };
        receiver.receive(now, address, at, Ecn::NotEct, &mut datagram);
    }
}
