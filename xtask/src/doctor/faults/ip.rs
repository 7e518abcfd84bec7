//! Faults of IP, the firewall and connection tracking on the receiver.

use std::net::{Ipv4Addr, SocketAddrV4};

use clearway_doctor::Stage;

use super::super::host::Setting;
use super::super::packet::Damage;
use super::super::reader::Reader;
use super::super::scene::{PORT, Scene, filter, run, set};
use super::super::sender::{Pace, packets};
use super::super::site::{DEVICE, SENDER};
use super::{Expected, Fault};

pub(super) const FAULTS: &[Fault] = &[
    Fault::new(
        "ip-checksum",
        "the IP header checksum is bad",
        Expected::Loss(Stage::Ip, "ip_header"),
        ip_checksum,
    ),
    Fault::new(
        "wrong-address",
        "packets for an address of another host, on a host that does not forward",
        Expected::Loss(Stage::Ip, "ip_header"),
        wrong_address,
    ),
    Fault::new(
        "reverse-path",
        "packets from an address whose route uses another device",
        Expected::Loss(Stage::Ip, "reverse_path_filter"),
        reverse_path,
    ),
    Fault::new(
        "fragments",
        "first fragments without the others",
        Expected::Loss(Stage::Ip, "reassembly"),
        fragments,
    ),
    Fault::new(
        "firewall",
        "an nftables rule drops packets to the port",
        Expected::Loss(Stage::Netfilter, "firewall"),
        |scene| {
            firewall(scene, PORT)?;
            scene.read(&Reader::quick(scene.target()))?;
            scene.send_to(scene.target(), 100, Pace::even(1000))
        },
    ),
    Fault::new(
        "conntrack-full",
        "the connection tracking table is full",
        Expected::Loss(Stage::Conntrack, "conntrack_full"),
        conntrack_full,
    )
    .of_host(),
];

/// A port for healthy traffic at the same time as the fault.
const OTHER_PORT: u16 = 4435;
/// Maximum number of tracked connections.
const CONNECTIONS: u32 = 64;

/// Drops packets to one port of the receiver.
pub(super) fn firewall(scene: &Scene<'_>, port: u16) -> Result<(), String> {
    let rules = format!(
        "add table ip rules\n\
         add chain ip rules input {{ type filter hook input priority 0; }}\n\
         add rule ip rules input udp dport {port} drop"
    );
    filter(&scene.site.receiver, &rules)
}

/// Corrupts the checksum of packets to the port at the sender's device.
fn ip_checksum(scene: &mut Scene<'_>) -> Result<(), String> {
    let other = SocketAddrV4::new(scene.site.address, OTHER_PORT);
    for target in [scene.target(), other] {
        scene.read(&Reader::quick(target))?;
    }
    let rules = format!(
        "add table netdev damage\n\
         add chain netdev damage out {{ type filter hook egress device {DEVICE} priority 0; }}\n\
         add rule netdev damage out udp dport {PORT} @nh,80,16 set 0xbeef"
    );
    filter(&scene.site.sender, &rules)?;
    scene.send_to(other, 100, Pace::even(1000))?;
    scene.send_to(scene.target(), 100, Pace::even(1000))
}

fn wrong_address(scene: &mut Scene<'_>) -> Result<(), String> {
    let next = scene.site.address.to_string();
    run(&scene.site.sender, &["ip", "route", "add", "10.99.0.0/16", "via", &next])?;
    // The sender is on the same network, but is not a gateway to these destinations.
    run(&scene.site.receiver, &["ip", "route", "add", "10.99.0.0/16", "via", &SENDER.to_string()])?;
    set(&scene.site.receiver, "ipv4/conf/all/forwarding", "0")?;
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(500))?;
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(10, 99, 0, 1), PORT);
    scene.send_to(elsewhere, 100, Pace::even(1000))
}

fn reverse_path(scene: &mut Scene<'_>) -> Result<(), String> {
    for device in ["all", DEVICE] {
        set(&scene.site.receiver, &format!("ipv4/conf/{device}/rp_filter"), "1")?;
    }
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(500))?;
    let from = SocketAddrV4::new(Ipv4Addr::new(172, 16, 0, 1), PORT);
    let ends = (from, scene.target());
    let send = packets(&scene.site.sender, ends, 100, Damage::None);
    let send = send.map_err(|error| error.to_string())?;
    scene.send(Pace::even(1000), None, send);
    Ok(())
}

fn fragments(scene: &mut Scene<'_>) -> Result<(), String> {
    set(&scene.site.receiver, "ipv4/ipfrag_time", "1")?;
    scene.read(&Reader::quick(scene.target()))?;
    scene.send_to(scene.target(), 100, Pace::even(500))?;
    scene.send_damaged(Damage::Fragment, Pace::even(500))
}

/// Sends each packet from a different port, so that the connection tracking table fills up.
fn conntrack_full(scene: &mut Scene<'_>) -> Result<(), String> {
    let rules = "add table ip rules\n\
                 add chain ip rules input { type filter hook input priority 0; }\n\
                 add rule ip rules input ct state new counter accept";
    scene.read(&Reader::quick(scene.target()))?;
    filter(&scene.site.receiver, rules)?;
    scene.keep(Setting::few_connections(CONNECTIONS)?);
    let to = scene.target();
    let senders = (0..200_u16).map(|number| {
        let from = SocketAddrV4::new(SENDER, 10_000 + number);
        packets(&scene.site.sender, (from, to), 100, Damage::None)
    });
    let senders = senders.collect::<std::io::Result<Vec<_>>>();
    let mut senders = senders.map_err(|error| error.to_string())?;
    let count = senders.len() as u64;
    scene.send(Pace::even(1000), None, move |number| senders[(number % count) as usize](number));
    Ok(())
}
