//! Hosts without a fault, and faults of devices, XDP and softnet backlogs.

use std::time::Duration;

use clearway_doctor::Stage;

use super::super::object;
use super::super::reader::Reader;
use super::super::scene::{Scene, filter, run, set};
use super::super::sender::{Pace, datagrams};
use super::super::site::{DEVICE, NEIGHBOUR, Place};
use super::{Expected, Fault};

pub(super) const FAULTS: &[Fault] = &[
    Fault::new(
        "healthy",
        "a reader keeps up with 2,000 datagrams per second",
        Expected::NoLoss,
        healthy,
    ),
    Fault::new(
        "healthy-ipv4",
        "the same without IPv6, whose multicast packets look like packets that a firewall drops",
        Expected::NoLoss,
        |scene| {
            set(&scene.site.receiver, "ipv6/conf/all/disable_ipv6", "1")?;
            healthy(scene)
        },
    ),
    Fault::new("idle", "no traffic", Expected::Unknown, idle),
    Fault::new(
        "sick-neighbour",
        "a healthy host while a socket overflows in another namespace",
        Expected::NoLoss,
        sick_neighbour,
    ),
    Fault::new(
        "device-mtu",
        "the device accepts 1,280 bytes, but its neighbor sends 1,400",
        Expected::Loss(Stage::Device, "device_receive"),
        device_mtu,
    ),
    Fault::new(
        "xdp-native",
        "an XDP program in the driver drops all packets",
        Expected::Loss(Stage::Xdp, "xdp"),
        |scene| xdp(scene, "xdpdrv"),
    ),
    Fault::new(
        "xdp-generic",
        "an XDP program outside the driver drops all packets",
        Expected::Loss(Stage::Xdp, "xdp"),
        |scene| xdp(scene, "xdpgeneric"),
    ),
    Fault::new(
        "xdp-socket",
        "a healthy host with an AF_XDP socket, on a kernel without XDP_SOCKETS_DIAG, which does \
         not report the socket's losses",
        Expected::NotSeen(Stage::Xdp),
        |scene| {
            scene.open_xdp_socket()?;
            healthy(scene)
        },
    ),
    Fault::new(
        "backlog",
        "bursts exceed the backlog of the CPU that they are steered to",
        Expected::Loss(Stage::Softnet, "backlog_full"),
        backlog,
    ),
];

/// Mask of the CPU to steer packets to: the second CPU.
const STEERED: &str = "2";
/// The CPU on which the sender and the reader run.
const OTHER: usize = 0;
/// The receiver's link-layer address, for a sender that cannot resolve it.
const LINK_ADDRESS: &str = "02:00:00:00:00:02";
/// Number of sockets whose packets fill the backlog.
const SENDERS: usize = 32;
/// Number of firewall rules that match nothing, so that the CPU spends a long time on each packet.
const RULES: usize = 3000;

fn healthy(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(2000))
}

fn idle(scene: &mut Scene<'_>) -> Result<(), String> {
    scene.read(&Reader::quick(scene.target())).map(drop)
}

/// A healthy receiver next to a faulty sender, on whose loopback a slow reader drops datagrams.
fn sick_neighbour(scene: &mut Scene<'_>) -> Result<(), String> {
    healthy(scene)?;
    let there = "127.0.0.1:4434".parse().map_err(|error| format!("{error}"))?;
    scene.read_at(Place::Sender, &Reader::busy(there, Duration::from_micros(200)), &[])?;
    scene.send_to(there, 1200, Pace::even(10_000))
}

fn device_mtu(scene: &mut Scene<'_>) -> Result<(), String> {
    run(&scene.site.receiver, &["ip", "link", "set", DEVICE, "mtu", "1280"])?;
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(500))?;
    scene.send_to(scene.target(), 1372, Pace::even(500))
}

fn xdp(scene: &mut Scene<'_>, mode: &str) -> Result<(), String> {
    scene.read(&Reader::quick(scene.target()))?;
    // Otherwise the program would drop ARP packets as well.
    let (to, from) = (&scene.site.receiver, &scene.site.sender);
    run(to, &["ip", "link", "set", DEVICE, "address", LINK_ADDRESS])?;
    let neighbour = ["ip", "neigh", "replace", &NEIGHBOUR.to_string(), "lladdr", LINK_ADDRESS];
    run(from, &[&neighbour[..], &["dev", DEVICE]].concat())?;
    let file = scene.file("drop.o", &object::dropping())?;
    let object = ["obj", &file, "sec", object::SECTION];
    run(&scene.site.receiver, &[&["ip", "link", "set", DEVICE, mode][..], &object].concat())?;
    scene.send_to(scene.target(), 100, Pace::even(1000))
}

fn backlog(scene: &mut Scene<'_>) -> Result<(), String> {
    let reader = Reader { cpu: Some(OTHER), ..Reader::quick(scene.target()) };
    scene.read(&reader)?;
    // sysfs shows the devices of the namespace in which sysfs was mounted.
    let script = format!(
        "mount -t sysfs sysfs /sys && for queue in /sys/class/net/{DEVICE}/queues/rx-*; do \
         echo {STEERED} > $queue/rps_cpus; done"
    );
    run(&scene.site.receiver, &["unshare", "--mount", "sh", "-c", &script])?;
    let rule = |number: usize| format!("add rule ip slow input udp sport {} drop\n", number + 1);
    let chain =
        "add table ip slow\nadd chain ip slow input { type filter hook input priority 0; }\n";
    let rules: String = (0..RULES).map(rule).collect();
    filter(&scene.site.receiver, &format!("{chain}{rules}"))?;
    // Packets in a backlog are charged to the sending socket, so a single socket would block.
    let (sender, to) = (&scene.site.sender, scene.target());
    let senders = (0..SENDERS).map(|_| datagrams(sender, to, 100));
    let senders = senders.collect::<std::io::Result<Vec<_>>>();
    let mut senders = senders.map_err(|error| error.to_string())?;
    scene.send(Pace { rate: 16_000, burst: 4000 }, Some(OTHER), move |number| {
        senders[number as usize % SENDERS](number)
    });
    Ok(())
}
