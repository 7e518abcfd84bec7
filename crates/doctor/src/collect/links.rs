//! Lists devices, their queueing disciplines, and path MTUs, over rtnetlink. sysfs also lists
//! devices, but only devices of the namespace in which it was mounted.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

use super::netlink::{Attributes, Netlink, array, text, u32_at, u64_at, word_at};
use crate::snapshot::{Counters, Device, Missing, Paths, Qdisc, Reading};

// Constants from linux/rtnetlink.h.
const GET_LINK: u16 = 18;
const GET_ROUTE: u16 = 26;
const GET_QDISC: u16 = 38;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;

/// Size of `struct ifinfomsg`, in bytes.
const LINK_HEADER: usize = 16;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_INFO: u16 = 18;
const LINK_INFO_KIND: u16 = 1;
const LINK_STATISTICS: u16 = 23;
const LINK_XDP: u16 = 43;
const LINK_XDP_ATTACHED: u16 = 2;
/// Values for an XDP program that is attached in generic mode (outside of the driver), or in
/// several modes.
const XDP_ATTACHED_GENERIC: [u8; 2] = [2, 4];
/// Flags of a running device: up, with a carrier (IFF_UP, IFF_LOWER_UP).
const RUNNING: u32 = 0x1_0001;

/// Size of `struct tcmsg`, in bytes.
const QDISC_HEADER: usize = 20;
const QDISC_KIND: u16 = 1;
const QDISC_STATISTICS: u16 = 7;
const QDISC_BASIC: u16 = 1;
const QDISC_QUEUE: u16 = 3;
const QDISC_PACKETS: u16 = 8;

/// Size of `struct rtmsg`, in bytes.
const ROUTE_HEADER: usize = 12;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_METRICS: u16 = 8;
const ROUTE_MTU: u16 = 2;
/// A route that was learned for one destination (RTM_F_CLONED).
const CLONED: u32 = 0x200;
/// Maximum number of routes to search for learned ones. A router has more routes, and must not be
/// slowed down by the search.
const MAX_ROUTES: usize = 4096;

/// The fields of `struct rtnl_link_stats64`, in order, with their names in sysfs.
const STATISTICS: [&str; 25] = [
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
];

/// Returns the devices, by name.
pub(super) fn devices(netlink: &mut Netlink) -> Reading<BTreeMap<String, Device>> {
    let mut devices = BTreeMap::new();
    let listed = netlink.list(
        GET_LINK,
        &[0; LINK_HEADER],
        &mut devices,
        BTreeMap::clear,
        |devices, body| {
            devices.extend(device(body));
            ControlFlow::Continue(())
        },
    );
    listed.map_or_else(Reading::Missing, |()| Reading::Seen(devices))
}

/// Returns the queueing disciplines of these devices.
pub(super) fn qdiscs(
    netlink: &mut Netlink,
    devices: &BTreeMap<String, Device>,
) -> Reading<Vec<Qdisc>> {
    let names: BTreeMap<u32, &str> =
        devices.iter().map(|(name, device)| (device.index, &name[..])).collect();
    let mut qdiscs = Vec::new();
    let listed =
        netlink.list(GET_QDISC, &[0; QDISC_HEADER], &mut qdiscs, Vec::clear, |qdiscs, body| {
            qdiscs.extend(qdisc(body, &names));
            ControlFlow::Continue(())
        });
    listed.map_or_else(Reading::Missing, |()| Reading::Seen(qdiscs))
}

