//! Packets of a TUN device in batches. With segmentation offload, the kernel passes and accepts many
//! segments of a TCP connection, or datagrams of a UDP flow, as one packet.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use tun_rs::{AsyncDevice, ExpandBuffer, GROTable, IDEAL_BATCH_SIZE, VIRTIO_NET_HDR_LEN};

/// Size of the buffer for a packet of the largest length in bytes.
const BUFFER: usize = VIRTIO_NET_HDR_LEN + (1 << 16);

/// Minimum size of the buffer for a segment in bytes: the MTU can be increased by other programs.
const SEGMENT: u16 = 1500;

/// Maximum number of packets to combine before they are written.
const BATCH: usize = 64;

/// The batches of one device in both directions.
pub(super) struct Batches {
    incoming: Mutex<Incoming>,
    outgoing: Mutex<Outgoing>,
}

/// Packets that were read and not returned yet, and the buffers for reading.
struct Incoming {
    queue: VecDeque<Bytes>,
    combined: Vec<u8>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

/// Packets to write.
#[derive(Default)]
struct Outgoing {
    packets: Vec<Packet>,
    table: GROTable,
}

/// A packet to write, after room for the header with which the kernel accepts combined packets.
struct Packet(Vec<u8>);

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Packet {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl ExpandBuffer for Packet {
    /// Returns the length up to which packets are appended: that of the largest IP packet.
    fn buf_capacity(&self) -> usize {
        2 * VIRTIO_NET_HDR_LEN + usize::from(u16::MAX)
    }

    fn buf_resize(&mut self, new_len: usize, value: u8) {
        self.0.resize(new_len, value);
    }

    fn buf_extend_from_slice(&mut self, src: &[u8]) {
        self.0.extend_from_slice(src);
    }
}

/// Locks a mutex. Ignores poisoning: a batch that is only partly changed is still a batch.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batches {
    /// Creates the buffers for a device with this MTU in bytes.
    pub(super) fn new(mtu: u16) -> Self {
        let segment = usize::from(mtu.max(SEGMENT));
        // A packet that is not combined can have any length, and needs the first buffer only.
        let mut packets = vec![vec![0; BUFFER]];
        packets.resize(IDEAL_BATCH_SIZE, vec![0; segment]);
        let incoming = Incoming {
            queue: VecDeque::new(),
            combined: vec![0; BUFFER],
            packets,
            sizes: vec![0; IDEAL_BATCH_SIZE],
        };
        Self { incoming: Mutex::new(incoming), outgoing: Mutex::default() }
    }

    /// Returns the next packet that has been read.
    pub(super) fn next(&self) -> Option<Bytes> {
        lock(&self.incoming).queue.pop_front()
    }

    /// Reads a combined packet.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the device has no packet. Errors of the operating system are
    /// permanent.
    pub(super) fn read(&self, device: &AsyncDevice) -> io::Result<()> {
        let Incoming { queue, combined, packets, sizes } = &mut *lock(&self.incoming);
        let count = match device.try_recv_multiple(combined, packets, sizes, 0) {
            Ok(count) => count,
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            // A packet that cannot be split is dropped, as in a network.
            Err(_) => 0,
        };
        let read = packets.iter().zip(&*sizes).take(count);
        let mut contents = BytesMut::with_capacity(sizes.iter().take(count).sum());
        for (packet, size) in read {
            contents.extend_from_slice(packet.get(..*size).unwrap_or_default());
            queue.push_back(contents.split().freeze());
        }
        Ok(())
    }

    /// Queues a packet to be written by [`Self::flush`].
    pub(super) fn queue(&self, device: &AsyncDevice, packet: &[u8]) {
        let mut outgoing = lock(&self.outgoing);
        let mut buffer = Vec::with_capacity(VIRTIO_NET_HDR_LEN.saturating_add(packet.len()));
        buffer.resize(VIRTIO_NET_HDR_LEN, 0);
        buffer.extend_from_slice(packet);
        outgoing.packets.push(Packet(buffer));
        if outgoing.packets.len() >= BATCH {
            outgoing.flush(device);
        }
    }

    /// Writes the queued packets.
    pub(super) fn flush(&self, device: &AsyncDevice) {
        lock(&self.outgoing).flush(device);
    }
}

impl Outgoing {
    fn flush(&mut self, device: &AsyncDevice) {
        if self.packets.is_empty() {
            return;
        }
        let Self { packets, table } = self;
        let sending = device.send_multiple(table, packets, VIRTIO_NET_HDR_LEN);
        // Packets that the device has no room for are dropped, as in a network. Waiting for the
        // task's turn, which tokio may require, would drop them too.
        let _ = tokio::task::unconstrained(sending).now_or_never();
        packets.clear();
    }
}
