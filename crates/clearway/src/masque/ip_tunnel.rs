//! The client's end of an IP tunnel.

use core::fmt;
use core::future::poll_fn;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use clearway_masque::context::Side;
use clearway_masque::ip::{
    self, AssignedAddress, CapsuleFault, IpReceived, IpStatistics, OwnAddresses, RequestedAddress,
    Routes,
};
use clearway_masque::target::{IpScope, Values};
use clearway_masque::template::UriTemplate;
use clearway_units::Timestamp;
use http::HeaderMap;
use ipnet::IpNet;
use tokio::time::Instant;

use super::TunnelError;
use super::ip_end::IpEnd;
use super::opening::{self, Opened};
use crate::http3::{Client, Code};

pub use clearway_masque::ip::Origin;

/// The source addresses of ICMP errors from a client to its own host, which may have no address
/// yet: the IPv4 dummy address (RFC 7600 §4.8), and a link-local IPv6 address.
const REPORTING: OwnAddresses = OwnAddresses {
    v4: Some(Ipv4Addr::new(192, 0, 0, 8)),
    v6: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
};

/// Maximum number of ignored datagrams to process before yielding to other tasks.
const BATCH: usize = 64;

/// An IP tunnel through a proxy (RFC 9484).
///
/// After the request, the tunnel has neither addresses nor routes: call
/// [`request_addresses`](Self::request_addresses), and [receive](Self::receive) until the proxy has
/// assigned addresses and advertised routes. Packets whose source is not an assigned address, or whose
/// destination is in no route, are dropped in both directions.
///
/// Packets may be lost, reordered and dropped. The tunnel is closed when this is dropped.
///
/// ```no_run
/// use clearway::http3::Client;
/// use clearway::masque::{IpEvent, TunnelKind, UriTemplate, target::IpScope};
///
/// # async fn tunnel(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
/// let template = UriTemplate::well_known(TunnelKind::Ip, "proxy.example".parse()?);
/// let fields = http::HeaderMap::new();
/// let mut tunnel = client.connect_ip(&template, &IpScope::ANY, fields).await?;
/// tunnel.request_addresses(&["0.0.0.0/32".parse()?, "::/128".parse()?])?;
/// while let Some(event) = tunnel.receive().await? {
///     match event {
///         IpEvent::Packet(packet) => println!("a packet of {} bytes", packet.len()),
///         IpEvent::Assigned(addresses) => println!("our addresses: {addresses:?}"),
///         IpEvent::Routes(routes) => println!("the proxy routes {routes:?}"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct IpTunnel {
    end: IpEnd,
}

/// An event of an IP tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IpEvent {
    /// An IP packet for this host.
    Packet(Bytes),
    /// The addresses that the proxy has assigned, which replace all earlier ones. A
    /// [rejection](AssignedAddress::is_rejection) answers a request for which there is no address.
    Assigned(Vec<AssignedAddress>),
    /// The proxy requests addresses: answer with [`IpTunnel::assign_addresses`].
    Requested(Vec<RequestedAddress>),
    /// The routes that the proxy advertises, which replace all earlier ones.
    Routes(Routes),
}

impl Client {
    /// Opens an IP tunnel through the server of this connection, which is a proxy with the URI
    /// template `template` (RFC 9484 §3). `scope` limits what the tunnel may carry; `fields` are
    /// additional header fields, such as `authorization`.
    ///
    /// # Errors
    /// Fails if the proxy does not support tunnels, or refuses this one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request is canceled.
    pub async fn connect_ip(
        &self,
        template: &UriTemplate,
        scope: &IpScope,
        fields: HeaderMap,
    ) -> Result<IpTunnel, TunnelError> {
        let values = Values::Scope(scope.clone());
        let Opened { send, body, datagrams } =
            opening::extended(self, template, &values, fields).await?;
        let flow = ip::IpTunnel::new(Side::Client, scope.protocol, REPORTING, Timestamp::ORIGIN);
        Ok(IpTunnel { end: IpEnd::new(flow, datagrams, send, body, Instant::now()) })
    }
}

impl IpTunnel {
    /// Requests addresses (RFC 9484 §4.7.2). An unspecified address stands for any address:
    /// `0.0.0.0/32` and `::/128` request one of each IP version. The answer is an
    /// [`IpEvent::Assigned`].
    ///
    /// # Errors
    /// [`TunnelError::TooManyAddresses`] if `prefixes` is empty or has more than 256 entries. Other
    /// errors mean that the tunnel has ended.
    pub fn request_addresses(&mut self, prefixes: &[IpNet]) -> Result<(), TunnelError> {
        let capsule = self.end.flow.request(prefixes).ok_or(TunnelError::TooManyAddresses)?;
        self.end.send_control(capsule)
    }

