//! TUN devices, and routes to them.

mod offload;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use clearway::masque::IpDevice;
use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteScope, RouteType};
use rtnetlink::{AddressMessageBuilder, Handle, RouteMessageBuilder};
use tun_rs::{AsyncDevice, DeviceBuilder};

use crate::failure::Failure;
use offload::Batches;

/// The default name: `clearway0` if it is free.
pub(crate) const NAME: &str = "clearway%d";

/// The default MTU of a device in bytes: IPv6's minimum MTU, which every tunnel must support (RFC
/// 9484 §7.1).
pub(crate) const MTU: u16 = 1280;

/// The error number of "File exists" (EEXIST).
const EXISTS: i32 = 17;

/// A TUN device. The kernel removes it, with its addresses and routes, when this is dropped.
pub(crate) struct Tun {
    device: AsyncDevice,
    batches: Batches,
    name: String,
    index: u32,
    netlink: Handle,
}

/// A route to one host that bypasses the TUN device, used for the tunnel's own packets to the
/// proxy.
pub(crate) struct Detour {
    netlink: Handle,
    route: RouteMessage,
}

impl Tun {
    /// Creates a device, which is up but has neither addresses nor routes. `%d` in the name is
    /// replaced by a number.
    pub(crate) async fn open(name: &str, mtu: u16) -> Result<Self, Failure> {
        let builder = DeviceBuilder::new().name(name).mtu(mtu).enable(true);
        let device = builder.with(|options| _ = options.offload(true)).build_async();
        let device = device.map_err(|error| cannot_open(name, &error))?;
        let opened = |error| cannot_open(name, &error);
        let index = device.if_index().map_err(opened)?;
        let name = device.name().map_err(opened)?;
        let (connection, netlink, _) =
            rtnetlink::new_connection().map_err(|error| cannot_open(&name, &error))?;
        tokio::spawn(connection);
        Ok(Self { device, batches: Batches::new(mtu), name, index, netlink })
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the MTU in bytes.
    pub(crate) fn set_mtu(&self, mtu: u16) -> Result<(), Failure> {
        self.device.set_mtu(mtu).map_err(|error| {
            Failure::new(format!("cannot set the MTU of {} to {mtu}: {error}", self.name))
        })
    }

    /// Adds an address.
    pub(crate) async fn add_address(&self, address: IpNet) -> Result<(), Failure> {
        let added = self.netlink.address().add(self.index, address.addr(), address.prefix_len());
        added
            .replace()
            .execute()
            .await
            .map_err(|error| self.cannot("add the address", address, &error))
    }

    /// Removes an address.
    pub(crate) async fn remove_address(&self, address: IpNet) -> Result<(), Failure> {
        let removed = self.netlink.address().del(self.address(address));
        removed.execute().await.map_err(|error| self.cannot("remove the address", address, &error))
    }

    fn address(&self, address: IpNet) -> AddressMessage {
        match address {
            IpNet::V4(it) => AddressMessageBuilder::<Ipv4Addr>::new()
                .index(self.index)
                .address(it.addr(), it.prefix_len())
                .build(),
            IpNet::V6(it) => AddressMessageBuilder::<Ipv6Addr>::new()
                .index(self.index)
                .address(it.addr(), it.prefix_len())
                .build(),
        }
    }

    /// Routes a prefix to this device.
    pub(crate) async fn add_route(&self, prefix: IpNet) -> Result<(), Failure> {
        let cannot = |error: &dyn std::fmt::Display| self.cannot("add the route", prefix, error);
        let route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(prefix.addr(), prefix.prefix_len())
            .map_err(|error| cannot(&error))?
            .output_interface(self.index)
            .build();
        match self.netlink.route().add(route).execute().await {
            Ok(()) => Ok(()),
            Err(error) if is_existing(&error) => {
                Err(cannot(&"there is one already").advise("remove it, or use another prefix"))
            }
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Returns the addresses of this host at the moment, except those of loopback.
    pub(crate) async fn host_addresses(&self) -> Result<Vec<IpAddr>, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot list the addresses of this host: {error}"))
        };
        let mut found = Vec::new();
        let mut listed = self.netlink.address().get().execute();
        while let Some(message) = listed.try_next().await.map_err(|error| cannot(&error))? {
            let local = |attribute: &AddressAttribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            };
            let other = |attribute: &AddressAttribute| match attribute {
                // Point-to-point interfaces have the peer's address here, and their own above.
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            };
            let attributes = &message.attributes;
            let address = attributes.iter().find_map(local);
            found.extend(address.or_else(|| attributes.iter().find_map(other)));
        }
        found.retain(|address| !address.is_loopback());
        Ok(found)
    }

