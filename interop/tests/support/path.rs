//! An emulated network path for all IP packets between two namespaces.

use std::io::{ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clearway_namespaces::{Namespace, ip};
use clearway_network::{Datagram, Ecn, Link, LinkConfig, Way};
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tappers::{Interface, Tun};

/// The name of the path's devices.
const DEVICE: &str = "path";

/// Held while a device is created and named, so that only one is created at a time.
static MAKING: Mutex<()> = Mutex::new(());

/// A path between a client and a server with the conditions of a link of `clearway-network`.
pub(crate) struct Path {
    next: Arc<Mutex<Option<LinkConfig>>>,
    wake: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Creates a device in both namespaces, with these addresses, and relays between them. The path
    /// has no impairments yet.
    pub(crate) fn new(client: (&Namespace, &str), server: (&Namespace, &str)) -> Self {
        let devices = [client, server].map(|(namespace, address)| device(namespace, address));
        let (woken, wake) = pipe().expect("a pipe");
        let next = Arc::default();
        let driver = Driver {
            devices,
            link: Link::new(LinkConfig::default()),
            next: Arc::clone(&next),
            start: Instant::now(),
        };
        let thread = std::thread::spawn(move || driver.run(&woken));
        Self { next, wake: Some(wake), thread: Some(thread) }
    }

    /// Replaces the path's conditions. Packets in transit are lost.
    pub(crate) fn set(&mut self, link: LinkConfig) {
        *self.next.lock().expect("the path") = Some(link);
        self.wake.as_mut().expect("the path").write_all(&[0]).expect("the path's thread");
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        drop(self.wake.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Creates a TUN device. Packets are not segmented or checksummed outside of the kernel.
fn device(namespace: &Namespace, address: &str) -> Tun {
    let _making = MAKING.lock();
    let create = || {
        let name = Interface::new(DEVICE)?;
        let mut device = Tun::new_named(name)?;
        device.set_nonblocking(true)?;
        ip(&["link", "set", DEVICE, "mtu", "1500", "up"])?;
        ip(&["addr", "add", address, "dev", DEVICE])?;
        Ok::<_, std::io::Error>(device)
    };
    namespace.run(create).flatten().expect("a TUN device")
}

struct Driver {
    /// The devices of the client and the server.
    devices: [Tun; 2],
    link: Link,
    next: Arc<Mutex<Option<LinkConfig>>>,
    start: Instant,
}

impl Driver {
    /// Relays until the other end of the pipe is closed.
    fn run(mut self, woken: &PipeReader) {
        // By default, the kernel may wake a thread 50 us late to save energy.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let mut buffer = vec![0; 1 << 16];
        while self.wait(woken) {
            if let Some(link) = self.next.lock().expect("the path").take() {
                self.link = Link::new(link);
                self.start = Instant::now();
            }
            for way in [Way::ToServer, Way::ToClient] {
                self.receive(way, &mut buffer);
            }
            while let Some(delivery) = self.link.poll(self.now()) {
                let to = &self.devices[usize::from(delivery.way == Way::ToServer)];
                // Dropped if it cannot be sent, as in a network.
                let _ = to.send(&delivery.datagram.payload);
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_origin(self.start.elapsed())
    }

    /// Sleeps until a packet arrives or is due. Returns whether to continue.
    fn wait(&self, woken: &PipeReader) -> bool {
        let [client, server] = &self.devices;
        let mut files = [
            PollFd::new(woken, PollFlags::IN),
            PollFd::new(client, PollFlags::IN),
            PollFd::new(server, PollFlags::IN),
        ];
        let timeout = self.link.deadline().map(|at| at.saturating_since(self.now()));
        let timeout = timeout.and_then(|timeout: Duration| Timespec::try_from(timeout).ok());
        let _ = poll(&mut files, timeout.as_ref());
        let events = files[0].revents();
        if events.contains(PollFlags::IN) {
            let _ = rustix::io::read(woken, &mut [0; 1]);
        }
        !events.contains(PollFlags::HUP) || events.contains(PollFlags::IN)
    }

    fn receive(&mut self, way: Way, buffer: &mut [u8]) {
        let from = &self.devices[usize::from(way == Way::ToClient)];
        loop {
            let length = match from.recv(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let payload = buffer.get(..length).unwrap_or_default().to_vec();
            let now = Timestamp::from_origin(self.start.elapsed());
            let _ = self.link.submit(now, way, Datagram { payload, ecn: Ecn::NotEct, flow: 0 });
        }
    }
}
