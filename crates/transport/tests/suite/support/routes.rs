//! Paths other than the one with which a pair begins: a second socket of the client, or the
//! server's preferred address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use clearway_network::{Datagram, Ecn, Link, LinkConfig, Way};
use clearway_transport::{
    Arrival, EcnCodepoint, PreferredAddresses, ServerConfig, SocketIndex, Transmit,
};
use clearway_units::Timestamp;

use super::{CLIENT, Pair, SERVER, address};

pub const PREFERRED: &str = "10.0.0.3:4433";
/// The index of the second socket, at either endpoint.
pub const SECOND_SOCKET: SocketIndex = SocketIndex(1);

/// A path with a separate link.
pub struct Route {
    pub client: SocketAddr,
    pub client_socket: SocketIndex,
    pub server: SocketAddr,
    pub server_socket: SocketIndex,
    /// The source of the server's datagrams, as the client sees it.
    pub source: SocketAddr,
    pub link: Link,
    /// Datagrams that entered the link: their time, direction and contents.
    pub entered: Vec<(Timestamp, Way, Vec<u8>)>,
}

impl Route {
    /// Returns the path from the client's second socket, at `client`, to the server's address.
    pub fn second_socket(client: &str, link: LinkConfig) -> Self {
        Self {
            client: address(client),
            client_socket: SECOND_SOCKET,
            server: address(SERVER),
            source: address(SERVER),
            server_socket: SocketIndex::default(),
            link: Link::new(link),
            entered: Vec::new(),
        }
    }

    /// Returns the path from the client's address to the server's preferred one.
    pub fn preferred(link: LinkConfig) -> Self {
        Self {
            client: address(CLIENT),
            client_socket: SocketIndex::default(),
            server: address(PREFERRED),
            source: address(PREFERRED),
            server_socket: SECOND_SOCKET,
            link: Link::new(link),
            entered: Vec::new(),
        }
    }

    fn is_way_of(&self, way: Way, transmit: &Transmit) -> bool {
        match way {
            Way::ToServer => {
                (self.client_socket, self.server) == (transmit.socket, transmit.destination)
            }
            Way::ToClient => {
                (self.server_socket, self.client) == (transmit.socket, transmit.destination)
            }
        }
    }
}

fn ip(of: SocketAddr) -> Option<IpAddr> {
    Some(of.ip())
}

impl Pair {
    /// Sends the client's datagram over the path that it specifies; if there is no such path, the
    /// datagram is lost.
    pub(super) fn submit_to_server(&mut self, transmit: &Transmit, datagram: &[u8]) {
        if self.submit_to_route(Way::ToServer, transmit, datagram) {
            return;
        }
        let is_first = transmit.socket == SocketIndex::default();
        if is_first && transmit.destination == address(SERVER) {
            self.submit(Way::ToServer, 0, datagram.to_vec(), transmit.ecn);
        }
    }

    pub(super) fn submit_to_route(
        &mut self,
        way: Way,
        transmit: &Transmit,
        datagram: &[u8],
    ) -> bool {
        let Some(index) = self.routes.iter().position(|route| route.is_way_of(way, transmit))
        else {
            return false;
        };
        let mut payload = datagram.to_vec();
        let now = self.now;
        if self.filter.as_mut().is_none_or(|filter| filter(now, way, &mut payload)) {
            let route = &mut self.routes[index];
            route.entered.push((now, way, payload.clone()));
            let datagram = Datagram { payload, ecn: Ecn::from_bits(transmit.ecn.bits()), flow: 0 };
            match way {
                Way::ToServer => route.link.submit(now, way, datagram),
                Way::ToClient => route.link.submit_to_client(now, 0, datagram),
            };
        }
        true
    }

    /// Makes the server announce preferred addresses to the client, whose connection starts again.
    pub fn prefer(&mut self, preferred_addresses: PreferredAddresses) {
        let config = ServerConfig { preferred_addresses, ..(*self.server_config).clone() };
        self.server_config = Arc::new(config);
        self.server.set_server(Some(self.server_config.clone()));
    }

    /// Delivers a datagram at the server's preferred address, as if it had come from the client's address.
    pub fn deliver_to_preferred(&mut self, payload: &mut [u8]) {
        let (remote, ecn) = (address(CLIENT), EcnCodepoint::NotEct);
        let arrival = Arrival { remote, socket: SECOND_SOCKET, local_ip: None, ecn };
        self.deliver_at(Way::ToServer, arrival, payload);
    }

    pub(super) fn next_on_routes(&self) -> Option<Timestamp> {
        self.routes.iter().filter_map(|route| route.link.deadline()).min()
    }

    pub(super) fn deliver_from_routes(&mut self) {
        for index in 0..self.routes.len() {
            while let Some(mut delivery) = self.routes[index].link.poll(self.now) {
                let route = &self.routes[index];
                let (remote, socket, local) = match delivery.way {
                    Way::ToServer => (route.client, route.server_socket, route.server),
                    Way::ToClient => (route.source, route.client_socket, route.client),
                };
                let is_client = delivery.way == Way::ToClient;
                let connection = self.client.connection(self.handle).filter(|_| is_client);
                if connection.is_some_and(|connection| !connection.uses_socket(socket)) {
                    // A driver closes a socket that is no longer used.
                    continue;
                }
                let ecn = EcnCodepoint::from_bits(delivery.datagram.ecn.bits());
                let arrival = Arrival { remote, socket, local_ip: ip(local), ecn };
                self.deliver_at(delivery.way, arrival, &mut delivery.datagram.payload);
            }
        }
    }
}
