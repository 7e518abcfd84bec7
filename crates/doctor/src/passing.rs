//! Packet rates at each stage.

use std::collections::BTreeMap;

use crate::change::{above_first, rise};
use crate::span::{Span, Table};
use crate::{Device, Snapshot, Stage};

/// Returns the packets per second at each stage that counts them, between the first and the last
/// comparable snapshot. Stages that have no such counter or could not be seen have no entry.
///
/// Stages use different units: a device counts frames, IP counts packets after GRO, and UDP counts
/// reads.
pub fn passing(snapshots: &[Snapshot]) -> BTreeMap<Stage, f64> {
    let (span, _) = Span::new(snapshots);
    let mut rates = BTreeMap::new();
    if !span.is_comparable() {
        return rates;
    }
    let mut note = |stage, rise: Option<u64>| {
        if let Some(rise) = rise {
            rates.insert(stage, rise as f64 / span.seconds);
        }
    };
    note(Stage::Device, of_devices(&span, "rx_packets"));
    note(Stage::Softnet, processed(&span));
    note(Stage::Ip, both(&span, Table::Ip, "InReceives", "Ip6InReceives"));
    note(Stage::Netfilter, both(&span, Table::Ip, "InDelivers", "Ip6InDelivers"));
    note(Stage::Socket, both(&span, Table::Udp, "InDatagrams", "Udp6InDatagrams"));
    note(Stage::SendSocket, both(&span, Table::Udp, "OutDatagrams", "Udp6OutDatagrams"));
    note(Stage::SendIp, both(&span, Table::Ip, "OutRequests", "Ip6OutRequests"));
    note(Stage::SendDevice, of_devices(&span, "tx_packets"));
    rates
}

fn both(span: &Span<'_>, table: Table, name: &str, over_ipv6: &str) -> Option<u64> {
    let first = rise(&span.protocol(table, name))?.total;
    let second = rise(&span.protocol(Table::Ipv6, over_ipv6)).map_or(0, |rise| rise.total);
    Some(first.saturating_add(second))
}

/// Returns the sum of a counter over all devices that were present in the first and the last
/// snapshot.
fn of_devices(span: &Span<'_>, counter: &str) -> Option<u64> {
    let (first, last) = (span.snapshots.first()?, span.snapshots.last()?);
    let (first, last) = (first.devices.seen()?, last.devices.seen()?);
    let of = |device: &Device| device.statistics.get(counter).copied();
    let rise = |(name, device): (&String, &Device)| {
        let readings = [first.get(name).and_then(of), of(device)];
        above_first(&readings).last().copied().flatten()
    };
    Some(last.iter().filter_map(rise).fold(0, u64::saturating_add))
}

fn processed(span: &Span<'_>) -> Option<u64> {
    let sum = |it: &Snapshot| {
        let softnet = it.softnet.seen()?;
        Some(softnet.iter().fold(0_u64, |sum, it| sum.saturating_add(it.processed)))
    };
    let readings: Vec<_> = span.snapshots.iter().map(|it| sum(it)).collect();
    rise(&readings).map(|rise| rise.total)
}
