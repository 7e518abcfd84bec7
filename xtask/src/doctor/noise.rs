//! Background events that occur on every host and must not affect a verdict: port scans, multicast
//! that no socket has joined, a program that sends without a route, and one that occasionally drops
//! a datagram.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use clearway_namespaces::Namespace;
use socket2::{Domain, Socket, Type};

use super::faults::{Expected, Fault};
use super::reader::Reader;
use super::scene::Scene;
use super::sender::Pace;

/// Rate of a port scan, in ports per second.
const SCAN: Pace = Pace { rate: 3, burst: 1 };
const SCANNED: [u16; 8] = [19, 53, 123, 137, 161, 1900, 5060, 11_211];
/// Rate of a neighbor's multicast announcements per second.
const ANNOUNCEMENTS: Pace = Pace { rate: 2, burst: 1 };
/// The group and port of multicast DNS.
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 251), 5353);
/// Rate at which a program sends to an address without a route.
const FAILURES: Pace = Pace { rate: 1, burst: 1 };
const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 9), 53);
/// One of five datagrams is sent in 2.5 seconds, so less than one per second is lost.
const RARE: Pace = Pace { rate: 2, burst: 5 };
/// The address of the program that drops datagrams.
const LOSING: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4999);
/// The minimum receive buffer that the kernel grants, and a number of datagrams that exceeds it.
const SMALLEST_BUFFER: usize = 1;
const ENOUGH: usize = 20;

/// Adds background events to the observed host until the scene ends.
pub(super) fn make(scene: &mut Scene<'_>, fault: &Fault) -> Result<(), String> {
    let failed = |error: io::Error| format!("noise: {error}");
    let (neighbor, from, to) = scene.site.neighbor_of(fault.place).ok_or("there is no router")?;
    let scan = open(neighbor).map_err(failed)?;
    let announce = multicast(neighbor, from).map_err(failed)?;
    let host = scene.site.at(fault.place).ok_or("there is no such host")?;
    let failing = open(host).map_err(failed)?;
    scene.send(SCAN, None, move |number| {
        let port = SCANNED[number as usize % SCANNED.len()];
        scan.send_to(b"scan", (to, port)).map(drop)
    });
    scene.send(ANNOUNCEMENTS, None, move |_| announce.send_to(&[0; 60], GROUP).map(drop));
    scene.send(FAILURES, None, move |_| failing.send_to(b"question", NOWHERE).map(drop));
    // A host on which a program sends is not idle.
    match fault.expected {
        Expected::Unknown => Ok(()),
        _ => lose(scene, fault),
    }
}

/// Starts a stopped program whose buffer is full, so that all datagrams to it are dropped.
fn lose(scene: &mut Scene<'_>, fault: &Fault) -> Result<(), String> {
    let losing = Reader { buffer: Some(SMALLEST_BUFFER), ..Reader::quick(LOSING) };
    let reader = scene.read_at(fault.place, &losing, &[])?;
    scene.stop(reader)?;
    let host = scene.site.at(fault.place).ok_or("there is no such host")?;
    let socket = open(host).map_err(|error| error.to_string())?;
    for _ in 0..ENOUGH {
        socket.send_to(&[0; 100], LOSING).map_err(|error| error.to_string())?;
    }
    scene.send(RARE, None, move |number| match number.is_multiple_of(u64::from(RARE.burst)) {
        true => socket.send_to(&[0; 100], LOSING).map(drop),
        false => Ok(()),
    });
    Ok(())
}

fn open(host: &Namespace) -> io::Result<UdpSocket> {
    host.run(|| UdpSocket::bind("0.0.0.0:0"))?
}

/// Returns a socket that sends multicast packets through the device with this address.
fn multicast(host: &Namespace, from: Ipv4Addr) -> io::Result<UdpSocket> {
    host.run(|| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_multicast_if_v4(&from)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        Ok(socket.into())
    })?
}
