//! The proxy's UDP socket to the target of a tunnel.

use core::cell::RefCell;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, IoSliceMut};

use clearway_masque::udp::Traffic;
use clearway_udp::{
    MAX_BATCH_BYTES, RECEIVE_BUFFERS, ReceiveBuffer, is_final, is_report, new_state,
};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::{Sleep, sleep};

/// Pause after an error of the receive call that is not about an earlier datagram.
const PAUSE: Duration = Duration::from_millis(100);

thread_local! {
    /// The buffers of all relays of a thread: idle relays need none.
    static BUFFER: RefCell<Option<ReceiveBuffer>> = const { RefCell::new(None) };
    static OUTGOING: RefCell<Outgoing> = const { RefCell::new(Outgoing::new()) };
}

/// A connected UDP socket that sends and receives batches where the platform supports them, and
/// never sends IP fragments (RFC 9298 §5).
pub(super) struct TargetSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    target: SocketAddr,
    /// Maximum number of payloads that the system accepts in one call.
    max_together: usize,
    /// Payloads that were dropped instead of sent.
    unsent: Traffic,
    /// Timer that runs after a receive call has failed.
    pause: Option<Pin<Box<Sleep>>>,
}

/// UDP payloads that one system call sends. All have the same length, except the last one, which may
/// be shorter.
pub(super) struct Outgoing {
    contents: Vec<u8>,
    segment: usize,
    count: usize,
}

impl Outgoing {
    const fn new() -> Self {
        Self { contents: Vec::new(), segment: 0, count: 0 }
    }

    /// Returns whether `payload` can be sent with the same call as the others.
    fn admits(&self, payload: &[u8], most: usize) -> bool {
        let is_full = self.contents.len() < self.count * self.segment;
        self.count < most
            && !is_full
            && !payload.is_empty()
            && payload.len() <= self.segment
            && self.contents.len().saturating_add(payload.len()) <= MAX_BATCH_BYTES
    }

    fn push(&mut self, payload: &[u8]) {
        if self.count == 0 {
            self.segment = payload.len();
        }
        self.contents.extend_from_slice(payload);
        self.count = self.count.saturating_add(1);
    }

    fn clear(&mut self) {
        self.contents.clear();
        self.count = 0;
    }
}

/// Calls `relay` with an empty queue. Idle relays have none.
pub(super) fn with_outgoing<T>(relay: impl FnOnce(&mut Outgoing) -> T) -> T {
    OUTGOING.with_borrow_mut(|outgoing| {
        outgoing.clear();
        relay(outgoing)
    })
}

