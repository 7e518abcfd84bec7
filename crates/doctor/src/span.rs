//! The snapshots that can be compared with each other, and their counters.

use crate::change;
use crate::{Counters, Protocols, Reading, Snapshot};

/// Snapshots of one boot and one namespace, in chronological order.
pub(crate) struct Span<'a> {
    pub(crate) snapshots: Vec<&'a Snapshot>,
    /// Seconds between the first and the last snapshot.
    pub(crate) seconds: f64,
}

impl<'a> Span<'a> {
    /// Selects the latest of `snapshots` that can be compared with each other. Also returns why the
    /// other snapshots cannot be compared.
    pub(crate) fn new(snapshots: &'a [Snapshot]) -> (Self, Vec<String>) {
        let (mut kept, mut oddities): (Vec<&Snapshot>, _) = (Vec::new(), Vec::new());
        for snapshot in snapshots {
            if let Some(before) = kept.last()
                && let Some(why) = incomparable(before, snapshot)
            {
                let count = kept.len();
                oddities.push(format!("{why}; {count} earlier snapshots were left out"));
                kept.clear();
            }
            kept.push(snapshot);
        }
        if let Some(last) = kept.last() {
            for (part, missing) in [
                ("the network namespace", last.namespace.seen().is_none()),
                ("the boot ID", last.boot.seen().is_none()),
            ] {
                if missing {
                    oddities.push(format!(
                        "{part} is missing: cannot check whether these snapshots are from the same \
                         host"
                    ));
                }
            }
        }
        let taken = |snapshot: Option<&&Snapshot>| snapshot.map_or(0, |it| it.taken);
        let nanoseconds = taken(kept.last()).saturating_sub(taken(kept.first()));
        (Self { snapshots: kept, seconds: seconds(nanoseconds) }, oddities)
    }

    /// Returns whether there are at least two snapshots to compare.
    pub(crate) fn is_comparable(&self) -> bool {
        self.snapshots.len() >= 2 && self.seconds > 0.0
    }

    /// Returns one value from each snapshot.
    pub(crate) fn values<T>(&self, get: impl Fn(&'a Snapshot) -> Option<T>) -> Vec<Option<T>> {
        self.snapshots.iter().map(|snapshot| get(snapshot)).collect()
    }

    /// Returns the values of a protocol counter.
    pub(crate) fn protocol(&self, table: Table, name: &str) -> Vec<Option<u64>> {
        self.values(|it| table.of(it.protocols.seen()?)?.get(name).copied())
    }

    /// Returns the number of the host's CPUs, as far as it is known.
    pub(crate) fn cpus(&self) -> u64 {
        let cpus = self.snapshots.iter().filter_map(|it| it.softnet.seen().map(Vec::len)).max();
        u64::try_from(cpus.unwrap_or(1)).unwrap_or(u64::MAX).clamp(1, 1 << 16)
    }

    /// Returns the rise of the kernel's count of packets dropped for this reason on the whole host.
    pub(crate) fn reason(&self, name: &str) -> Option<u64> {
        self.sees_reasons().then(|| {
            let get = |it: &Snapshot| {
                let reasons = it.drop_reasons.seen()?;
                // A reason with which no packet was dropped yet has no entry.
                let find = |(key, count): (&String, &u64)| (bare(key) == name).then_some(*count);
                Some(reasons.iter().find_map(find).unwrap_or(0))
            };
            let values: Vec<_> = self.snapshots.iter().map(|it| get(it)).collect();
            change::rise(&values).map_or(0, |rise| rise.total)
        })
    }

    /// Returns whether the snapshots contain drop counts by reason.
    pub(crate) fn sees_reasons(&self) -> bool {
        self.snapshots.iter().filter(|it| it.drop_reasons.seen().is_some()).count() >= 2
    }
}

/// Returns the name of a drop reason without the enumeration's prefix.
fn bare(reason: &str) -> &str {
    reason.strip_prefix("SKB_DROP_REASON_").unwrap_or(reason)
}

/// Returns why `later` cannot be compared with `earlier`.
fn incomparable(earlier: &Snapshot, later: &Snapshot) -> Option<String> {
    if later.taken <= earlier.taken {
        return Some(format!(
            "a snapshot was taken at {} ns and the previous one at {} ns: time did not advance",
            later.taken, earlier.taken
        ));
    }
    if let (Reading::Seen(one), Reading::Seen(other)) = (&earlier.boot, &later.boot)
        && one != other
    {
        return Some("the host was rebooted between two snapshots".to_owned());
    }
    if let (Reading::Seen(one), Reading::Seen(other)) = (&earlier.namespace, &later.namespace)
        && one != other
    {
        return Some(format!(
            "two snapshots are from different network namespaces ({one} and {other})"
        ));
    }
    None
}

/// Converts nanoseconds to seconds.
pub(crate) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The tables of protocol counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Ip,
    IpExt,
    TcpExt,
    Icmp,
    Udp,
    Ipv6,
}

impl Table {
    fn of(self, protocols: &Protocols) -> Option<&Counters> {
        match self {
            Self::Ip => Some(&protocols.ip),
            Self::IpExt => Some(&protocols.ip_ext),
            Self::TcpExt => Some(&protocols.tcp_ext),
            Self::Icmp => Some(&protocols.icmp),
            Self::Udp => Some(&protocols.udp),
            Self::Ipv6 => protocols.ipv6.as_ref(),
        }
    }

    /// Returns the name of the counter `name` as used in messages.
    pub(crate) fn label(self, name: &str) -> String {
        match self {
            Self::Ip => format!("Ip: {name}"),
            Self::IpExt => format!("IpExt: {name}"),
            Self::TcpExt => format!("TcpExt: {name}"),
            Self::Icmp => format!("Icmp: {name}"),
            Self::Udp => format!("Udp: {name}"),
            Self::Ipv6 => name.to_owned(),
        }
    }
}
