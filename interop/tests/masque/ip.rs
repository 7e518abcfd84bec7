//! `clearway tunnel` through a proxy of another stack.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clearway_namespaces::{Namespace, ip};
use socket2::{Domain, Protocol, Socket, Type};

use super::proxy_of;
use crate::support::{self, Peer, Server, Workspace};

/// Time limit for the reply to an echo request.
const LIMIT: Duration = Duration::from_secs(10);

/// The addresses of connect-ip-go's proxy in the tunnel.
const GATEWAYS: [&str; 2] = ["10.98.0.1", "fd00:98::1"];

/// Data in an echo request over IPv6 that fills a packet of 1280 bytes, the MTU of the tunnel.
const FULL: usize = 1232;

/// Sends ICMP echo requests with `length` bytes of data until one is answered. Returns whether the
/// reply has the same data.
fn ping(target: &str, length: usize) -> bool {
    let address: IpAddr = target.parse().expect("an address");
    let (domain, protocol, request, reply) = match address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129),
    };
    let mut socket = Socket::new(domain, Type::DGRAM, Some(protocol)).expect("an ICMP socket");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let data: Vec<u8> = (0..length).map(|at| (at * 31 + at / 251) as u8).collect();
    let message = [&[request, 0, 0, 0, 0, 0, 0, 1][..], &data].concat();
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        socket.send_to(&message, &SocketAddr::new(address, 0).into()).expect("an echo request");
        let mut buffer = [0; 2000];
        match socket.read(&mut buffer) {
            Ok(received) => return buffer[0] == reply && buffer[8..received] == data,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("{target}: {error}"),
        }
    }
    false
}

/// Runs in a network namespace, since the tunnel has a TUN device and routes.
#[test]
fn clearway_tunnels_through_connect_ip_go() {
    let Some(peer) = Peer::find("connect-ip-go") else { return };
    let Ok(host) = Namespace::create() else {
        return println!("skipped: no network namespaces here");
    };
    let workspace = Workspace::new("masque-connect-ip-go", 0);
    host.run(|| {
        ip(&["link", "set", "lo", "up"]).expect("ip");
        // Permits ICMP sockets.
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").expect("ping_group_range");
        let proxy = proxy_of(peer.command(), &workspace, &["-serve", "127.0.0.1:0"]);
        let mut command = support::clearway();
        command.args(["tunnel", "--proxy", &format!("https://{}", proxy.address)]);
        command.args(["--proxy-ca", &workspace.text("cert.pem")]);
        command
            .args(["--route", "10.98.0.0/24", "--route", "fd00:98::/64"])
            .stderr(Stdio::inherit());
        let tunnel = Server::start(&mut command);
        for gateway in GATEWAYS {
            for length in [0, 56, FULL] {
                assert!(ping(gateway, length), "{gateway} does not answer {length} bytes");
            }
        }
        drop((tunnel, proxy));
    })
    .expect("the test can enter the namespace");
}
