//! The environment in which endpoints run: two network namespaces, or loopback addresses if
//! namespaces cannot be created.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use clearway_namespaces::{Namespace, ip};
use tappers::{Interface, Tun};

use crate::catalogue::{Check, Host, Test};
use crate::network::Network;
use crate::relay::{ClientSide, Relay, ServerSide, Wire};

/// The port of servers that run in a namespace.
const PORT: u16 = 443;
/// The addresses of client and server. The networks are those of the public runner.
const CLIENT_V4: Ipv4Addr = Ipv4Addr::new(193, 167, 0, 100);
const SERVER_V4: Ipv4Addr = Ipv4Addr::new(193, 167, 100, 100);
/// The preferred address to which the server may refer clients.
const PREFERRED_V4: Ipv4Addr = Ipv4Addr::new(193, 167, 100, 101);
const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xcafe, 0xcafe, 0, 0, 0, 0, 0x100);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xcafe, 0xcafe, 0x100, 0, 0, 0, 0x100);
/// Length of the IP and UDP headers.
const V4_HEADERS: u16 = 20 + 8;
const V6_HEADERS: u16 = 40 + 8;
/// MTU of the network devices.
const MTU: usize = 1500;
const DEVICE: &str = "link0";

/// Held while a device is created and named, so that only one is created at a time.
static MAKING: Mutex<()> = Mutex::new(());

/// How the endpoints are isolated from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Namespaces,
    Loopback,
}

impl Kind {
    /// Returns the available kind of isolation. The error says why namespaces are not available.
    pub(crate) fn detect() -> Result<Self, String> {
        let attempt = || -> io::Result<()> {
            let namespace = Namespace::create()?;
            device(&namespace, &[CLIENT_V4], CLIENT_V6).map(drop)
        };
        match attempt() {
            Ok(()) => Ok(Self::Namespaces),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the reason if a test cannot be run in this environment.
    pub(crate) fn leaves_out(self, test: &Test) -> Option<&'static str> {
        if self == Self::Namespaces {
            return None;
        }
        match (test.check, test.network) {
            (Check::Ecn, _) => Some("the loopback relay does not forward the ECN field"),
            (Check::ConnectionMigration, _) => {
                Some("the server has only one address on the loopback")
            }
            (_, Network::CrossTraffic) => Some("the loopback relay does not forward TCP"),
            _ => None,
        }
    }
}

/// The locations in which a client and a server run, and the network between them.
pub(crate) struct Environment {
    /// The namespaces of client and server; `None` on loopback.
    namespaces: Option<[Namespace; 2]>,
    /// The two sides of the relay, until it starts.
    wires: Option<(Wire, Wire)>,
    /// The address that the server listens on.
    pub(crate) listen: SocketAddr,
    /// The address that the client connects to.
    pub(crate) connect: SocketAddr,
    /// The server's preferred address, to which clients may migrate.
    pub(crate) preferred: Option<SocketAddr>,
    overhead: u16,
}

/// The location of the client or of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Client,
    Server,
}

impl Environment {
    pub(crate) fn create(kind: Kind, host: Host) -> io::Result<Self> {
        match kind {
            Kind::Namespaces => Self::in_namespaces(host),
            Kind::Loopback => Self::on_loopback(host),
        }
    }

    fn in_namespaces(host: Host) -> io::Result<Self> {
        let (client, server) = (Namespace::create()?, Namespace::create()?);
        let wires = (
            Wire::Device(device(&client, &[CLIENT_V4], CLIENT_V6)?),
            Wire::Device(device(&server, &[SERVER_V4, PREFERRED_V4], SERVER_V6)?),
        );
        let connect: IpAddr = match host {
            Host::V4 | Host::V46 => SERVER_V4.into(),
            Host::V6 => SERVER_V6.into(),
        };
        let any: IpAddr = match host {
            Host::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Host::V6 | Host::V46 => Ipv6Addr::UNSPECIFIED.into(),
        };
        Ok(Self {
            namespaces: Some([client, server]),
            wires: Some(wires),
            listen: SocketAddr::new(any, PORT),
            connect: SocketAddr::new(connect, PORT),
            preferred: (host == Host::V46).then_some(SocketAddr::new(PREFERRED_V4.into(), PORT)),
            overhead: if host == Host::V6 { V6_HEADERS } else { V4_HEADERS },
        })
    }

    /// Creates an environment with loopback addresses. The server listens on any free port, which
    /// must be passed to [`listens_at`](Self::listens_at).
    fn on_loopback(host: Host) -> io::Result<Self> {
        let (client_ip, server_ip, local): (IpAddr, IpAddr, IpAddr) = match host {
            Host::V6 => (CLIENT_V6.into(), SERVER_V6.into(), Ipv6Addr::LOCALHOST.into()),
            Host::V4 | Host::V46 => {
                (CLIENT_V4.into(), SERVER_V4.into(), Ipv4Addr::LOCALHOST.into())
            }
        };
        let server = SocketAddr::new(server_ip, PORT);
        let side = ClientSide::bind(client_ip, server)?;
        let connect = side.address()?;
        let listen = SocketAddr::new(local, 0);
        let wires = (Wire::Client(side), Wire::Server(ServerSide::new(listen, server)));
        Ok(Self {
            namespaces: None,
            wires: Some(wires),
            listen,
            connect,
            preferred: None,
            overhead: if host == Host::V6 { V6_HEADERS } else { V4_HEADERS },
        })
    }

    /// Sets the server's address in the relay, if the server has chosen its own port.
    pub(crate) fn listens_at(&mut self, address: SocketAddr) {
        if let Some((_, Wire::Server(side))) = &mut self.wires {
            side.set_target(address);
        }
    }

    /// Starts the network, with captures in `folder`.
    pub(crate) fn start(
        &mut self,
        network: Network,
        seed: u64,
        folder: &Path,
    ) -> io::Result<Relay> {
        let wires =
            self.wires.take().ok_or_else(|| io::Error::other("the relay is already running"))?;
        Relay::start(wires, network.link(self.overhead, seed), folder)
    }

    /// Runs `action` on a thread in one of the locations.
    pub(crate) fn at<T: Send>(
        &self,
        place: Place,
        action: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        match &self.namespaces {
            Some([client, _]) if place == Place::Client => client.run(action),
            Some([_, server]) => server.run(action),
            None => Ok(action()),
        }
    }
}

/// Returns whether an address in a capture belongs to the server.
pub(crate) fn is_server(address: &SocketAddr) -> bool {
    [SERVER_V4, PREFERRED_V4].iter().any(|ip| address.ip() == *ip) || address.ip() == SERVER_V6
}

/// Creates a device with these addresses in the namespace, through which all traffic is routed.
fn device(namespace: &Namespace, v4: &[Ipv4Addr], v6: Ipv6Addr) -> io::Result<Tun> {
    let _making = MAKING.lock();
    namespace.run(move || {
        let mut device = Tun::new_named(Interface::new(DEVICE)?)?;
        device.set_nonblocking(true)?;
        let mtu = MTU.to_string();
        let v6 = format!("{v6}/64");
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["link", "set", DEVICE, "mtu", &mtu, "up"],
            // Duplicate address detection is disabled, because it would delay the use of the
            // address.
            &["addr", "add", &v6, "dev", DEVICE, "nodad"],
            &["route", "add", "default", "dev", DEVICE],
            &["-6", "route", "add", "default", "dev", DEVICE],
        ] {
            ip(arguments)?;
        }
        for v4 in v4 {
            ip(&["addr", "add", &format!("{v4}/24"), "dev", DEVICE])?;
        }
        Ok(device)
    })?
}
