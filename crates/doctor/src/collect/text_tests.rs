use proptest::prelude::*;

use super::*;

const SNMP: &str = "\
Ip: Forwarding DefaultTTL InReceives InDelivers
Ip: 2 64 10463 10400
Tcp: RtoMin MaxConn InSegs
Tcp: 200 -1 10407
Udp: InDatagrams NoPorts InErrors RcvbufErrors
Udp: 55 1 18446744073709551615 3
";

#[test]
fn pairs_of_lines_are_counters_by_name() {
    let groups = pairs(SNMP).unwrap();
    assert_eq!(groups["Ip"]["InReceives"], 10463);
    assert_eq!(groups["Udp"]["InErrors"], u64::MAX);
    assert_eq!(groups["Tcp"].get("MaxConn"), None, "it is not a count");
}

#[test]
fn damaged_pairs_are_refused() {
    for damaged in [
        "",
        "Ip: A B\n",
        "Ip: A B\nIp: 1\n",
        "Ip: A B\nIp: 1 2 3\n",
        "Ip: A B\nUdp: 1 2\n",
        "Ip: A\nIp: x\n",
        "Ip A\nIp 1\n",
        "Ip: A\nIp: 18446744073709551616\n",
    ] {
        assert!(pairs(damaged).is_err(), "{damaged:?}");
    }
    // A truncated text is rejected, or parsed up to the truncation; its last number may then be cut
    // short.
    for len in 0..SNMP.len() {
        if let Ok(groups) = pairs(&SNMP[..len]) {
            assert!(groups.contains_key("Ip"), "{len}");
        }
    }
}

#[test]
fn lines_of_names_and_values() {
    let counters = lines("Ip6InReceives   \t12\nUdp6InErrors 0\n").unwrap();
    assert_eq!(counters["Ip6InReceives"], 12);
    for damaged in ["Ip6InReceives", "Ip6InReceives \t", "Ip6InReceives x", "a 1\n\n"] {
        assert!(lines(damaged).is_err(), "{damaged:?}");
    }
}

#[test]
fn softnet_of_new_and_old_kernels() {
    let new = "000028ce 00000001 00000002 0 0 0 0 0 0 0 00000003 00000004 00000007 0 0\n";
    let expected = SoftnetCpu {
        cpu: 7,
        processed: 0x28ce,
        dropped: 1,
        time_squeezed: 2,
        flow_limited: 3,
        queued: Some(4),
    };
    assert_eq!(softnet(new).unwrap(), [expected]);
    let old = "a 0 0 0 0 0 0 0 0 0 0\nb 0 0 0 0 0 0 0 0 0 0\n";
    let cpus = softnet(old).unwrap();
    assert_eq!((cpus[1].cpu, cpus[1].processed, cpus[1].queued), (1, 11, None));
    for damaged in ["", "a b", "a 0 0 0 0 0 0 0 0 0 x", "a 0 0 0 0 0 0 0 0 0"] {
        assert!(softnet(damaged).is_err(), "{damaged:?}");
    }
}

#[test]
fn memory_of_udp() {
    let text = "sockets: used 19\nTCP: inuse 1 mem 165\nUDP: inuse 4 mem 30\nUDPLITE: inuse 0\n";
    assert_eq!(udp_pages(text), Ok(30));
    for damaged in ["", "UDP: inuse 4", "UDP: inuse 4 mem", "UDP: inuse 4 mem x", "TCP: mem 1"] {
        assert!(udp_pages(damaged).is_err(), "{damaged:?}");
    }
    assert_eq!(three("1 2\t3\n"), Ok([1, 2, 3]));
    assert!(three("1 2").is_err() && three("1 2 3 4").is_err() && three("a b c").is_err());
}

#[test]
fn conntrack_adds_up_all_cpus() {
    let text = "entries drop early_drop\n0000000a 00000001 00000002\n0000000a 0000000f 00000000\n";
    let counters = conntrack(text).unwrap();
    assert_eq!((counters["entries"], counters["drop"], counters["early_drop"]), (10, 16, 2));
    for damaged in ["", "drop\n1\n", "entries drop\n1\n", "entries drop\n1 x\n", "entries drop\n"] {
        assert!(conntrack(damaged).is_err(), "{damaged:?}");
    }
}

#[test]
fn pressure_in_microseconds() {
    let text = "some avg10=12.59 avg60=12.65 avg300=8.34 total=53287153\nfull avg10=0.00 total=7\n";
    assert_eq!(pressure(text), Ok(53_287_153));
    assert!(pressure("full total=7\n").is_err() && pressure("some total=\n").is_err());
}

#[test]
fn throttling_of_both_versions() {
    let second = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2000\nnr_bursts 0\n";
    let expected = Throttling { periods: 10, throttled: 4, throttled_microseconds: 2000 };
    assert_eq!(throttling(second), Ok(Some(expected.clone())));
    let first = "nr_periods 10\nnr_throttled 4\nthrottled_time 2000000\n";
    assert_eq!(throttling(first), Ok(Some(expected)));
    assert_eq!(throttling("usage_usec 9\n"), Ok(None));
    assert_eq!(throttling("nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"), Ok(None));
    assert!(throttling("nr_periods 1\nnr_throttled 0\n").is_err());
    assert!(throttling("nr_periods x\n").is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in "[A-Za-z0-9: \n-]{0,200}") {
        let _ = (pairs(&text), lines(&text), softnet(&text), udp_pages(&text), three(&text));
        let _ = (conntrack(&text), pressure(&text), throttling(&text));
    }
}