/// Returns the learned path MTUs.
pub(super) fn paths(netlink: &mut Netlink) -> Reading<Paths> {
    let mut paths = BTreeMap::new();
    for family in [FAMILY_V4, FAMILY_V6] {
        let mut request = [0; ROUTE_HEADER];
        request[0] = family;
        request[8..].copy_from_slice(&CLONED.to_ne_bytes());
        let mut learned = (BTreeMap::new(), 0);
        let clear = |(found, count): &mut (BTreeMap<_, _>, usize)| {
            found.clear();
            *count = 0;
        };
        let listed =
            netlink.list(GET_ROUTE, &request, &mut learned, clear, |(found, count), body| {
                found.extend(path(body));
                *count = count.saturating_add(1);
                match *count > MAX_ROUTES {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        match listed {
            Ok(()) if learned.1 > MAX_ROUTES => {
                let why = format!("there are more than {MAX_ROUTES} routes");
                return Reading::Missing(Missing::Failed(why));
            }
            Ok(()) => paths.append(&mut learned.0),
            // IPv6 is not available.
            Err(Missing::Kernel) if family == FAMILY_V6 => {}
            Err(missing) => return Reading::Missing(missing),
        }
    }
    Reading::Seen(Paths { path_mtus: paths })
}

fn device(body: &[u8]) -> Option<(String, Device)> {
    let index = u32_at(body, 4)?;
    let flags = u32_at(body, 8)?;
    let attributes = Attributes::after(body, LINK_HEADER);
    let name = attributes.find(LINK_NAME).map(text)?;
    let kind = attributes.within(LINK_INFO).find(LINK_INFO_KIND).map(text).unwrap_or_default();
    let values = attributes.find(LINK_STATISTICS).unwrap_or_default().chunks_exact(8);
    let values = values.filter_map(|value| u64_at(value, 0));
    let statistics = STATISTICS.iter().map(|name| (*name).to_owned()).zip(values);
    let xdp = attributes.within(LINK_XDP).find(LINK_XDP_ATTACHED);
    let xdp = xdp.and_then(|attached| attached.first().copied()).unwrap_or(0);
    let device = Device {
        index,
        kind,
        mtu: attributes.find(LINK_MTU).and_then(|mtu| u32_at(mtu, 0)).unwrap_or_default(),
        is_running: flags & RUNNING == RUNNING,
        statistics: statistics.collect::<Counters>(),
        has_xdp: xdp != 0,
        has_generic_xdp: XDP_ATTACHED_GENERIC.contains(&xdp),
        ..Device::default()
    };
    Some((name, device))
}

fn qdisc(body: &[u8], names: &BTreeMap<u32, &str>) -> Option<Qdisc> {
    let device = names.get(&u32_at(body, 4)?)?;
    let attributes = Attributes::after(body, QDISC_HEADER);
    let statistics = attributes.within(QDISC_STATISTICS);
    let queue = statistics.find(QDISC_QUEUE)?;
    let all = statistics.find(QDISC_PACKETS).and_then(|packets| u64_at(packets, 0));
    let basic = statistics.find(QDISC_BASIC).and_then(|basic| u32_at(basic, 8)).map(u64::from);
    let value = |place: usize| word_at(queue, place).map(u64::from);
    Some(Qdisc {
        device: (*device).to_owned(),
        kind: attributes.find(QDISC_KIND).map(text)?,
        handle: u32_at(body, 8)?,
        parent: u32_at(body, 12)?,
        packets: all.or(basic)?,
        queued: value(0)?,
        queued_bytes: value(1)?,
        drops: value(2)?,
        requeues: value(3)?,
        overlimits: value(4)?,
    })
}

/// Returns a destination and its path MTU, if the path MTU was learned.
fn path(body: &[u8]) -> Option<(String, u32)> {
    if u32_at(body, 8)? & CLONED == 0 {
        return None;
    }
    let attributes = Attributes::after(body, ROUTE_HEADER);
    let mtu = u32_at(attributes.within(ROUTE_METRICS).find(ROUTE_MTU)?, 0)?;
    let address = attributes.find(ROUTE_DESTINATION)?;
    let destination = match *body.first()? {
        FAMILY_V4 => Ipv4Addr::from(array::<4>(address, 0)?).to_string(),
        _ => Ipv6Addr::from(array::<16>(address, 0)?).to_string(),
    };
    Some((destination, mtu))
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
