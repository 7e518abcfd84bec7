use proptest::prelude::*;

use super::super::netlink::attribute;
use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn link() -> Vec<u8> {
    let statistics: Vec<u8> = (1..=25_u64).flat_map(u64::to_ne_bytes).collect();
    [
        words(&[0, 5, 0x1_0043, 0]),
        attribute(LINK_NAME, b"veth0\0"),
        attribute(LINK_MTU, &1500_u32.to_ne_bytes()),
        attribute(LINK_INFO, &attribute(LINK_INFO_KIND, b"veth\0")),
        attribute(LINK_STATISTICS, &statistics),
        attribute(LINK_XDP, &attribute(LINK_XDP_ATTACHED, &[2])),
    ]
    .concat()
}

fn discipline() -> Vec<u8> {
    let basic = words(&[1000, 0, 7, 0]);
    let queue = words(&[1, 2, 3, 4, 5]);
    let statistics = [attribute(QDISC_BASIC, &basic), attribute(QDISC_QUEUE, &queue)].concat();
    [
        words(&[0, 5, 0x8001_0000, u32::MAX, 0]),
        attribute(QDISC_KIND, b"tbf\0"),
        attribute(QDISC_STATISTICS, &statistics),
    ]
    .concat()
}

fn learned(flags: u32) -> Vec<u8> {
    let metrics = attribute(ROUTE_MTU, &1280_u32.to_ne_bytes());
    [
        words(&[u32::from(FAMILY_V4), 0, flags]),
        attribute(ROUTE_DESTINATION, &[192, 0, 2, 1]),
        attribute(ROUTE_METRICS, &metrics),
    ]
    .concat()
}

#[test]
fn a_device_with_its_statistics() {
    let (name, device) = device(&link()).unwrap();
    assert_eq!((&name[..], &device.kind[..], device.index, device.mtu), ("veth0", "veth", 5, 1500));
    assert!(device.is_running && device.has_xdp && device.has_generic_xdp);
    assert_eq!(device.statistics["rx_packets"], 1);
    assert_eq!(device.statistics["rx_otherhost_dropped"], 25);
}

#[test]
fn a_queueing_discipline() {
    let names = BTreeMap::from([(5, "veth0")]);
    let qdisc = qdisc(&discipline(), &names).unwrap();
    let expected = Qdisc {
        device: "veth0".to_owned(),
        kind: "tbf".to_owned(),
        handle: 0x8001_0000,
        parent: u32::MAX,
        packets: 7,
        drops: 3,
        overlimits: 5,
        requeues: 4,
        queued: 1,
        queued_bytes: 2,
    };
    assert_eq!(qdisc, expected);
}

#[test]
fn a_path_mtu_is_that_of_a_learned_route() {
    assert_eq!(path(&learned(CLONED)), Some(("192.0.2.1".to_owned(), 1280)));
    assert_eq!(path(&learned(0)), None);
}

#[test]
fn statistics_that_a_kernel_does_not_have_are_left_out() {
    let statistics: Vec<u8> = (1..=4_u64).flat_map(u64::to_ne_bytes).collect();
    let body =
        [words(&[0; 4]), attribute(LINK_NAME, b"a"), attribute(LINK_STATISTICS, &statistics)];
    let (_, device) = device(&body.concat()).unwrap();
    assert_eq!(device.statistics.len(), 4);
    assert_eq!(device.statistics.get("rx_dropped"), None);
}

#[test]
fn what_is_cut_off_is_left_out() {
    let names = BTreeMap::from([(5, "veth0")]);
    for len in 0..link().len() {
        let _ = device(&link()[..len]);
    }
    for len in 0..discipline().len() {
        assert_eq!(qdisc(&discipline()[..len], &names), None, "{len}");
    }
    for len in 0..learned(CLONED).len() {
        assert_eq!(path(&learned(CLONED)[..len]), None, "{len}");
    }
}

#[test]
fn this_system_has_a_loopback_device() {
    let mut netlink = Netlink::open(None).unwrap();
    let Reading::Seen(devices) = devices(&mut netlink) else { panic!("devices can be read") };
    assert!(devices["lo"].statistics.contains_key("rx_dropped"));
    let Reading::Seen(qdiscs) = qdiscs(&mut netlink, &devices) else {
        panic!("qdiscs can be read")
    };
    assert!(qdiscs.iter().all(|qdisc| devices.contains_key(&qdisc.device)));
    assert!(paths(&mut netlink).seen().is_some());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let names = BTreeMap::from([(0, "a")]);
        let _ = (device(&bytes), qdisc(&bytes, &names), path(&bytes));
    }
}