impl TargetSocket {
    /// Configures a connected socket.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let target = socket.peer_addr()?;
        let socket = socket.into_std()?;
        let state = new_state(&socket)?;
        // Linux accepts a destination for a connected socket, which quinn-udp always passes; other
        // systems reject it.
        let max_together =
            if cfg!(target_os = "linux") { state.max_gso_segments().max(1) } else { 1 };
        let (socket, unsent) = (UdpSocket::from_std(socket)?, Traffic::default());
        Ok(Self { socket, state, target, max_together, unsent, pause: None })
    }

    /// Returns the payloads that were dropped since the last call.
    pub(super) fn take_unsent(&mut self) -> Traffic {
        core::mem::take(&mut self.unsent)
    }

    /// Queues a UDP payload, after sending the queued ones if they cannot be sent together.
    ///
    /// # Errors
    /// Fails only if the socket cannot be used any more: payloads that cannot be sent are dropped, as
    /// by any network.
    pub(super) fn send(&mut self, outgoing: &mut Outgoing, payload: &[u8]) -> io::Result<()> {
        if outgoing.count > 0 && !outgoing.admits(payload, self.max_together) {
            self.flush(outgoing)?;
        }
        outgoing.push(payload);
        Ok(())
    }

    /// Sends the queued payloads.
    ///
    /// # Errors
    /// Fails only if the socket cannot be used any more.
    pub(super) fn flush(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let sent = match outgoing.count {
            0 => Ok(()),
            1 => self.send_one(&outgoing.contents).map(|_| ()),
            _ => self.send_together(outgoing),
        };
        outgoing.clear();
        sent
    }

    fn send_together(&mut self, outgoing: &Outgoing) -> io::Result<()> {
        let Outgoing { contents, segment, .. } = outgoing;
        let transmit = Transmit {
            destination: self.target,
            // RFC 9298 §6.3: UDP payloads are sent without ECN.
            ecn: None,
            contents,
            segment_size: Some(*segment),
            src_ip: None,
        };
        let Self { socket, state, .. } = &mut *self;
        let send =
            || socket.try_io(Interest::WRITABLE, || state.try_send((&*socket).into(), &transmit));
        let mut sent = send();
        if sent.as_ref().is_err_and(is_report) {
            // A call can return the ICMP error of an earlier payload instead of sending these.
            sent = send();
        }
        let error = match sent {
            Ok(()) => return Ok(()),
            // Dropped, as the next router would do.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                for payload in contents.chunks(*segment) {
                    count(&mut self.unsent, payload);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        // Errors of earlier payloads, a device without segmentation offload, or payloads that are
        // too long for the path.
        let mut are_accepted = true;
        for payload in contents.chunks(*segment) {
            are_accepted &= self.send_one(payload)?;
        }
        if are_accepted && !is_report(&error) {
            self.max_together = 1;
        }
        Ok(())
    }

    /// Sends a payload, or drops it as a network would. Returns whether it was sent.
    fn send_one(&mut self, payload: &[u8]) -> io::Result<bool> {
        let mut sent = self.socket.try_send(payload);
        if sent.as_ref().is_err_and(is_report) {
            // A call can return the ICMP error of an earlier payload instead of sending this one.
            sent = self.socket.try_send(payload);
        }
        match sent {
            Ok(_) => return Ok(true),
            Err(error) if is_final(&error) => return Err(error),
            Err(_) => {}
        }
        count(&mut self.unsent, payload);
        Ok(false)
    }

    /// Receives one bounded batch, and calls `each` with every UDP payload. Returns the number of
    /// system buffers that were filled.
    ///
    /// # Errors
    /// Returns errors after which the socket cannot be used any more.
    pub(super) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        mut each: impl FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let Self { socket, state, pause, .. } = self;
        BUFFER.with_borrow_mut(|buffer| {
            let buffer = buffer.get_or_insert_default().bytes();
            let size = buffer.len() / RECEIVE_BUFFERS;
            let mut chunks = buffer.chunks_mut(size);
            let mut buffers: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
                core::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            let mut metas = [RecvMeta::default(); RECEIVE_BUFFERS];
            let filled = loop {
                ready!(socket.poll_recv_ready(context))?;
                let receive = || state.recv((&*socket).into(), &mut buffers, &mut metas);
                match socket.try_io(Interest::READABLE, receive) {
                    Ok(filled) => break filled,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // For example, ICMP reports that the target's port is closed. That may change.
                    Err(error) if is_report(&error) => break 0,
                    Err(error) if is_final(&error) => return Poll::Ready(Err(error)),
                    // A lack of memory, for example, may last.
                    Err(_) => {
                        let timer = pause.insert(Box::pin(sleep(PAUSE)));
                        ready!(timer.as_mut().poll(context));
                        *pause = None;
                    }
                }
            };
            for (buffer, meta) in buffers.iter().zip(&metas).take(filled) {
                let contents = buffer.get(..meta.len).unwrap_or_default();
                if contents.is_empty() {
                    each(&[]);
                }
                contents.chunks(meta.stride.max(1)).for_each(&mut each);
            }
            Poll::Ready(Ok(filled))
        })
    }
}

