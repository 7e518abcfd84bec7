//! Faults in sending, as observed on the sender, and faults of the path.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use clearway_doctor::Stage;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover};

use super::super::reader::Reader;
use super::super::scene::{PORT, Scene, run};
use super::super::sender::Pace;
use super::super::site::{DEVICE, Place, ROUTER_DEVICES};
use super::{Expected, Fault};

pub(super) const FAULTS: &[Fault] = &[
    Fault::new(
        "healthy-sender",
        "a host sends 2,000 datagrams per second, and nothing is lost",
        Expected::NoLoss,
        |scene| {
            scene.read(&Reader::quick(scene.target()))?;
            scene.send_to(scene.target(), 100, Pace::even(2000))
        },
    )
    .seen_at(Place::Sender),
    Fault::new(
        "send-buffer",
        "a queueing discipline holds all that a socket may have in transit, and the socket does \
         not wait",
        Expected::Loss(Stage::SendSocket, "send_buffer"),
        |scene| {
            shape(scene, "10mb")?;
            send_without_waiting(scene)
        },
    )
    .seen_at(Place::Sender),
    Fault::new(
        "no-route",
        "the sender has no route to the destination",
        Expected::Loss(Stage::SendIp, "no_route"),
        |scene| {
            let nowhere = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 1), PORT);
            scene.read(&Reader::quick(scene.target()))?;
            scene.send_to(scene.target(), 100, Pace::even(500))?;
            scene.send_to(nowhere, 100, Pace::even(1000))
        },
    )
    .seen_at(Place::Sender),
    Fault::new(
        "path-mtu",
        "a path accepts 1,280 bytes and its router reports that, but the sender still sends 1,400",
        Expected::Loss(Stage::SendIp, "path_mtu"),
        path_mtu,
    )
    .seen_at(Place::Sender)
    .routed(),
    Fault::new(
        "router-mtu",
        "the same, observed on the router",
        Expected::Loss(Stage::SendIp, "path_mtu"),
        path_mtu,
    )
    .seen_at(Place::Router)
    .routed(),
    Fault::new(
        "qdisc-full",
        "20 Mbit/s are sent into a token bucket filter of 8 Mbit/s",
        Expected::Loss(Stage::SendQdisc, "qdisc_full"),
        |scene| {
            shape(scene, "20kb")?;
            send_without_waiting(scene)
        },
    )
    .seen_at(Place::Sender),
    Fault::new(
        "healthy-router",
        "a router forwards 2,000 datagrams per second, and nothing is lost",
        Expected::NoLoss,
        |scene| {
            scene.read(&Reader::quick(scene.target()))?;
            scene.send_to(scene.target(), 100, Pace::even(2000))
        },
    )
    .seen_at(Place::Router)
    .routed(),
];

const SIZE: usize = 1200;
/// UDP payload size that results in an IP packet of 1,400 bytes.
const LARGE: usize = 1372;

/// Limits the sender's device to 8 Mbit/s, with a queue of length `limit`.
fn shape(scene: &Scene<'_>, limit: &str) -> Result<(), String> {
    let discipline = ["tbf", "rate", "8mbit", "burst", "10kb", "limit", limit];
    let add = ["tc", "qdisc", "add", "dev", DEVICE, "root"];
    run(&scene.site.sender, &[&add[..], &discipline].concat())
}

fn send_without_waiting(scene: &mut Scene<'_>) -> Result<(), String> {
    let target = scene.target();
    scene.read(&Reader::quick(target))?;
    let socket = open(scene)?;
    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    scene.send(Pace::even(2000), None, move |_| socket.send_to(&[0; SIZE], target).map(drop));
    Ok(())
}

/// Sends packets that exceed the path MTU. As in QUIC, the sender sets the don't-fragment bit and
/// keeps the kernel from rejecting large packets.
fn path_mtu(scene: &mut Scene<'_>) -> Result<(), String> {
    let router = scene.site.at(Place::Router).ok_or("there is no router")?;
    run(router, &["ip", "link", "set", ROUTER_DEVICES[1], "mtu", "1280"])?;
    let target = scene.target();
    scene.read(&Reader::quick(target))?;
    scene.send_to(target, 100, Pace::even(500))?;
    let socket = open(scene)?;
    set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE).map_err(|it| it.to_string())?;
    scene.send(Pace::even(500), None, move |_| socket.send_to(&[0; LARGE], target).map(drop));
    Ok(())
}

/// Returns a socket on the sender.
fn open(scene: &Scene<'_>) -> Result<UdpSocket, String> {
    let bound = scene.site.sender.run(|| UdpSocket::bind("0.0.0.0:0"));
    bound.and_then(|socket| socket).map_err(|error| error.to_string())
}
