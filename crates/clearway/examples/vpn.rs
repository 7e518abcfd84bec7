//! A minimal IP tunnel client (RFC 9484): packets of a TUN device pass through a proxy.
//!
//! It needs root or CAP_NET_ADMIN, and a proxy, such as `clearway proxy --ip-pool 10.99.0.0/24`:
//!
//!     cargo run --example vpn --features masque -- proxy.example:443
//!
//! Then route packets there, for example with `ip route add 192.0.2.0/24 dev vpn0`.

use std::error::Error;
use std::net::{IpAddr, ToSocketAddrs};

use clearway::http3::{Client, Code, Config, PROTOCOL};
use clearway::masque::target::IpScope;
use clearway::masque::{self, IpEvent, IpTunnel, Origin, TunnelKind, UriTemplate};
use clearway::{ClientConfig, Endpoint, TransportConfig};
use http::HeaderMap;
use tun_rs::{AsyncDevice, DeviceBuilder};

/// The MTU of the device in bytes: the minimum of IPv6, which fits into every tunnel.
const MTU: u16 = 1280;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(proxy) = std::env::args().nth(1) else {
        println!("usage: vpn HOST:PORT");
        return Ok(());
    };
    let (host, _) = proxy.rsplit_once(':').ok_or("the port is missing")?;
    let address = proxy.to_socket_addrs()?.next().ok_or("the name has no addresses")?;

    // Tunnels need datagrams, and first packets that leave room for an MTU of 1280 bytes.
    let transport = masque::transport_config(TransportConfig::builder()).build()?;
    let config =
        ClientConfig::with_native_roots()?.application_protocols([PROTOCOL]).transport(transport);
    let http3 = Config { datagrams: true, ..Config::default() };
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let endpoint = Endpoint::client(any.parse()?)?;
    let client = Client::connect_with(&endpoint, &config, address, host, http3).await?;

    let template = UriTemplate::well_known(TunnelKind::Ip, proxy.parse()?);
    let mut tunnel = client.connect_ip(&template, &IpScope::ANY, HeaderMap::new()).await?;
    tunnel.request_addresses(&["0.0.0.0/32".parse()?, "::/128".parse()?])?;
    let device = configure(&mut tunnel).await?;
    println!("{} has {:?}", device.name()?, tunnel.addresses());

    let outcome = tokio::select! {
        outcome = relay(&mut tunnel, &device) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    tunnel.close();
    client.close(Code::NO_ERROR);
    endpoint.wait_idle().await;
    outcome
}

/// Waits for the tunnel's addresses, and creates a device that has them.
async fn configure(tunnel: &mut IpTunnel) -> Result<AsyncDevice, Box<dyn Error>> {
    while tunnel.addresses().is_empty() || tunnel.routes().ranges().is_empty() {
        tunnel.receive().await?.ok_or("the proxy has closed the tunnel")?;
    }
    let mut device = DeviceBuilder::new().name("vpn%d").mtu(MTU);
    for prefix in tunnel.addresses() {
        device = match prefix.addr() {
            IpAddr::V4(address) => device.ipv4(address, prefix.prefix_len(), None),
            IpAddr::V6(address) => device.ipv6(address, prefix.prefix_len()),
        };
    }
    Ok(device.build_async()?)
}

/// Relays packets in both directions until the tunnel ends.
async fn relay(tunnel: &mut IpTunnel, device: &AsyncDevice) -> Result<(), Box<dyn Error>> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        tokio::select! {
            event = tunnel.receive() => match event? {
                // The device drops what it has no room for.
                Some(IpEvent::Packet(packet)) => _ = device.try_send(&packet),
                Some(event) => println!("{event:?}"),
                None => return Ok(()),
            },
            length = device.recv(&mut buffer) => {
                // If a packet does not fit, its source gets an ICMP message.
                if let Some(reply) = tunnel.send(&buffer[..length?], Origin::Local)? {
                    _ = device.try_send(&reply);
                }
            }
        }
    }
}
