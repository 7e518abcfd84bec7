//! `clearway tunnel`: the client of an IP tunnel (RFC 9484), with a TUN device.

mod host;

use std::future::poll_fn;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use clap::Args;
use clearway::TransportConfig;
use clearway::http3::Code;
use clearway::masque::target::IpScope;
use clearway::masque::{IpDevice, IpEvent, IpTunnel, Origin, TunnelError, TunnelKind};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::get::proxied::{Access, Connected};
use crate::interrupt::Interrupt;
use crate::log::LogOptions;
use crate::tun::Tun;
use host::Host;

/// Interval of keep-alive packets, which preserve the connection to the proxy and NAT bindings.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Interval at which the device's MTU is adjusted to the path's MTU.
const MTU_INTERVAL: Duration = Duration::from_secs(5);

/// Time limit for the proxy to assign addresses.
const ASSIGNMENT: Duration = Duration::from_secs(10);

/// Maximum number of rounds of relaying in both directions before the task yields.
const TURNS: usize = 16;

/// Maximum number of packets to relay in one direction before switching to the other.
const BATCH: usize = 64;

/// Send this host's IP packets through a proxy (CONNECT-IP, RFC 9484).
///
/// Creates a TUN device, and gives it the addresses that the proxy assigns: one of each IP version,
/// if the proxy has them. Packets for --route, or all with --default-route, pass through the proxy,
/// which forwards them. When interrupted (Ctrl-C,
/// SIGTERM), or when the proxy closes the tunnel, the device, its addresses and all routes are
/// removed. Requires root or the capability CAP_NET_ADMIN. Name servers are not changed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TunnelCommand {
    /// The proxy, such as https://proxy.example:443, or its URI template.
    ///
    /// A template with {target} and {ipproto} replaces the well-known one.
    #[arg(long, short_alias = 'x', value_name = "URL")]
    proxy: String,
    /// Trust only proxy certificate chains that end at a certificate in this PEM file.
    #[arg(long, value_name = "FILE")]
    proxy_ca: Option<PathBuf>,
    /// Dangerous: do not verify the proxy's certificate.
    #[arg(long, conflicts_with = "proxy_ca")]
    proxy_insecure: bool,
    /// Credentials for the proxy: NAME:PASSWORD or bearer:TOKEN.
    #[arg(long, short_alias = 'U', value_name = "NAME:PASSWORD")]
    proxy_user: Option<String>,
    /// Send packets for this prefix through the tunnel. May be repeated.
    #[arg(long, value_name = "PREFIX", required_unless_present = "default_route")]
    route: Vec<IpNet>,
    /// Send all packets through the tunnel, except those of the tunnel itself.
    ///
    /// Adds two routes of half the address space for each IP version, which precede the default
    /// route without replacing it, and a route to the proxy's address over the current gateway.
    #[arg(long)]
    default_route: bool,
    /// Name of the TUN device; %d is replaced by a number.
    #[arg(long, value_name = "NAME", default_value = crate::tun::NAME)]
    tun: String,
    /// MTU of the device in bytes, at least 1280.
    ///
    /// While the path to the proxy carries less, the MTU is smaller.
    #[arg(long, value_name = "BYTES", default_value_t = crate::tun::MTU,
        value_parser = clap::value_parser!(u16).range(1280..))]
    mtu: u16,
    #[command(flatten)]
    reports: LogOptions,
}

const AFTER_HELP: &str = "\
Examples:
  Reach a network behind a proxy:
    clearway tunnel --proxy https://proxy.example --proxy-user alice:secret --route 10.1.0.0/16
  Send everything through a proxy:
    clearway tunnel --proxy https://proxy.example --proxy-user alice:secret --default-route";

/// Runs the command.
pub(crate) async fn run(command: TunnelCommand) -> Result<(), Failure> {
    command.reports.start();
    let mut interrupt = Interrupt::listen()?;
    // First of all, since it fails without the permission.
    let tun = Tun::open(&command.tun, command.mtu).await?;
    let access = Access {
        url: &command.proxy,
        ca: command.proxy_ca.as_deref(),
        is_insecure: command.proxy_insecure,
        user: command.proxy_user.as_deref(),
    };
    let (connected, mut tunnel) = tokio::select! {
        opened = open(&access) => opened?,
        _ = interrupt.received() => return Ok(()),
    };
    let mut host = Host::new(tun, routes(&command), connected.address.ip(), command.mtu);
    let outcome = tokio::select! {
        outcome = session(&mut tunnel, &mut host, &connected.name) => outcome,
        _ = interrupt.received() => Ok(()),
    };
    tunnel.close();
    let restored = host.restore().await;
    connected.client.close(Code::NO_ERROR);
    connected.endpoint.wait_idle().await;
    outcome.and(restored)
}

/// Connects to the proxy, opens a tunnel, and requests an address of each IP version.
async fn open(access: &Access<'_>) -> Result<(Connected, IpTunnel), Failure> {
    let transport = TransportConfig::builder().keep_alive_interval(Some(KEEP_ALIVE));
    let connected = access.connect(TunnelKind::Ip, transport).await?;
    let fields = access.credentials()?;
    let opening = connected.client.connect_ip(&connected.template, &IpScope::ANY, fields);
    let cannot = |error: TunnelError| {
        let (name, error) = (&connected.name, error.to_string());
        Failure::new(format!("cannot open an IP tunnel through {name}: {}", Foreign(&error)))
    };
    let mut tunnel = opening.await.map_err(cannot)?;
    let any = [IpNet::V4(unspecified_v4()), IpNet::V6(unspecified_v6())];
    tunnel.request_addresses(&any).map_err(cannot)?;
    Ok((connected, tunnel))
}