fn count(traffic: &mut Traffic, payload: &[u8]) {
    traffic.datagrams = traffic.datagrams.saturating_add(1);
    traffic.bytes = traffic.bytes.saturating_add(payload.len() as u64);
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::time::Duration;

    use super::*;

    fn run<F: Future<Output = ()>>(test: F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(10), test).await })
            .unwrap();
    }

    /// Returns a connected socket, and its target.
    async fn pair() -> (TargetSocket, UdpSocket) {
        let [ours, target] = [UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0")];
        let (ours, target) = (ours.await.unwrap(), target.await.unwrap());
        ours.connect(target.local_addr().unwrap()).await.unwrap();
        target.connect(ours.local_addr().unwrap()).await.unwrap();
        (TargetSocket::new(ours).unwrap(), target)
    }

    fn payloads(lengths: &[usize]) -> Vec<Vec<u8>> {
        (0..).zip(lengths).map(|(index, length)| vec![index; *length]).collect()
    }

    fn send(socket: &mut TargetSocket, payloads: &[Vec<u8>]) {
        with_outgoing(|outgoing| {
            for payload in payloads {
                socket.send(outgoing, payload).unwrap();
            }
            socket.flush(outgoing).unwrap();
        });
    }

    #[test]
    fn payloads_of_all_lengths_are_sent_in_order() {
        run(async {
            let (mut socket, target) = pair().await;
            socket.socket.writable().await.unwrap();
            let lengths = [100, 100, 100, 50, 100, 0, 0, 7, 7, 8, 1, 1400, 1400, 65_507, 3];
            let sent = payloads(&lengths);
            send(&mut socket, &sent);
            for expected in &sent {
                let mut buffer = vec![0; 1 << 16];
                let length = target.recv(&mut buffer).await.unwrap();
                assert_eq!(buffer[..length], expected[..]);
            }
            // More than one call can send.
            send(&mut socket, &payloads(&[9; 200]));
            for index in 0..200 {
                let mut buffer = [0; 100];
                assert_eq!(target.recv(&mut buffer).await.unwrap(), 9);
                assert_eq!(buffer[..9], [index; 9]);
            }
        });
    }

    /// A payload that the path does not carry costs only itself.
    #[test]
    fn payloads_that_are_too_long_are_dropped() {
        run(async {
            let (mut socket, target) = pair().await;
            socket.socket.writable().await.unwrap();
            let before = socket.max_together;
            send(&mut socket, &payloads(&[65_600, 20, 20]));
            assert_eq!(socket.take_unsent(), Traffic { datagrams: 1, bytes: 65_600 });
            assert_eq!(socket.take_unsent(), Traffic::default());
            for index in 1..3 {
                let mut buffer = [0; 100];
                assert_eq!(target.recv(&mut buffer).await.unwrap(), 20);
                assert_eq!(buffer[..20], [index; 20]);
            }
            assert_eq!(socket.max_together, before);
        });
    }

    #[test]
    fn coalesced_payloads_are_split() {
        run(async {
            let (mut socket, target) = pair().await;
            let mut sender = TargetSocket::new(target).unwrap();
            sender.socket.writable().await.unwrap();
            let sent = payloads(&[500, 500, 500, 20, 0, 30, 30]);
            send(&mut sender, &sent);
            let mut received = Vec::new();
            while received.len() < sent.len() {
                poll_fn(|context| {
                    socket.poll_receive(context, |payload| received.push(payload.to_vec()))
                })
                .await
                .unwrap();
            }
            assert_eq!(received, sent);
        });
    }

    #[test]
    fn a_closed_port_does_not_end_the_socket() {
        run(async {
            let (mut socket, target) = pair().await;
            let address = target.local_addr().unwrap();
            drop(target);
            socket.socket.writable().await.unwrap();
            send(&mut socket, &payloads(&[5, 5, 5]));
            tokio::time::sleep(Duration::from_millis(20)).await;
            let target = UdpSocket::bind(address).await.unwrap();
            send(&mut socket, &payloads(&[6, 6]));
            let mut buffer = [0; 100];
            for _ in 0..2 {
                assert_eq!(target.recv(&mut buffer).await.unwrap(), 6);
            }
            assert!(socket.max_together > 1 || cfg!(not(target_os = "linux")));
        });
    }

    /// Anyone can forge these reports: the checksum and the target's address are all they need. Sending
    /// them needs root; without it, the test prints a message and ends.
    #[cfg(target_os = "linux")]
    #[test]
    fn reports_of_icmp_cost_no_payloads_and_keep_segmentation() {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

        let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
        let Ok(raw) = raw else { return eprintln!("skipped: raw sockets need root") };
        run(async {
            let (mut socket, target) = pair().await;
            socket.socket.writable().await.unwrap();
            let before = socket.max_together;
            let [from, to] = [socket.socket.local_addr().unwrap(), socket.target];
            // The codes of "destination unreachable" that Linux reports to connected sockets: among
            // them protocol unreachable, too long, and prohibited.
            for code in [2, 3, 4, 6, 7, 8, 9, 10, 13] {
                let mut message = vec![3, code, 0, 0, 0, 0, 5, 0];
                message
                    .extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
                message.extend([from.port(), to.port(), 16, 0].map(u16::to_be_bytes).concat());
                let words =
                    message.chunks(2).map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])));
                let sum = words.sum::<u32>();
                let sum = (sum >> 16) + (sum & 0xffff);
                let checksum = !((sum + (sum >> 16)) as u16);
                message[2..4].copy_from_slice(&checksum.to_be_bytes());
                for lengths in [&[5][..], &[6, 6]] {
                    sendto(&raw, &message, SendFlags::empty(), &from).unwrap();
                    let mut waiting = [PollFd::new(&socket.socket, PollFlags::ERR)];
                    let timeout = Some(Duration::from_secs(5).try_into().unwrap());
                    assert_eq!(poll(&mut waiting, timeout.as_ref()).unwrap(), 1, "code {code}");
                    send(&mut socket, &payloads(lengths));
                    for length in lengths {
                        let mut buffer = [0; 100];
                        assert_eq!(target.recv(&mut buffer).await.unwrap(), *length, "code {code}");
                    }
                }
            }
            assert_eq!(socket.take_unsent(), Traffic::default());
            assert_eq!(socket.max_together, before);
        });
    }
}
