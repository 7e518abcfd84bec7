//! The relay's two sides if network namespaces cannot be created: UDP sockets at loopback
//! addresses. Inside the link, packets have the same addresses as with namespaces.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::packet::{self, Layout};

/// Buffer size, larger than any UDP payload.
const LARGEST: usize = 1 << 16;

/// The client's side: one socket to which clients send as if it were the server.
#[derive(Debug)]
pub(crate) struct ClientSide {
    socket: UdpSocket,
    client_ip: IpAddr,
    server: SocketAddr,
}

/// The server's side: a socket for each client address that the server sees.
#[derive(Debug)]
pub(crate) struct ServerSide {
    target: SocketAddr,
    server: SocketAddr,
    sockets: BTreeMap<SocketAddr, UdpSocket>,
}

impl ClientSide {
    /// Binds the socket to which clients send. Inside the link, clients have the address
    /// `client_ip` and send to `server`.
    pub(crate) fn bind(client_ip: IpAddr, server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(localhost(&server), 0))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, client_ip, server })
    }

    /// Returns the address that clients send to.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut payload = [0; LARGEST];
        let (length, client) = self.socket.recv_from(&mut payload)?;
        let source = SocketAddr::new(self.client_ip, client.port());
        fill(buffer, &packet::udp(source, self.server, &payload[..length]))
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let (payload, destination) = payload(packet, Layout::destination)?;
        let client = SocketAddr::new(localhost(&self.server), destination.port());
        self.socket.send_to(payload, client).map(drop)
    }
}

impl ServerSide {
    /// Creates the side that sends to the server at `target`. Inside the link, the server has the
    /// address `server`.
    pub(crate) fn new(target: SocketAddr, server: SocketAddr) -> Self {
        Self { target, server, sockets: BTreeMap::new() }
    }

    /// Sets the address that the server listens on.
    pub(crate) fn set_target(&mut self, target: SocketAddr) {
        self.target = target;
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.sockets.values()
    }

    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut payload = [0; LARGEST];
        for (client, socket) in &self.sockets {
            match socket.recv(&mut payload) {
                Ok(length) => {
                    return fill(buffer, &packet::udp(self.server, *client, &payload[..length]));
                }
                // There is nothing to read, or the server has exited.
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let (payload, client) = payload(packet, Layout::source)?;
        if !self.sockets.contains_key(&client) {
            let socket = UdpSocket::bind(SocketAddr::new(self.local(client.ip()), 0))?;
            socket.set_nonblocking(true)?;
            socket.connect(self.target)?;
            self.sockets.insert(client, socket);
        }
        match self.sockets.get(&client) {
            Some(socket) => socket.send(payload).map(drop),
            None => Ok(()),
        }
    }

    /// Returns a local address that represents a client address. All of 127.0.0.0/8 is on the
    /// loopback interface, so each new client address gets a new local address.
    fn local(&self, client: IpAddr) -> IpAddr {
        match (client, self.target) {
            (IpAddr::V4(ip), SocketAddr::V4(_)) => {
                let [_, _, _, host] = ip.octets();
                Ipv4Addr::new(127, 0, 1, host).into()
            }
            _ => localhost(&self.target),
        }
    }
}

fn localhost(other: &SocketAddr) -> IpAddr {
    match other {
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::ConnectionRefused | ErrorKind::Interrupted
    )
}

fn fill(buffer: &mut [u8], packet: &[u8]) -> io::Result<usize> {
    let room = buffer.get_mut(..packet.len()).ok_or(ErrorKind::InvalidInput)?;
    room.copy_from_slice(packet);
    Ok(packet.len())
}

/// Returns the UDP payload of a packet, and one of the packet's addresses.
fn payload(
    packet: &[u8],
    address: impl Fn(Layout, &[u8]) -> Option<SocketAddr>,
) -> io::Result<(&[u8], SocketAddr)> {
    let found = Layout::of(packet)
        .and_then(|layout| Some((packet.get(layout.headers..)?, address(layout, packet)?)));
    found.ok_or_else(|| ErrorKind::InvalidData.into())
}
