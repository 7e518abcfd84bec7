//! The meaning of drivers' statistics (`ethtool -S`): each driver has its own names.

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::device;
use crate::examination::{Examination, evidence};
use crate::{Driver, Evidence, Snapshot};

/// The meaning of a driver statistic, as inferred from its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// Frames dropped by the device or its driver.
    Drop,
    /// Packets dropped by XDP.
    Xdp,
    /// An unknown statistic whose name suggests dropped frames.
    Suspect,
    /// A statistic that does not count receive losses.
    Other,
}

/// Words in a statistic's name that state where events are counted, not which events.
const PLACES: [&str; 11] =
    ["queue", "ring", "port", "prio", "ch", "drv", "dev", "total", "stat", "phy", "pkts"];

/// Names of drop counters without the words for the place, each with drivers that use it.
const DROPS: [&str; 23] = [
    "rx dropped",     // i40e, ice (also used for the port)
    "dropped rx",     // vmxnet3
    "rx dropped pkt", // gve
    "rx drops",       // veth, igb, igc, virtio_net, ena
    "rx drop",        // dpaa2
    "rx hw drops",    // virtio_net
    "rx hw drop overruns",
    "rx discards",             // bnxt, mlx5, tg3, nfp
    "rx discard",              // bnxt
    "rx buf discard",          // mlx5
    "rx missed",               // r8169
    "rx missed errors",        // e1000e, igb, ixgbe
    "rx steer missed packets", // mlx5
    "rx out of buffer",        // mlx5
    "rx no dma resources",     // ixgbe
    "no buff discards",        // qede
    "rx errors",
    "rx crc errors",
    "rx frame errors",
    "rx length errors",
    "rx over errors",
    "rx fifo errors",
    "rx oversize buffer", // mlx5
];

/// Names that suggest drops but count something else: the frame waits in the device, or belongs to
/// the device's management.
const NO_DROPS: [&str; 2] = ["rx no buffer count", "rx dropped smbus"];

/// Returns what a statistic with this name counts.
pub(crate) fn meaning(name: &str) -> Meaning {
    let words = words(name);
    let has = |all: &[&str]| words.iter().any(|word| all.contains(&word.as_str()));
    let kept: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !PLACES.contains(word)).collect();
    let bare = kept.join(" ");
    let is_loss = ["drop", "drops", "dropped", "discard", "discards", "discarded", "missed"];
    let is_fault = ["err", "errs", "error", "errors", "aborted", "invalid", "full"];
    if has(&["xdp", "xsk"]) {
        // If the send ring of an AF_XDP socket is full, the sender only waits: nothing is dropped.
        let is_of_sending = has(&["xsk"]) && has(&["tx"]);
        return match (has(&is_loss) || has(&is_fault)) && !is_of_sending {
            true => Meaning::Xdp,
            false => Meaning::Other,
        };
    }
    match bare.as_str() {
        known if DROPS.contains(&known) => Meaning::Drop,
        known if NO_DROPS.contains(&known) => Meaning::Other,
        _ if has(&["tx"]) => Meaning::Other,
        _ if has(&is_loss)
            || ["no buf", "nobuf", "out of buf", "no desc"]
                .iter()
                .any(|part| bare.contains(part)) =>
        {
            Meaning::Suspect
        }
        _ => Meaning::Other,
    }
}

/// Returns the words of a statistic's name, without queue numbers.
fn words(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let words = name.split(|letter: char| !letter.is_ascii_alphabetic());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The rise of the statistics of a device's driver.
#[derive(Default)]
pub(crate) struct Rises {
    /// Minimum number of frames that were dropped, except by XDP. Drivers count the same frame per
    /// queue, per port and in total. Therefore, only statistics with the same words are added up,
    /// separately for per-queue statistics, and the largest of these sums counts.
    pub(crate) dropped: u64,
    /// Minimum number of packets dropped by XDP.
    pub(crate) xdp: u64,
    /// Statistics that rose and may count losses.
    pub(crate) suspects: Vec<Evidence>,
}

/// A group of statistics that are added up.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    is_xdp: bool,
    /// Whether the statistic belongs to a single queue, whose number is in its name.
    is_of_one: bool,
    words: Vec<String>,
}

