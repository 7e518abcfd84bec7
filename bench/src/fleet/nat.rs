//! A NAT with one client: it forwards datagrams between the client's loopback ports and the server,
//! from an external port that can be changed at any time. After a change, datagrams that arrive at
//! the old external port are dropped, as behind a NAT that has removed the mapping.
//!
//! When the client changes its own port, and with it its connection ID, datagrams from the new port
//! leave from the external port that was in use before the last change, if a response has arrived
//! there. A balancer that cannot know the new connection ID has to know the port. Datagrams that
//! the client still sends from its previous port keep their external port, as behind any NAT, and
//! are answered there: until a path is validated, a client uses both paths (RFC 9000 §9.1).
//!
//! The two external ports have to differ. A server may ignore a client that validates the path it
//! is already using: quic-go answers a PATH_CHALLENGE only if it comes from an address other than
//! that of the current path.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Maximum UDP payload in bytes.
const MAX_PAYLOAD: usize = 65_507;

/// A running NAT, which forwards datagrams until dropped.
pub(super) struct Nat {
    /// The internal address to which the client sends.
    pub(super) inside: SocketAddr,
    outside: SocketAddr,
    remote: SocketAddr,
    sockets: UnboundedSender<UdpSocket>,
}

impl Nat {
    /// Opens a NAT with the external address of `outside`, whose port must be 0.
    pub(super) async fn open(outside: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let inside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (sockets, changed) = unbounded_channel();
        let nat = Self { inside: inside.local_addr()?, outside, remote, sockets };
        tokio::spawn(pass_on(inside, bind(outside, remote).await?, changed));
        Ok(nat)
    }

    /// Switches to a new external port.
    pub(super) async fn rebind(&self) -> io::Result<()> {
        // The call fails only after the task has ended.
        let _ = self.sockets.send(bind(self.outside, self.remote).await?);
        Ok(())
    }
}

async fn bind(outside: SocketAddr, remote: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(outside).await?;
    socket.connect(remote).await?;
    Ok(socket)
}

/// An external port of the NAT.
struct Port {
    socket: UdpSocket,
    /// The client port that is mapped to this external port and receives its datagrams; `None`
    /// after a change.
    inside: Option<SocketAddr>,
    /// Whether a response has arrived since this port was mapped to its current client port.
    is_answered: bool,
    /// Whether a response has ever arrived, so that the balancer has seen the client at this port.
    is_known: bool,
}

impl Port {
    fn new(socket: UdpSocket, inside: Option<SocketAddr>) -> Self {
        Self { socket, inside, is_answered: false, is_known: false }
    }

    fn give_to(&mut self, inside: SocketAddr) {
        (self.inside, self.is_answered) = (Some(inside), false);
    }
}

/// The external ports: the one mapped to the client's newest port, and the previous one.
struct Ports {
    newest: Port,
    former: Option<Port>,
}

impl Ports {
    /// Switches to a new external port, and removes the mapping of the current one.
    fn change(&mut self, socket: UdpSocket) {
        let newest = Port::new(socket, self.newest.inside);
        let former = std::mem::replace(&mut self.newest, newest);
        self.former = Some(Port { inside: None, ..former });
    }

    /// Returns the external socket from which datagrams of this client port are sent.
    fn of(&mut self, inside: SocketAddr) -> &UdpSocket {
        if self.newest.inside == Some(inside) {
            return &self.newest.socket;
        }
        let is_first = self.newest.inside.is_none();
        match &mut self.former {
            Some(former) if former.inside == Some(inside) => {}
            Some(former) if former.is_known && !is_first => {
                former.give_to(inside);
                std::mem::swap(&mut self.newest, former);
            }
            _ => self.newest.give_to(inside),
        }
        match &self.former {
            Some(former) if former.inside == Some(inside) => &former.socket,
            _ => &self.newest.socket,
        }
    }
}