    /// Assigns addresses to the proxy, in addition to earlier ones (RFC 9484 §4.7.1).
    ///
    /// # Errors
    /// [`TunnelError::TooManyAddresses`] if more than 256 addresses would be assigned. Other errors
    /// mean that the tunnel has ended.
    pub fn assign_addresses(&mut self, addresses: &[AssignedAddress]) -> Result<(), TunnelError> {
        let capsule = self.end.flow.assign(addresses);
        let capsule = capsule.map_err(|_: CapsuleFault| TunnelError::TooManyAddresses)?;
        self.end.send_control(capsule)
    }

    /// Replaces the routes that this client advertises, to networks behind it (RFC 9484 §4.7.3). A
    /// proxy may ignore them.
    ///
    /// # Errors
    /// An error means that the tunnel has ended.
    pub fn advertise_routes(&mut self, routes: Routes) -> Result<(), TunnelError> {
        let capsule = self.end.flow.advertise(routes);
        self.end.send_control(capsule)
    }

    /// Returns the addresses that the proxy has assigned.
    pub fn addresses(&self) -> &[IpNet] {
        self.end.flow.our_addresses()
    }

    /// Returns the routes that the proxy has advertised.
    pub fn routes(&self) -> &Routes {
        self.end.flow.peer_routes()
    }

    /// Sends an IP packet. A kernel that passes packets to a TUN device is their router: its packets
    /// have the origin [`Origin::Local`].
    ///
    /// Returns an ICMP message for the packet's source if the packet was dropped: it is longer than
    /// [`max_packet`](Self::max_packet), or the proxy does not route it. Packets that cannot be sent
    /// in time are dropped, the oldest first.
    ///
    /// # Errors
    /// An error means that the tunnel has ended, for example because an IPv6 packet of 1280 bytes
    /// does not fit (RFC 9484 §7.1).
    pub fn send(&mut self, packet: &[u8], origin: Origin) -> Result<Option<Vec<u8>>, TunnelError> {
        let reply = self.queue(packet, origin)?;
        self.flush()?;
        Ok(reply)
    }

    /// Queues an IP packet, until [`flush`](Self::flush) is called or 64 packets are queued. The rest
    /// is as for [`send`](Self::send), which takes more CPU time.
    ///
    /// # Errors
    /// An error means that the tunnel has ended, as for [`send`](Self::send).
    pub fn queue(&mut self, packet: &[u8], origin: Origin) -> Result<Option<Vec<u8>>, TunnelError> {
        self.end.queue_packet(packet, origin)
    }

    /// Sends the queued packets.
    ///
    /// # Errors
    /// An error means that the tunnel has ended.
    pub fn flush(&mut self) -> Result<(), TunnelError> {
        self.end.flush()
    }

    /// Returns the longest IP packet that can be sent now, in bytes: the MTU of the tunnel. `None`
    /// means that the path to the proxy sets no limit. The MTU changes with that of the path.
    pub fn max_packet(&self) -> Option<usize> {
        self.end.max_packet()
    }

    /// Waits for the next event. Returns `None` when the proxy has closed the tunnel.
    ///
    /// # Errors
    /// Fails if the tunnel or the connection to the proxy has failed.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn receive(&mut self) -> Result<Option<IpEvent>, TunnelError> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// Polls for the next event, like [`receive`](Self::receive).
    ///
    /// # Errors
    /// Fails if the tunnel or the connection to the proxy has failed.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<IpEvent>, TunnelError>> {
        for _ in 0..BATCH {
            let Some(received) = ready!(self.end.poll_receive(context))? else {
                return Poll::Ready(Ok(None));
            };
            let event = match received {
                IpReceived::Forward(packet) => IpEvent::Packet(packet),
                IpReceived::Assigned(addresses) => IpEvent::Assigned(addresses),
                IpReceived::Requested(requests) => IpEvent::Requested(requests),
                IpReceived::RoutesChanged => IpEvent::Routes(self.routes().clone()),
                IpReceived::Reply { .. }
                | IpReceived::Extension(_)
                | IpReceived::Ignored(_)
                | IpReceived::Abort(_) => continue,
            };
            return Poll::Ready(Ok(Some(event)));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Returns the statistics of the tunnel.
    pub fn statistics(&self) -> &IpStatistics {
        self.end.flow.statistics()
    }

    /// Closes the tunnel: the proxy releases its addresses.
    pub fn close(mut self) {
        self.end.reset(Code::NO_ERROR);
    }
}

impl fmt::Debug for IpTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IpTunnel")
            .field("addresses", &self.addresses())
            .field("statistics", self.statistics())
            .finish_non_exhaustive()
    }
}
