//! Devices that send and receive IP packets.

use core::future::poll_fn;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use bytes::Bytes;

/// A device that sends and receives IP packets, such as a TUN device. A relay connects IP tunnels
/// to it.
///
/// One task at a time receives; any number of tasks send. A panic in a method ends the relay that
/// called it, as a panic in any other task.
pub trait IpDevice: Send + Sync + 'static {
    /// Polls for the next packet that the device has for the tunnels. Only the waker of the most
    /// recent call needs to be woken.
    ///
    /// # Errors
    /// An error is permanent: the tunnels of the device end.
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>>;

    /// Passes a packet from a tunnel to the device, without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the device has no room. The packet is dropped after any error,
    /// as in a network.
    fn try_send(&self, packet: &[u8]) -> io::Result<()>;

    /// Passes on the packets of earlier calls of [`try_send`](Self::try_send), if the device collects
    /// them. Called after each batch; does nothing by default.
    fn flush(&self) {}

    /// Returns the number of packets for the tunnels that were dropped because they were not
    /// received in time, as far as the device counts them.
    fn dropped(&self) -> u64 {
        0
    }
}

impl<D: IpDevice + ?Sized> IpDevice for Arc<D> {
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        (**self).poll_receive(context)
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        (**self).try_send(packet)
    }

    fn flush(&self) {
        (**self).flush();
    }

    fn dropped(&self) -> u64 {
        (**self).dropped()
    }
}

/// Waits for the next packet of a device.
///
/// # Errors
/// Fails if the device has failed.
///
/// # Cancel safety
/// If the future is dropped, no packet is lost.
pub(super) async fn receive(device: &(impl IpDevice + ?Sized)) -> io::Result<Bytes> {
    poll_fn(|context| device.poll_receive(context)).await
}