/// Examines the statistics of a device's driver. Known drops are added to `dropped` as evidence,
/// and drops by XDP to `by_xdp`.
pub(crate) fn rises(
    examination: &mut Examination<'_>,
    name: &str,
    dropped: &mut Vec<Evidence>,
    by_xdp: &mut Vec<Evidence>,
) -> Rises {
    let seen = examination.span.snapshots.iter().filter_map(|it| statistics(it, name));
    let counters: BTreeSet<String> = seen.flat_map(|it| it.statistics.keys().cloned()).collect();
    let (mut rises, mut sums) = (Rises::default(), BTreeMap::<Kind, u64>::new());
    for counter in counters {
        let meaning = meaning(&counter);
        if meaning == Meaning::Other {
            continue;
        }
        let readings =
            examination.span.values(|it| statistics(it, name)?.statistics.get(&counter).copied());
        let label = format!("{name}: driver counter {counter}");
        let rise = examination.known_rise(&label, &readings).map_or(0, |rise| rise.total);
        let is_xdp = match meaning {
            Meaning::Suspect if rise == 0 => continue,
            Meaning::Suspect => {
                rises.suspects.push(evidence(label, rise));
                continue;
            }
            Meaning::Xdp => true,
            Meaning::Drop | Meaning::Other => false,
        };
        if is_xdp { &mut *by_xdp } else { &mut *dropped }.push(evidence(label, rise));
        let is_of_one = counter.contains(|letter: char| letter.is_ascii_digit());
        let kind = Kind { is_xdp, is_of_one, words: words(&counter) };
        let sum = sums.entry(kind).or_default();
        *sum = sum.saturating_add(rise);
    }
    let largest = |of_xdp| {
        let sums = sums.iter().filter(|(kind, _)| kind.is_xdp == of_xdp);
        sums.map(|(_, sum)| *sum).max().unwrap_or(0)
    };
    (rises.dropped, rises.xdp) = (largest(false), largest(true));
    rises
}

fn statistics<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Driver> {
    device(snapshot, name)?.driver.seen()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_are_told_apart() {
        let cases: [(Meaning, &[&str]); 4] = [
            (
                Meaning::Drop,
                &[
                    "rx_queue_0_drops", // veth, igb
                    "rx0_drops",        // virtio_net
                    "rx_drops",
                    "rx_missed_errors", // ixgbe
                    "rx_no_dma_resources",
                    "rx_out_of_buffer", // mlx5
                    "rx_discards_phy",
                    "rx_prio0_discards",
                    "port.rx_dropped",  // i40e, ice
                    "[0]: rx_discards", // bnxt
                    "rx_total_discard_pkts",
                    "rx_dropped_pkt[3]",    // gve
                    "drv dropped rx total", // vmxnet3
                    "rx_crc_errors",
                ],
            ),
            (
                Meaning::Xdp,
                &[
                    "rx_queue_0_xdp_drops", // veth
                    "rx_queue_0_xdp_tx_errors",
                    "tx_queue_0_xdp_xmit_errors",
                    "rx0_xdp_drops", // virtio_net
                    "rx_xdp_drop",   // mlx5
                    "rx_xdp_tx_full",
                    "queue_0_rx_xdp_aborted", // ena
                    "Rx ring  0 XDP drops",   // enetc
                ],
            ),
            (Meaning::Suspect, &["rx_fancy_dropped", "port_rx_nobuf", "rx_filter_discards"]),
            (
                Meaning::Other,
                &[
                    "",
                    "peer_ifindex",
                    "rx_queue_0_xdp_packets",
                    "rx_no_buffer_count", // e1000e: the frame waits in the device
                    "rx_dropped_smbus",
                    "tx_dropped",
                    "tx0_xsk_full",
                    "rx_packets",
                    "rx_dropbox",
                ],
            ),
        ];
        for (expected, names) in cases {
            for name in names {
                assert_eq!(meaning(name), expected, "{name}");
            }
        }
    }
}
