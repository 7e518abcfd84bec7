//! A device that several IP tunnels share.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::task::{Context, Poll, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use clearway_masque::QueueLimits;

use super::batches::BATCH;
use super::device::{IpDevice, receive};

/// Routes the packets of one device to tunnels, by destination address.
///
/// Each tunnel has a [`IpPort`]. A packet for an address that no port has is dropped. The queue of a
/// port is bounded; when it is full, the oldest packets are dropped.
///
/// A clone is another handle to the same router. [`run`](Self::run) has to be polled once, by one
/// task.
#[derive(Clone)]
pub struct IpRouter(Arc<Shared>);

struct Shared {
    device: Box<dyn IpDevice>,
    ports: Mutex<HashMap<IpAddr, Arc<Mutex<Queue>>>>,
}

/// The packets queued for a tunnel.
struct Queue {
    limits: QueueLimits,
    packets: VecDeque<Bytes>,
    bytes: usize,
    dropped: u64,
    waker: Option<Waker>,
    /// The reason why the device has no more packets.
    failed: Option<io::ErrorKind>,
}

/// Locks a mutex. Ignores poisoning, since no code that can panic runs while a mutex of this module
/// is locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IpRouter {
    /// Creates a router for a device.
    pub fn new(device: impl IpDevice) -> Self {
        Self(Arc::new(Shared { device: Box::new(device), ports: Mutex::default() }))
    }

    /// Receives packets from the device, until the device fails. Returns the error; all ports then
    /// fail with an error of the same kind.
    ///
    /// # Cancel safety
    /// If the future is dropped, no packets are received until this is called again.
    pub async fn run(&self) -> io::Error {
        let shared = &*self.0;
        loop {
            for _ in 0..BATCH {
                match receive(&*shared.device).await {
                    Ok(packet) => shared.route(packet),
                    Err(error) => return shared.fail(error),
                }
            }
            // The tunnels' tasks may need this thread to empty their queues.
            tokio::task::yield_now().await;
        }
    }

    /// Creates a port for a tunnel, without addresses.
    pub fn port(&self, limits: QueueLimits) -> IpPort {
        let queue = Queue {
            limits,
            packets: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            waker: None,
            failed: None,
        };
        let queue = Arc::new(Mutex::new(queue));
        IpPort(Arc::new(Port { router: self.0.clone(), queue }))
    }

    /// Returns the number of addresses assigned to ports.
    pub fn addresses(&self) -> usize {
        lock(&self.0.ports).len()
    }
}

impl fmt::Debug for IpRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpRouter").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Ends all ports with an error of this kind.
    fn fail(&self, error: io::Error) -> io::Error {
        for queue in lock(&self.ports).values() {
            lock(queue).fail(error.kind());
        }
        error
    }

    fn route(&self, packet: Bytes) {
        let Some(destination) = destination(&packet) else { return };
        let queue = lock(&self.ports).get(&destination).cloned();
        if let Some(queue) = queue {
            let waker = lock(&queue).push(packet);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Queue {
    /// Appends a packet. Returns the waker of the waiting task, if there is one.
    fn push(&mut self, packet: Bytes) -> Option<Waker> {
        self.bytes = self.bytes.saturating_add(packet.len());
        self.packets.push_back(packet);
        while self.packets.len() > self.limits.datagrams || self.bytes > self.limits.bytes {
            if self.pop().is_none() {
                break;
            }
            self.dropped = self.dropped.saturating_add(1);
        }
        self.waker.take()
    }

    fn pop(&mut self) -> Option<Bytes> {
        let packet = self.packets.pop_front()?;
        self.bytes = self.bytes.saturating_sub(packet.len());
        Some(packet)
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        self.failed = Some(kind);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One tunnel's port on an [`IpRouter`]: a device that receives only the packets for the addresses
/// of this port. Clones refer to the same port; dropping the last one removes the addresses.
#[derive(Clone)]
pub struct IpPort(Arc<Port>);

struct Port {
    router: Arc<Shared>,
    queue: Arc<Mutex<Queue>>,
}

impl IpPort {
    /// Routes packets for `address` to this port. Returns `false`, and changes nothing, if another
    /// port has the address.
    pub fn add(&self, address: IpAddr) -> bool {
        let mut ports = lock(&self.0.router.ports);
        let queue = ports.entry(address).or_insert_with(|| self.0.queue.clone());
        Arc::ptr_eq(queue, &self.0.queue)
    }

    /// Stops routing packets for `address` to this port.
    pub fn remove(&self, address: IpAddr) {
        let mut ports = lock(&self.0.router.ports);
        if ports.get(&address).is_some_and(|queue| Arc::ptr_eq(queue, &self.0.queue)) {
            ports.remove(&address);
        }
    }

    /// Returns the number of packets that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        lock(&self.0.queue).dropped
    }
}

impl IpDevice for IpPort {
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut queue = lock(&self.0.queue);
        match (queue.pop(), queue.failed) {
            (Some(packet), _) => Poll::Ready(Ok(packet)),
            (None, Some(kind)) => Poll::Ready(Err(kind.into())),
            (None, None) => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.router.device.try_send(packet)
    }

    fn flush(&self) {
        self.0.router.device.flush();
    }

    fn dropped(&self) -> u64 {
        Self::dropped(self)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        lock(&self.router.ports).retain(|_, queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

impl fmt::Debug for IpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpPort").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// Returns the destination of an IP packet; `None` if it is too short or of another IP version.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        6 => {
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