    /// Adds a route to the host `address` over its current interface and gateway. Returns `None` if
    /// there is such a route already, or the address belongs to this host.
    pub(crate) async fn keep_reachable(&self, address: IpAddr) -> Result<Option<Detour>, Failure> {
        let host = IpNet::from(address);
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot find the route to the proxy at {address}: {error}"))
        };
        let destination = || {
            RouteMessageBuilder::<IpAddr>::new()
                .destination_prefix(address, host.prefix_len())
                .map_err(|error| cannot(&error))
        };
        let mut found = self.netlink.route().get(destination()?.build()).execute();
        let current = found.try_next().await.map_err(|error| cannot(&error))?;
        let current = current.ok_or_else(|| cannot(&"there is none"))?;
        if current.header.kind == RouteType::Local {
            return Ok(None);
        }
        let mut route = destination()?.build();
        let mut has_gateway = false;
        for attribute in current.attributes {
            match attribute {
                RouteAttribute::Gateway(gateway) => {
                    has_gateway = true;
                    route.attributes.push(RouteAttribute::Gateway(gateway));
                }
                RouteAttribute::Oif(index) => route.attributes.push(RouteAttribute::Oif(index)),
                _ => {}
            }
        }
        if !has_gateway && address.is_ipv4() {
            route.header.scope = RouteScope::Link;
        }
        match self.netlink.route().add(route.clone()).execute().await {
            Ok(()) => Ok(Some(Detour { netlink: self.netlink.clone(), route })),
            Err(error) if is_existing(&error) => Ok(None),
            Err(error) => {
                Err(Failure::new(format!("cannot keep the proxy at {address} reachable: {error}")))
            }
        }
    }

    fn cannot(&self, what: &str, prefix: IpNet, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("cannot {what} {prefix} of {}: {error}", self.name))
    }
}

impl Detour {
    /// Removes the route.
    pub(crate) async fn remove(self) -> Result<(), Failure> {
        let removed = self.netlink.route().del(self.route).execute().await;
        removed.map_err(|error| Failure::new(format!("cannot remove the proxy's route: {error}")))
    }
}

impl IpDevice for Tun {
    fn poll_receive(&self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            if let Some(packet) = self.batches.next() {
                return Poll::Ready(Ok(packet));
            }
            ready!(self.device.poll_readable(context))?;
            match self.batches.read(&self.device) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {}
            }
        }
    }

    fn try_send(&self, packet: &[u8]) -> io::Result<()> {
        if packet.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.batches.queue(&self.device, packet);
        Ok(())
    }

    fn flush(&self) {
        self.batches.flush(&self.device);
    }
}

fn is_existing(error: &rtnetlink::Error) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(error) if error.raw_code() == -EXISTS)
}

/// Explains why a device cannot be created.
fn cannot_open(name: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot create the TUN device {name}: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied => failure.advise(
            "run as root, or grant the capability CAP_NET_ADMIN (setcap cap_net_admin+ep on the \
             program, or AmbientCapabilities=CAP_NET_ADMIN in a systemd unit)",
        ),
        io::ErrorKind::NotFound => {
            failure.advise("load the kernel module tun, or give the container /dev/net/tun")
        }
        io::ErrorKind::ResourceBusy => failure.advise("choose another name with --tun"),
        _ => failure,
    }
}
