//! A relay between a client and a server that can drop a datagram.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::support::loopback;

/// Relays datagrams between one client and a server, with a delay in each direction.
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Number of the client's next datagrams to drop.
    to_lose: AtomicUsize,
    /// Number of datagrams received from the client.
    sent: AtomicUsize,
    is_lost: Notify,
}

impl Relay {
    pub(crate) async fn new(server: SocketAddr, delay: Duration) -> Self {
        let front = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
        let back = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
        back.connect(server).await.unwrap();
        let (address, state) = (front.local_addr().unwrap(), Arc::<State>::default());
        tokio::spawn(relay(front, back, delay, state.clone()));
        Self { address, state }
    }

    /// Returns the address that the client connects to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops the client's next datagram.
    pub(crate) fn lose_next(&self) {
        self.state.to_lose.store(1, Ordering::SeqCst);
    }

    /// Waits until a datagram has been dropped.
    pub(crate) async fn lost(&self) {
        self.state.is_lost.notified().await;
    }

    /// Waits until the client has sent nothing for this time.
    pub(crate) async fn quiet(&self, time: Duration) {
        loop {
            let before = self.state.sent.load(Ordering::SeqCst);
            tokio::time::sleep(time).await;
            if self.state.sent.load(Ordering::SeqCst) == before {
                return;
            }
        }
    }
}

async fn relay(front: Arc<UdpSocket>, back: Arc<UdpSocket>, delay: Duration, state: Arc<State>) {
    let (mut forth, mut other) = (vec![0; 65_536], vec![0; 65_536]);
    let mut client = None;
    loop {
        // An error is an ICMP report about an earlier datagram.
        tokio::select! {
            received = front.recv_from(&mut forth) => {
                let Ok((length, from)) = received else { continue };
                client = Some(from);
                state.sent.fetch_add(1, Ordering::SeqCst);
                if state.to_lose.swap(0, Ordering::SeqCst) > 0 {
                    state.is_lost.notify_one();
                    continue;
                }
                let (datagram, back) = (forth[..length].to_vec(), back.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = back.send(&datagram).await;
                });
            }
            received = back.recv(&mut other) => {
                let (Ok(length), Some(client)) = (received, client) else { continue };
                let (datagram, front) = (other[..length].to_vec(), front.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = front.send_to(&datagram, client).await;
                });
            }
        }
    }
}
