//! A NAT with one client: it passes datagrams between a loopback address and the server, from a port that can be changed at any
//! time. What arrives at the old port is lost then, as behind a NAT that has forgotten it.

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

/// The client is where it has last sent from: it may change its own port, too.
async fn pass_on(
    inside: UdpSocket,
    mut outside: UdpSocket,
    mut changed: UnboundedReceiver<UdpSocket>,
) {
    let mut client = None;
    let mut buffers = [vec![0; MAX_PAYLOAD], vec![0; MAX_PAYLOAD]];
    let [out, back] = &mut buffers;
    loop {
        // An error is that of one datagram, as if it was lost.
        tokio::select! {
            socket = changed.recv() => match socket {
                Some(socket) => outside = socket,
                None => return,
            },
            received = inside.recv_from(out) => if let Ok((length, from)) = received {
                client = Some(from);
                let _ = outside.send(&out[..length]).await;
            },
            received = outside.recv(back) => if let (Ok(length), Some(client)) = (received, client) {
                let _ = inside.send_to(&back[..length], client).await;
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ports.dedup();
            assert_eq!(ports.len(), 3);
        });
    }
}