/// Uses the tunnel until it ends.
async fn session(tunnel: &mut IpTunnel, host: &mut Host, proxy: &str) -> Result<(), Failure> {
    let mut deadline = std::pin::pin!(tokio::time::sleep(ASSIGNMENT));
    let mut mtu_interval = tokio::time::interval(MTU_INTERVAL);
    loop {
        let step = tokio::select! {
            _ = mtu_interval.tick() => {
                host.follow_mtu(tunnel)?;
                continue;
            }
            step = poll_fn(|context| exchange(tunnel, host, context)) => step,
            () = &mut deadline, if !host.is_announced() => {
                return Err(Failure::new(format!("the proxy {proxy} has assigned no address")));
            }
        };
        match step {
            Ok(Step::Changed) => {
                host.follow(tunnel, proxy).await?;
            }
            Ok(Step::Rejected) if tunnel.addresses().is_empty() => {
                return Err(Failure::new(format!("the proxy {proxy} has no address for us"))
                    .advise("its address pool may be exhausted; try again later"));
            }
            Ok(Step::Rejected) => {}
            Ok(Step::Closed) => {
                return Err(Failure::new(format!("the proxy {proxy} has closed the tunnel")));
            }
            Ok(Step::Device(error)) => {
                return Err(Failure::new(format!("the TUN device has failed: {error}")));
            }
            Err(error) => {
                return Err(Failure::new(format!(
                    "the tunnel through {proxy} has failed: {error}"
                )));
            }
        }
    }
}

/// An event that interrupts the relaying of packets.
enum Step {
    /// The addresses, the routes or the MTU may have changed.
    Changed,
    /// The proxy has rejected a request for an address.
    Rejected,
    /// The proxy has closed the tunnel.
    Closed,
    /// The device has failed.
    Device(std::io::Error),
}

/// Relays packets in both directions until another event interrupts it.
fn exchange(
    tunnel: &mut IpTunnel,
    host: &Host,
    context: &mut Context<'_>,
) -> Poll<Result<Step, TunnelError>> {
    for _ in 0..TURNS {
        let incoming = poll_incoming(tunnel, host, context);
        let outgoing = poll_outgoing(tunnel, host, context);
        match (incoming, outgoing) {
            (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => {
                return Poll::Ready(Err(error));
            }
            (Poll::Ready(Ok(Some(step))), _) | (_, Poll::Ready(Ok(Some(step)))) => {
                return Poll::Ready(Ok(step));
            }
            (Poll::Pending, Poll::Pending) => return Poll::Pending,
            _ => {}
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

fn poll_incoming(
    tunnel: &mut IpTunnel,
    host: &Host,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Step>, TunnelError>> {
    let step = poll_tunnel(tunnel, host, context);
    host.tun().flush();
    step
}

/// Passes a bounded number of packets from the proxy to the device.
fn poll_tunnel(
    tunnel: &mut IpTunnel,
    host: &Host,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Step>, TunnelError>> {
    for _ in 0..BATCH {
        match std::task::ready!(tunnel.poll_receive(context))? {
            Some(IpEvent::Packet(packet)) => {
                // Dropped if the device has no room, as in a network.
                let _ = host.tun().try_send(&packet);
            }
            Some(IpEvent::Assigned(addresses)) => {
                let is_rejected = addresses.iter().all(|address| address.is_rejection());
                let step = if is_rejected { Step::Rejected } else { Step::Changed };
                return Poll::Ready(Ok(Some(step)));
            }
            Some(IpEvent::Routes(_)) => return Poll::Ready(Ok(Some(Step::Changed))),
            Some(_) => {}
            None => return Poll::Ready(Ok(Some(Step::Closed))),
        }
    }
    Poll::Ready(Ok(None))
}

fn poll_outgoing(
    tunnel: &mut IpTunnel,
    host: &Host,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Step>, TunnelError>> {
    let step = poll_device(tunnel, host, context);
    tunnel.flush()?;
    step
}

/// Queues a bounded number of the device's packets for the proxy.
fn poll_device(
    tunnel: &mut IpTunnel,
    host: &Host,
    context: &mut Context<'_>,
) -> Poll<Result<Option<Step>, TunnelError>> {
    for _ in 0..BATCH {
        let packet = match std::task::ready!(host.tun().poll_receive(context)) {
            Ok(packet) => packet,
            Err(error) => return Poll::Ready(Ok(Some(Step::Device(error)))),
        };
        if let Some(reply) = tunnel.queue(&packet, Origin::Local)? {
            let _ = host.tun().try_send(&reply);
            host.tun().flush();
            if tunnel.max_packet().is_some_and(|maximum| maximum < host.mtu()) {
                return Poll::Ready(Ok(Some(Step::Changed)));
            }
        }
    }
    Poll::Ready(Ok(None))
}

/// Returns the prefixes to route through the tunnel.
fn routes(command: &TunnelCommand) -> Vec<IpNet> {
    let mut routes: Vec<IpNet> = command.route.iter().map(IpNet::trunc).collect();
    if command.default_route {
        // More specific than the default route of this host, which stays.
        routes.extend(Ipv4Net::default().subnets(1).into_iter().flatten().map(IpNet::V4));
        routes.extend(Ipv6Net::default().subnets(1).into_iter().flatten().map(IpNet::V6));
    }
    routes.sort();
    routes.dedup();
    routes
}

const fn unspecified_v4() -> Ipv4Net {
    Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 32)
}

const fn unspecified_v6() -> Ipv6Net {
    Ipv6Net::new_assert(std::net::Ipv6Addr::UNSPECIFIED, 128)
}