async fn pass_on(inside: UdpSocket, outside: UdpSocket, mut changed: UnboundedReceiver<UdpSocket>) {
    let mut ports = Ports { newest: Port::new(outside, None), former: None };
    let mut buffers = [vec![0; MAX_PAYLOAD], vec![0; MAX_PAYLOAD], vec![0; MAX_PAYLOAD]];
    let [out, back, late] = &mut buffers;
    loop {
        // An error affects only a single datagram, as if it had been lost.
        tokio::select! {
            // Datagrams that the client sends after a change leave from the new port. The next
            // change waits for a response at that port, so that the balancer always knows one of
            // the two ports, and learns a new ID through it.
            biased;
            socket = changed.recv(), if ports.newest.is_answered => match socket {
                Some(socket) => ports.change(socket),
                None => return,
            },
            received = inside.recv_from(out) => if let Ok((length, from)) = received {
                let _ = ports.of(from).send(&out[..length]).await;
            },
            received = receive(Some(&ports.newest), back) => if let Some((length, client)) = received {
                (ports.newest.is_answered, ports.newest.is_known) = (true, true);
                let _ = inside.send_to(&back[..length], client).await;
            },
            received = receive(ports.former.as_ref(), late) => if let Some((length, client)) = received {
                if let Some(former) = &mut ports.former {
                    former.is_known = true;
                }
                let _ = inside.send_to(&late[..length], client).await;
            },
        }
    }
}

/// Receives a datagram at an external port. Returns its length and the client port that it is for,
/// if there is one.
async fn receive(port: Option<&Port>, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    match port {
        // A receive error also affects only a single datagram.
        Some(port) => port.socket.recv(buffer).await.ok().zip(port.inside),
        None => std::future::pending().await,
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: SocketAddr) -> std::net::UdpSocket {
        let socket = std::net::UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    #[test]
    fn datagrams_pass_both_ways_and_the_port_can_change() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server = UdpSocket::bind(any).await.unwrap();
            let nat = Nat::open(any, server.local_addr().unwrap()).await.unwrap();
            let client = UdpSocket::bind(any).await.unwrap();
            let mut buffer = [0; 10];
            let mut ports = Vec::new();
            for round in 0..3 {
                client.send_to(&[round], nat.inside).await.unwrap();
                let (length, from) = server.recv_from(&mut buffer).await.unwrap();
                assert_eq!(buffer[..length], [round]);
                server.send_to(&[round, round], from).await.unwrap();
                let (length, _) = client.recv_from(&mut buffer).await.unwrap();
                assert_eq!(buffer[..length], [round, round]);
                ports.push(from.port());
                nat.rebind().await.unwrap();
            }
            assert!(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2]);
        });
    }

    /// Datagrams that the client still sends from its previous port keep their external port, and
    /// no client port is mapped back to an external port that the balancer may not know.
    #[test]
    fn a_client_that_changes_its_own_port_is_where_it_was_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server = UdpSocket::bind(any).await.unwrap();
            let nat = Nat::open(any, server.local_addr().unwrap()).await.unwrap();
            let [first, second, third, fourth] =
                std::array::from_fn(|_| UdpSocket::from_std(bound(any)).unwrap());
            let mut buffer = [0; 10];
            let mut ports = Vec::new();
            for (socket, rebinds, is_answered) in [
                (&first, false, true),
                (&first, true, true),
                (&second, false, true),
                (&first, false, false),
                (&second, true, false),
                (&third, false, true),
                (&fourth, false, true),
            ] {
                if rebinds {
                    nat.rebind().await.unwrap();
                }
                socket.send_to(&[1], nat.inside).await.unwrap();
                let port = server.recv_from(&mut buffer).await.unwrap().1;
                if is_answered {
                    server.send_to(&[2], port).await.unwrap();
                    let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
                    assert_eq!(buffer[..length], [2]);
                }
                ports.push(port);
            }
            assert_ne!(ports[0], ports[1]);
            assert_eq!(
                ports[2..4],
                [ports[0], ports[1]],
                "each internal port is mapped to an external one"
            );
            assert!(!ports[..4].contains(&ports[4]));
            assert_eq!(ports[5..], [ports[0]; 2], "the previous datagram was not answered");
        });
    }
}
