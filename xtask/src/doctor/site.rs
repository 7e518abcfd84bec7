//! The network of a fault: a sending host and a receiving host, connected by a pair of virtual
//! devices or by a router. The namespaces are unnamed, and nothing in them is visible outside.

use std::io;
use std::net::Ipv4Addr;

use clearway_namespaces::{Namespace, ip};

/// The name of the device on the sender and on the receiver.
pub(super) const DEVICE: &str = "eth0";
/// The router's devices, facing the sender and the receiver.
pub(super) const ROUTER_DEVICES: [&str; 2] = ["eth1", "eth2"];
/// The address of the sender.
pub(crate) const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The receiver's address if it is the sender's neighbor.
pub(crate) const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The receiver's address if it is behind a router.
pub(super) const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const ROUTER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 0, 1, 254)];

/// The host in the network that the doctor observes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Sender,
    Router,
    Receiver,
}

/// The hosts of the network.
pub(crate) struct Site {
    pub(crate) sender: Namespace,
    router: Option<Namespace>,
    pub(crate) receiver: Namespace,
    /// The receiver's address.
    pub(super) address: Ipv4Addr,
}

impl Site {
    /// Creates a network in which the receiver is the sender's neighbor.
    pub(crate) fn direct() -> io::Result<Self> {
        let (sender, receiver) = (Namespace::create()?, Namespace::create()?);
        join((&sender, DEVICE), (&receiver, DEVICE))?;
        sender.run(|| start(DEVICE, SENDER))??;
        receiver.run(|| start(DEVICE, NEIGHBOUR))??;
        Ok(Self { sender, router: None, receiver, address: NEIGHBOUR })
    }

    /// Creates a network in which the receiver is behind a router.
    pub(super) fn routed() -> io::Result<Self> {
        let (sender, router) = (Namespace::create()?, Namespace::create()?);
        let receiver = Namespace::create()?;
        join((&sender, DEVICE), (&router, ROUTER_DEVICES[0]))?;
        join((&router, ROUTER_DEVICES[1]), (&receiver, DEVICE))?;
        router.run(|| {
            start(ROUTER_DEVICES[0], ROUTER[0])?;
            start(ROUTER_DEVICES[1], ROUTER[1])?;
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        })??;
        for (host, address, router) in
            [(&sender, SENDER, ROUTER[0]), (&receiver, BEHIND, ROUTER[1])]
        {
            host.run(|| {
                start(DEVICE, address)?;
                ip(&["route", "add", "default", "via", &router.to_string()])
            })??;
        }
        Ok(Self { sender, router: Some(router), receiver, address: BEHIND })
    }

    /// Returns the host at this place, if there is one.
    pub(super) fn at(&self, place: Place) -> Option<&Namespace> {
        match place {
            Place::Sender => Some(&self.sender),
            Place::Router => self.router.as_ref(),
            Place::Receiver => Some(&self.receiver),
        }
    }
}

impl Site {
    /// Returns a neighbor of the host at this place, the neighbor's address, and the host's address
    /// on that link.
    pub(super) fn neighbor_of(&self, place: Place) -> Option<(&Namespace, Ipv4Addr, Ipv4Addr)> {
        Some(match (place, &self.router) {
            (Place::Receiver, None) => (&self.sender, SENDER, NEIGHBOUR),
            (Place::Sender, None) => (&self.receiver, NEIGHBOUR, SENDER),
            (Place::Receiver, Some(router)) => (router, ROUTER[1], BEHIND),
            (Place::Sender, Some(router)) => (router, ROUTER[0], SENDER),
            (Place::Router, Some(_)) => (&self.sender, SENDER, ROUTER[0]),
            (Place::Router, None) => return None,
        })
    }
}

/// Creates a pair of connected devices, one in each namespace.
fn join(here: (&Namespace, &str), there: (&Namespace, &str)) -> io::Result<()> {
    let process = there.0.process().to_string();
    let peer = ["peer", "name", there.1, "netns", &process];
    here.0.run(|| ip(&[&["link", "add", here.1, "type", "veth"][..], &peer].concat()))?
}

/// Assigns an address to a device, and brings up the device and the loopback device.
fn start(device: &str, address: Ipv4Addr) -> io::Result<()> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["addr", "add", &format!("{address}/24"), "dev", device])?;
    ip(&["link", "set", device, "up"])
}
