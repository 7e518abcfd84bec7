//! Faults of UDP and of sockets that do not depend on the reader's speed.

use std::net::SocketAddrV4;
use std::time::Duration;

use clearway_doctor::Stage;
use nix::sys::socket::{setsockopt, sockopt};

use super::super::host::Setting;
use super::super::packet::Damage;
use super::super::reader::Reader;
use super::super::scene::{PORT, Scene};
use super::super::sender::Pace;
use super::ip::firewall;
use super::{Expected, Fault};

pub(super) const FAULTS: &[Fault] = &[
    Fault::new("no-socket", "no socket is bound to the port", Expected::Stray, |scene| {
        scene.send_to(scene.target(), 100, Pace::even(1000))
    }),
    Fault::new(
        "checksum",
        "the UDP checksum is bad",
        Expected::Loss(Stage::Udp, "bad_checksum"),
        |scene| damaged(scene, Damage::Checksum),
    ),
    Fault::new(
        "length",
        "the length in the UDP header is larger than the packet",
        Expected::Loss(Stage::Udp, "bad_length"),
        |scene| damaged(scene, Damage::Length),
    ),
    Fault::new(
        "udp-memory",
        "the memory for all UDP sockets is exhausted",
        Expected::Loss(Stage::Udp, "udp_memory"),
        udp_memory,
    )
    .of_host(),
    Fault::new(
        "socket-filter",
        "a filter on the socket rejects all datagrams",
        Expected::Loss(Stage::Socket, "socket_filter"),
        |scene| {
            scene.read(&Reader { rejects: true, ..Reader::quick(scene.target()) })?;
            scene.send_to(scene.target(), 100, Pace::even(1000))
        },
    ),
    Fault::new(
        "truncated-reads",
        "the reader uses GRO but reads into buffers of 1,500 bytes, which is only visible to \
         itself",
        Expected::NotSeen(Stage::Application),
        truncated_reads,
    ),
    Fault::new(
        "truncated-reads-told",
        "the same with a reader that includes the doctor's engine, as `serve` and `balance` do",
        Expected::Loss(Stage::Application, "truncated_reads"),
        truncated_reads,
    )
    .carried(),
    Fault::new(
        "firewall-and-rate",
        "a rule drops packets to one port, and the reader of another port is too slow",
        Expected::Two([(Stage::Socket, "rate"), (Stage::Netfilter, "firewall")]),
        |scene| {
            firewall(scene, OTHER_PORT)?;
            scene.send_to(other(scene), 100, Pace::even(1000))?;
            slow(scene)
        },
    ),
    Fault::new(
        "no-socket-and-rate",
        "no socket is bound to one port, and the reader of another port is too slow",
        Expected::Two([(Stage::Socket, "rate"), (Stage::Udp, "no_socket")]),
        |scene| {
            scene.send_to(other(scene), 100, Pace::even(1000))?;
            slow(scene)
        },
    ),
    Fault::new(
        "checksum-and-rate",
        "some datagrams have a bad checksum, and the reader is too slow for the others",
        Expected::Two([(Stage::Socket, "rate"), (Stage::Udp, "bad_checksum")]),
        |scene| {
            scene.send_damaged(Damage::Checksum, Pace::even(1000))?;
            slow(scene)
        },
    ),
];

const OTHER_PORT: u16 = 4435;
/// Time that the slow reader spends on each datagram.
const WORK: Duration = Duration::from_micros(200);
/// Number of pages that UDP sockets may use in addition to those in use.
const PAGES: u64 = 16;
/// Number of datagrams per send call.
const SEGMENTS: usize = 16;
const SIZE: usize = 1200;

fn other(scene: &Scene<'_>) -> SocketAddrV4 {
    SocketAddrV4::new(scene.site.address, OTHER_PORT)
}

fn slow(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.read(&Reader::busy(scene.target(), WORK))?;
    scene.send_to(scene.target(), SIZE, Pace::even(10_000))
}

/// Damages half of the reader's datagrams.
fn damaged(scene: &mut Scene<'_>, damage: Damage) -> Result<(), String> {
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(1000))?;
    scene.send_damaged(damage, Pace::even(1000))
}

/// Exhausts the UDP memory with a stopped reader that has a large buffer.
fn udp_memory(scene: &mut Scene<'_>) -> Result<(), String> {
    let reader = scene.read(&Reader::quick(scene.target()))?;
    scene.stop(reader)?;
    scene.keep(Setting::little_udp_memory(PAGES)?);
    scene.send_to(scene.target(), SIZE, Pace::even(1000))
}

/// Sends several datagrams together, so that they arrive together.
fn truncated_reads(scene: &mut Scene<'_>) -> Result<(), String> {
    let target = SocketAddrV4::new(scene.site.address, PORT);
    scene.read(&Reader { truncates: true, carries: true, ..Reader::quick(target) })?;
    let bound = scene.site.sender.run(|| std::net::UdpSocket::bind("0.0.0.0:0"));
    let socket = bound.and_then(|it| it).map_err(|error| error.to_string())?;
    let size = i32::try_from(SIZE).map_err(|error| error.to_string())?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &size).map_err(|error| error.to_string())?;
    let batch = vec![0; SIZE * SEGMENTS];
    scene.send(Pace::even(200), None, move |_| socket.send_to(&batch, target).map(drop));
    Ok(())
}
