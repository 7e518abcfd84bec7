//! A NAT with one client: it passes datagrams between a loopback address and the server, from a port that can be changed at any
//! time. What arrives at the old port is lost then, as behind a NAT that has forgotten it.
//!
//! When the client changes its own port, and with it its connection ID, it is at the port again that it had before the last
//! change, from its first datagram on, if an answer has come to that: a balancer that cannot know the new ID has to know the port.
//! A server may take no notice of a client that validates the path on which it is already:
//! quic-go answers a PATH_CHALLENGE from another address than that of its current path only.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The largest UDP payload.
const MAX_PAYLOAD: usize = 65_507;

/// While this exists, datagrams are passed on.
pub(super) struct Nat {
    /// Where the client sends to.
    pub(super) inside: SocketAddr,
    outside: SocketAddr,
    remote: SocketAddr,
    sockets: UnboundedSender<UdpSocket>,
}

impl Nat {
    /// A NAT whose address is that of `outside`, where the port is 0.
    pub(super) async fn open(outside: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        let inside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (sockets, changed) = unbounded_channel();
        let nat = Self { inside: inside.local_addr()?, outside, remote, sockets };
        tokio::spawn(pass_on(inside, bind(outside, remote).await?, changed));
        Ok(nat)
    }

    /// Changes the port.
    pub(super) async fn rebind(&self) -> io::Result<()> {
        // The task ends after this.
        let _ = self.sockets.send(bind(self.outside, self.remote).await?);
        Ok(())
    }
}

async fn bind(outside: SocketAddr, remote: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(outside).await?;
    socket.connect(remote).await?;
    Ok(socket)
}

/// A port outside.
struct Port {
    socket: UdpSocket,
    /// Whether an answer has come to it, so that the balancer has seen the client there.
    is_known: bool,
}

impl Port {
    fn new(socket: UdpSocket) -> Self {
        Self { socket, is_known: false }
    }
}

/// The client's own ports.
#[derive(Default)]
struct Client {
    /// The one that it began to use last, to which answers go.
    newest: Option<SocketAddr>,
    /// The one before: its last datagrams may be on their way.
    former: Option<SocketAddr>,
}

impl Client {
    /// It has sent from this port. Returns whether it has changed to it.
    fn note(&mut self, from: SocketAddr) -> bool {
        if [self.newest, self.former].contains(&Some(from)) {
            return false;
        }
        self.former = self.newest.replace(from);
        self.former.is_some()
    }
}

async fn pass_on(inside: UdpSocket, outside: UdpSocket, mut changed: UnboundedReceiver<UdpSocket>) {
    let mut client = Client::default();
    let mut outside = Port::new(outside);
    // The port before the last change; what arrives there is lost.
    let mut former: Option<Port> = None;
    let mut buffers = [vec![0; MAX_PAYLOAD], vec![0; MAX_PAYLOAD]];
    let [out, back] = &mut buffers;
    loop {
        // An error is that of one datagram, as if it was lost.
        tokio::select! {
            // A datagram that the client sends after a change leaves from the new port. The next change waits for an answer there,
            // so that one of both ports is known at any time.
            biased;
            socket = changed.recv(), if outside.is_known => match socket {
                Some(socket) => former = Some(std::mem::replace(&mut outside, Port::new(socket))),
                None => return,
            },
            received = inside.recv_from(out) => if let Ok((length, from)) = received {
                if client.note(from) && let Some(former) = former.as_mut().filter(|it| it.is_known) {
                    std::mem::swap(&mut outside, former);
                }
                let _ = outside.socket.send(&out[..length]).await;
            },
            () = lose(former.as_ref()) => {}
            received = outside.socket.recv(back) => if let (Ok(length), Some(client)) = (received, client.newest) {
                outside.is_known = true;
                let _ = inside.send_to(&back[..length], client).await;
            },
        }
    }
}

/// Receives a datagram that nobody gets.
async fn lose(port: Option<&Port>) {
    match port {
        // So is an error.
        Some(port) => drop(port.socket.recv(&mut [0]).await),
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

    /// A late datagram from the client's own port of before changes nothing, and nobody returns to a port that may be unknown.
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
            assert_eq!(ports[2..4], [ports[0]; 2]);
            assert!(!ports[..4].contains(&ports[4]));
            assert_eq!(ports[5..], [ports[0]; 2], "no answer has come to the one before");
        });
    }
}
