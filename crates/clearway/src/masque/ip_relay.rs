//! The proxy's end of an IP tunnel.

use core::future::{Future, poll_fn};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::pin::pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use bytes::Bytes;
use clearway_masque::context::Side;
use clearway_masque::ip::{
    AssignedAddress, IpDropReason, IpHeader, IpReceived, IpStatistics, IpTunnel, Origin,
    OwnAddresses, RequestedAddress, Routes,
};
use clearway_masque::request::{self, Form};
use clearway_units::Timestamp;
use tokio::time::Instant;

use super::batches::BATCH;
use super::device::IpDevice;
use super::ip_end::IpEnd;
use super::turns::{Turn, poll_turns};
use super::{RelayEnd, TunnelError};
use crate::http3::{Code, RecvBody, Responder};

/// Time after which addresses are assigned to a client that has not requested any.
const UNREQUESTED_AFTER: Duration = Duration::from_millis(300);

/// Relay settings for one IP tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct IpRelayOptions {
    /// The Internet Protocol Number in the scope of the request; `None` for all.
    pub protocol: Option<u8>,
    /// The addresses of the proxy in the tunnel, from which it answers echo requests and reports
    /// errors by ICMP.
    pub own: OwnAddresses,
    /// The routes to advertise to the client ([`Routes::for_scope`]).
    pub routes: Routes,
    /// The origin of packets from the device: [`Origin::Local`] if it belongs to a kernel that routes
    /// and has decremented the hop limit, and [`Origin::Forwarded`] if the relay is the router.
    pub origin: Origin,
    /// Whether to assign addresses to a client that does not request any soon after the tunnel is
    /// opened.
    pub assigns_unrequested: bool,
}

impl IpRelayOptions {
    /// Creates settings for a TUN device.
    pub const fn new(protocol: Option<u8>, own: OwnAddresses, routes: Routes) -> Self {
        Self { protocol, own, routes, origin: Origin::Local, assigns_unrequested: true }
    }
}

/// What to do with a packet from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Pass the packet to the device.
    Pass,
    /// Drop the packet silently, because of a bandwidth limit.
    Drop,
    /// Drop the packet, and report to the client by ICMP that it is administratively prohibited.
    Prohibit,
}

/// A proxy's policy for one IP tunnel.
pub trait IpRules: Send {
    /// Answers a request for an address (RFC 9484 §4.7.2), and makes the device receive packets for
    /// it. An unspecified address in the request stands for any address.
    fn assign(&mut self, request: &RequestedAddress) -> AssignedAddress;

    /// Returns what to do with a packet of `length` bytes from the client. The packet has passed
    /// the checks of RFC 9484 §7.2.
    fn check(&mut self, destination: IpAddr, length: usize) -> Verdict;

    /// Returns whether a packet of `length` bytes may be sent to the client.
    fn permits(&mut self, length: usize) -> bool;
}

/// Accepts an IP tunnel, and relays between it and `device` until it ends (RFC 9484).
///
/// Routes and addresses that the client offers are ignored: its packets need a source address that
/// `rules` has assigned.
///
/// # Cancel safety
/// If the future is dropped, the tunnel is reset.
pub async fn relay_ip(
    body: RecvBody,
    responder: Responder,
    device: impl IpDevice,
    options: IpRelayOptions,
    rules: impl IpRules,
) -> (IpStatistics, RelayEnd) {
    relay_ip_observed(body, responder, device, options, rules, |_| {}).await
}

/// Relays like [`relay_ip`], and calls `observe` whenever packets may have been relayed or dropped.
pub(super) async fn relay_ip_observed(
    body: RecvBody,
    responder: Responder,
    device: impl IpDevice,
    options: IpRelayOptions,
    rules: impl IpRules,
    observe: impl FnMut(&IpStatistics),
) -> (IpStatistics, RelayEnd) {
    let datagrams = responder.datagrams();
    let send = responder.start(request::accept(Form::Extended));
    let flow = IpTunnel::new(Side::Proxy, options.protocol, options.own, Timestamp::ORIGIN);
    let mut relay = Relay {
        end: IpEnd::new(flow, datagrams, send, body, Instant::now()),
        device,
        rules,
        origin: options.origin,
        awaits_request: options.assigns_unrequested,
        device_dropped: 0,
    };
    let capsule = relay.end.flow.advertise(options.routes);
    let end = match relay.end.send_control(capsule) {
        Ok(()) => relay.run(observe).await,
        Err(error) => RelayEnd::Tunnel(error),
    };
    let Relay { end: mut exchange, device, rules, .. } = relay;
    // The addresses are free at once, not only when the client has acknowledged the end.
    drop((device, rules));
    let statistics = exchange.flow.statistics().clone();
    match &end {
        RelayEnd::Closed | RelayEnd::Idle => exchange.finish().await,
        RelayEnd::Tunnel(_) | RelayEnd::Socket(_) | RelayEnd::Device(_) => {
            exchange.reset(Code::CONNECT_ERROR);
        }
    }
    (statistics, end)
}

struct Relay<D, R> {
    end: IpEnd,
    device: D,
    rules: R,
    origin: Origin,
    /// Whether addresses are assigned if the client does not request any.
    awaits_request: bool,
    /// Number of packets that the device has dropped, as counted so far.
    device_dropped: u64,
}

