//! TUN devices on systems other than Linux: there are none.

use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use clearway::masque::IpDevice;
use ipnet::IpNet;

use crate::failure::Failure;

/// The default name.
pub(crate) const NAME: &str = "clearway%d";

/// The default MTU of a device in bytes.
pub(crate) const MTU: u16 = 1280;

/// A TUN device; never constructed on these systems.
pub(crate) enum Tun {}

impl Tun {
    /// Returns an error that says that devices require Linux.
    pub(crate) async fn open(_: &str, _: u16) -> Result<Self, Failure> {
        Err(Failure::new("cannot create a TUN device on this system: it requires Linux")
            .advise("run the proxy on Linux, or without --ip-pool"))
    }

    /// Returns the addresses of this host.
    pub(crate) async fn host_addresses(&self) -> Result<Vec<IpAddr>, Failure> {
        match *self {}
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    /// Routes a prefix to this device.
    pub(crate) async fn add_route(&self, _: IpNet) -> Result<(), Failure> {
        match *self {}
    }
}

impl IpDevice for Tun {
    fn poll_receive(&self, _: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        match *self {}
    }

    fn try_send(&self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}
