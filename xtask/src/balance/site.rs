//! The network: one namespace for all clients, and one for each balancer and each server, joined by
//! a bridge.
//!
//! ```text
//! clients   10.0.0.2, and all of 10.1.0.0/16
//! balancers 10.0.0.11 and 10.0.0.12, both also with 10.9.0.1, to which clients send
//! servers   10.0.0.21 to 10.0.0.24
//! ```
//!
//! A route in the clients' namespace selects the balancer that receives the clients' datagrams. The
//! namespaces are unnamed, and nothing in them is visible outside.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clearway_namespaces::{Namespace, ip};

/// The address that clients send to.
pub(super) const VIRTUAL: &str = "10.9.0.1:443";
const VIRTUAL_IP: &str = "10.9.0.1";
/// The first of the 65,536 addresses of the clients.
pub(super) const CLIENTS: &str = "10.1.0.0";
const CLIENTS_NETWORK: &str = "10.1.0.0/16";
const CLIENTS_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The metrics address of servers and balancers, each in its own namespace.
pub(super) const METRICS: &str = "127.0.0.1:9433";
/// Maximum number of servers.
pub(super) const SERVERS: usize = 4;
const BRIDGE: &str = "bridge0";
const DEVICE: &str = "eth0";
/// The kernel's counters for the current thread's namespace.
const STATISTICS: &str = "/proc/thread-self/net/snmp";
/// Time limit for a server to send its metrics.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Site {
    pub(super) clients: Namespace,
    pub(super) balancers: [Namespace; 2],
    pub(super) servers: Vec<Namespace>,
    /// The namespace that contains the bridge.
    _hub: Namespace,
}

/// Returns the address from which a balancer forwards datagrams to servers.
pub(super) fn balancer_ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 11_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX)))
}

/// Returns the address of a server.
pub(super) fn server_ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 21_u8.saturating_add(u8::try_from(number).unwrap_or(u8::MAX)))
}

impl Site {
    /// Creates the network. Clients send to the first balancer.
    pub(super) fn create() -> io::Result<Self> {
        let hub = Namespace::create()?;
        hub.run(|| {
            ip(&["link", "add", BRIDGE, "type", "bridge"])?;
            ip(&["link", "set", BRIDGE, "up"])
        })??;
        let join = |address| join(&hub, address);
        let clients = join(CLIENTS_IP)?;
        let balancers = [join(balancer_ip(0))?, join(balancer_ip(1))?];
        let servers =
            (0..SERVERS).map(|number| join(server_ip(number))).collect::<io::Result<_>>()?;
        clients.run(|| ip(&["route", "add", "local", CLIENTS_NETWORK, "dev", "lo"]))??;
        for balancer in &balancers {
            balancer.run(|| {
                ip(&["addr", "add", &format!("{VIRTUAL_IP}/32"), "dev", "lo"])?;
                ip(&["route", "add", CLIENTS_NETWORK, "via", &CLIENTS_IP.to_string()])
            })??;
        }
        let site = Self { clients, balancers, servers, _hub: hub };
        site.send_to(0)?;
        Ok(site)
    }

    /// Routes the clients' datagrams to this balancer from now on.
    pub(super) fn send_to(&self, balancer: usize) -> io::Result<()> {
        let to = balancer_ip(balancer).to_string();
        self.clients.run(|| ip(&["route", "replace", VIRTUAL_IP, "via", &to]))?
    }

    /// Returns the number of datagrams that the kernel has dropped because of full socket buffers,
    /// for each namespace.
    pub(super) fn dropped(&self) -> io::Result<Vec<(String, u64)>> {
        let clients = [("the clients".to_owned(), &self.clients)];
        let numbered =
            |what: &'static str| move |(number, namespace)| (format!("{what} {number}"), namespace);
        let balancers = (1..).zip(&self.balancers).map(numbered("balancer"));
        let servers = (1..).zip(&self.servers).map(numbered("server"));
        let all = clients.into_iter().chain(balancers).chain(servers);
        let counts = all.map(|(name, namespace)| {
            let statistics = namespace.run(|| std::fs::read_to_string(STATISTICS))??;
            Ok((name, dropped(&statistics)))
        });
        let counts: Vec<_> = counts.collect::<io::Result<_>>()?;
        Ok(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// Returns the metrics of a server.
    pub(super) fn metrics(&self, server: usize) -> io::Result<String> {
        self.servers[server].run(metrics)?
    }

    /// Returns the metrics of a balancer.
    pub(super) fn balancer_metrics(&self, balancer: usize) -> io::Result<String> {
        self.balancers[balancer].run(metrics)?
    }
}

/// Creates a namespace with this address, connected to the bridge.
fn join(hub: &Namespace, address: Ipv4Addr) -> io::Result<Namespace> {
    let namespace = Namespace::create()?;
    // Device names must be short, and unique in the bridge's namespace.
    let port = format!("port{}", address.octets()[3]);
    let process = namespace.process().to_string();
    hub.run(|| {
        let there = ["name", DEVICE, "netns", &process];
        ip(&[&["link", "add", &port, "type", "veth", "peer"][..], &there].concat())?;
        ip(&["link", "set", &port, "master", BRIDGE, "up"])
    })??;
    namespace.run(|| {
        ip(&["link", "set", "lo", "up"])?;
        ip(&["addr", "add", &format!("{address}/24"), "dev", DEVICE])?;
        ip(&["link", "set", DEVICE, "up"])
    })??;
    Ok(namespace)
}

/// Returns the number of datagrams dropped for lack of buffer space, given a namespace's
/// statistics, in which a line of names is followed by a line of values.
fn dropped(statistics: &str) -> u64 {
    let mut lines = statistics.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let Some((names, values)) = lines.next().zip(lines.next()) else { return 0 };
    let all = names.split(' ').zip(values.split(' '));
    let no_room = all.filter(|(name, _)| matches!(*name, "RcvbufErrors" | "SndbufErrors"));
    no_room.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Reads the metrics at their address in the current thread's namespace.
fn metrics() -> io::Result<String> {
    let address: SocketAddr = METRICS.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {METRICS}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_without_room_are_counted_by_their_names() {
        let text = "Tcp: InErrs\nTcp: 9\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors MemErrors\n\
            Udp: 100 7 3 2 8\nUdpLite: RcvbufErrors\nUdpLite: 5\n";
        assert_eq!((dropped(text), dropped("Udp: RcvbufErrors\n"), dropped("")), (5, 0, 0));
    }

    #[test]
    fn no_two_have_one_address() {
        let mut all: Vec<_> = (0..2).map(balancer_ip).chain((0..SERVERS).map(server_ip)).collect();
        all.push(CLIENTS_IP);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2 + SERVERS + 1);
        assert_eq!(VIRTUAL.split(':').next(), Some(VIRTUAL_IP));
    }
}