impl<D: IpDevice, R: IpRules> Relay<D, R> {
    async fn run(&mut self, mut observe: impl FnMut(&IpStatistics)) -> RelayEnd {
        let mut unrequested = pin!(tokio::time::sleep(UNREQUESTED_AFTER));
        poll_fn(|context| {
            if self.awaits_request && unrequested.as_mut().poll(context).is_ready() {
                self.awaits_request = false;
                if let Err(error) = self.assign(&UNREQUESTED) {
                    return Poll::Ready(RelayEnd::Tunnel(error));
                }
            }
            let turns = poll_turns(context, |context| {
                [self.poll_to_device(context), self.poll_to_client(context)]
            });
            self.count_dropped();
            observe(self.end.flow.statistics());
            turns
        })
        .await
    }

    /// Counts the packets that the device and the exchange with the client have dropped.
    fn count_dropped(&mut self) {
        let dropped = self.device.dropped();
        let new = dropped.saturating_sub(self.device_dropped);
        self.device_dropped = dropped;
        self.end.flow.discard(new, IpDropReason::QueueFull);
        self.end.count_dropped();
    }

    /// Relays a bounded number of packets to the device.
    fn poll_to_device(&mut self, context: &mut Context<'_>) -> Turn {
        let turn = self.poll_client(context);
        self.device.flush();
        turn
    }

    /// Passes a bounded number of packets from the client to the device.
    fn poll_client(&mut self, context: &mut Context<'_>) -> Turn {
        for _ in 0..BATCH {
            let received = match ready!(self.end.poll_receive(context)) {
                Ok(Some(received)) => received,
                Ok(None) => return Poll::Ready(Err(RelayEnd::Closed)),
                Err(error) => return Poll::Ready(Err(RelayEnd::Tunnel(error))),
            };
            self.process(received).map_err(RelayEnd::Tunnel)?;
        }
        Poll::Ready(Ok(()))
    }

    fn process(&mut self, received: IpReceived) -> Result<(), TunnelError> {
        match received {
            IpReceived::Forward(packet) => self.forward(&packet),
            IpReceived::Requested(requests) => {
                self.awaits_request = false;
                self.assign(&requests)
            }
            IpReceived::RoutesChanged => {
                self.end.flow.discard_peer_routes();
                Ok(())
            }
            IpReceived::Assigned(_) => {
                self.end.flow.discard_our_addresses();
                Ok(())
            }
            IpReceived::Reply { .. }
            | IpReceived::Extension(_)
            | IpReceived::Ignored(_)
            | IpReceived::Abort(_) => Ok(()),
        }
    }

    fn forward(&mut self, packet: &Bytes) -> Result<(), TunnelError> {
        // The state machine has parsed it before.
        let Ok(IpHeader { destination, .. }) = IpHeader::parse(packet) else { return Ok(()) };
        let now = self.end.now();
        if self.end.flow.is_own(destination) {
            return match self.end.flow.own_echo(packet, now) {
                Some(reply) => self.end.queue_datagram(reply),
                None => Ok(()),
            };
        }
        match self.rules.check(destination, packet.len()) {
            Verdict::Pass => {
                // Dropped if the device has no room, as in a network.
                if self.device.try_send(packet).is_err() {
                    self.end.flow.discard_received(packet.len(), IpDropReason::NotSent);
                }
                Ok(())
            }
            Verdict::Drop => {
                self.end.flow.discard_received(packet.len(), IpDropReason::Bandwidth);
                Ok(())
            }
            Verdict::Prohibit => match self.end.flow.prohibit(packet, now) {
                Some(reply) => self.end.queue_datagram(reply),
                None => Ok(()),
            },
        }
    }

    /// Answers requests for addresses.
    fn assign(&mut self, requests: &[RequestedAddress]) -> Result<(), TunnelError> {
        let answers = requests.iter().map(|request| self.rules.assign(request));
        // A rejection answers a request; without one, there is nothing to reject.
        let answers: Vec<AssignedAddress> =
            answers.filter(|it| it.request_id != 0 || !it.is_rejection()).collect();
        if answers.is_empty() {
            return Ok(());
        }
        let capsule = self.end.flow.assign(&answers);
        self.end.send_control(capsule.map_err(|_| TunnelError::TooManyAddresses)?)
    }

    /// Relays a bounded number of packets to the client.
    fn poll_to_client(&mut self, context: &mut Context<'_>) -> Turn {
        let turn = self.poll_device(context);
        match self.end.flush() {
            Ok(()) => turn,
            Err(error) => Poll::Ready(Err(RelayEnd::Tunnel(error))),
        }
    }

    /// Queues a bounded number of packets for the client.
    fn poll_device(&mut self, context: &mut Context<'_>) -> Turn {
        for _ in 0..BATCH {
            let packet = ready!(self.device.poll_receive(context)).map_err(RelayEnd::Device)?;
            if !self.rules.permits(packet.len()) {
                self.end.flow.discard(1, IpDropReason::Bandwidth);
                continue;
            }
            let reply = self.end.queue_packet(&packet, self.origin).map_err(RelayEnd::Tunnel)?;
            if let Some(reply) = reply {
                let _ = self.device.try_send(&reply);
                self.device.flush();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The assumed requests of a client that has not sent any: any address of each IP version.
const UNREQUESTED: [RequestedAddress; 2] = [
    RequestedAddress {
        request_id: 0,
        prefix: ipnet::IpNet::V4(ipnet::Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 32)),
    },
    RequestedAddress {
        request_id: 0,
        prefix: ipnet::IpNet::V6(ipnet::Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 128)),
    },
];
