use proptest::prelude::*;

use super::*;

const ON: MtuConfig = MtuConfig { initial: BASE, maximum: 65_527, is_enabled: true };
const V4: [u8; 4] = [192, 0, 2, 1];

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

/// Starts a search toward an IPv4 address for a sender that has much data to send.
fn wanted(config: MtuConfig) -> PathMtu {
    let mut mtu = PathMtu::new(config, V4.into());
    mtu.want();
    mtu
}

/// Sends the next probe and returns it.
fn send(mtu: &mut PathMtu, now: Timestamp) -> Option<MtuProbe> {
    let probe = mtu.next_probe(now)?;
    mtu.on_probe_sent(probe);
    Some(probe)
}

/// Completes the search on a path that carries `largest` bytes. Returns the sizes of the lost
/// probes.
fn search(mtu: &mut PathMtu, largest: u16) -> Vec<u16> {
    let mut lost = Vec::new();
    let mut count = 0;
    while let Some(probe) = send(mtu, at(1)) {
        count += 1;
        assert!(count < 40, "the search does not end");
        assert!(probe.size > mtu.size());
        if probe.size <= largest {
            mtu.on_probe_acknowledged(probe);
            assert_eq!(mtu.size(), probe.size);
        } else {
            lost.push(probe.size);
            mtu.on_probe_lost(probe);
        }
    }
    assert!(mtu.is_complete());
    lost
}

#[test]
fn ethernet_and_the_loopback_interface_are_found_at_once() {
    for (remote, ethernet, jumbo, loopback) in [
        (IpAddr::from(V4), 1472, 8972, 65_507),
        ("::ffff:192.0.2.1".parse().unwrap(), 1472, 8972, 65_507),
        ("2001:db8::1".parse().unwrap(), 1452, 8952, 65_488),
    ] {
        let mut sizes = Vec::new();
        let mut mtu = PathMtu::new(ON, remote);
        mtu.want();
        while let Some(probe) = send(&mut mtu, at(1)).filter(|probe| probe.size <= 65_507) {
            sizes.push(probe.size);
            mtu.on_probe_acknowledged(probe);
        }
        assert_eq!(sizes, [ethernet, jumbo, loopback], "{remote}");
    }
}

#[test]
fn on_ethernet_the_search_ends_after_three_probes_of_each_of_two_larger_sizes() {
    let mut mtu = wanted(ON);
    assert_eq!(search(&mut mtu, 1472), [8972, 8972, 8972, 1974, 1974, 1974]);
    assert_eq!(mtu.size(), 1472);
}

/// The search ends less than an eighth below the path MTU, and within 16 bytes of the path MTU if
/// that is below Ethernet's MTU.
#[test]
fn every_path_is_used_nearly_whole() {
    for largest in (1200..=9000).chain([16_356, 20_000, 40_000, 65_507]) {
        let mut mtu = wanted(ON);
        let lost = search(&mut mtu, largest).len();
        let found = mtu.size();
        let enough = if largest < 1472 { largest - LEAST_GAIN } else { largest / 3 * 2 };
        assert!((enough..=largest).contains(&found), "{found} of {largest}");
        assert!(lost <= 15, "{lost} probes lost at {largest}");
    }
    for (largest, found) in [(1252, 1252), (1392, 1392), (1412, 1412), (1464, 1464), (8972, 8972)] {
        let mut mtu = wanted(ON);
        search(&mut mtu, largest);
        assert_eq!(mtu.size(), found, "a common MTU is found exactly");
    }
}

#[test]
fn one_probe_is_outstanding_at_a_time_and_only_if_it_is_of_use() {
    let mut mtu = PathMtu::new(ON, V4.into());
    assert_eq!(mtu.next_probe(at(1)), None, "nothing filled a datagram");
    mtu.want();
    let probe = send(&mut mtu, at(1)).unwrap();
    assert_eq!(mtu.next_probe(at(1)), None);
    mtu.on_probe_lost(probe);
    assert!(mtu.next_probe(at(1)).is_some());
    let off = MtuConfig { is_enabled: false, ..ON };
    assert_eq!(wanted(off).next_probe(at(1)), None);
}

#[test]
fn no_limit_is_exceeded() {
    let mut mtu = wanted(MtuConfig { maximum: 1400, ..ON });
    search(&mut mtu, 65_507);
    assert_eq!(mtu.size(), 1400);
    let mut mtu = wanted(ON);
    mtu.set_peer_maximum(VarInt::from_u32(4000));
    search(&mut mtu, 65_507);
    assert_eq!(mtu.size(), 4000);
    let mut mtu = wanted(MtuConfig { initial: 1452, ..ON });
    assert_eq!(mtu.size(), 1452);
    mtu.set_peer_maximum(VarInt::from_u32(1300));
    assert_eq!(mtu.size(), 1300);
    assert_eq!(search(&mut mtu, 65_507), []);
}

#[test]
fn two_lost_probes_do_not_end_the_search_and_an_acknowledgement_forgives_them() {
    let mut mtu = wanted(ON);
    for size in [1472, 8972, 65_507] {
        for _ in 0..2 {
            let probe = send(&mut mtu, at(1)).unwrap();
            assert_eq!(probe.size, size);
            mtu.on_probe_lost(probe);
        }
        let probe = send(&mut mtu, at(1)).unwrap();
        mtu.on_probe_acknowledged(probe);
    }
    assert_eq!(mtu.size(), 65_507);
}

/// A probe that was declared lost still arrives.
#[test]
fn a_late_acknowledgement_counts() {
    let mut mtu = wanted(ON);
    let late = send(&mut mtu, at(1)).unwrap();
    mtu.on_probe_lost(late);
    search(&mut mtu, 1400);
    let before = mtu.size();
    assert!((1384..=1400).contains(&before), "{before}");
    mtu.on_probe_acknowledged(late);
    assert_eq!(mtu.size(), 1472);
}

#[test]
fn what_the_kernel_refuses_is_not_tried_again() {
    let mut mtu = wanted(ON);
    let probe = send(&mut mtu, at(1)).unwrap();
    mtu.on_probe_acknowledged(probe);
    let probe = send(&mut mtu, at(1)).unwrap();
    mtu.on_probe_refused(probe);
    mtu.on_probe_lost(probe);
    let probe = send(&mut mtu, at(1)).unwrap();
    assert_eq!(probe.size, 1974);
    mtu.on_probe_refused(probe);
    assert_eq!(send(&mut mtu, at(1)), None);
    assert_eq!((mtu.size(), mtu.is_complete()), (1472, true));
}

#[test]
fn a_postponed_probe_is_sent_again() {
    let mut mtu = wanted(ON);
    let probe = send(&mut mtu, at(1)).unwrap();
    mtu.on_probe_postponed(probe);
    assert_eq!(mtu.size(), BASE);
    assert_eq!(send(&mut mtu, at(1)), Some(probe));
}

/// RFC 8899 §5.1.1: when PMTU_RAISE_TIMER expires, larger sizes are probed again.
#[test]
fn ten_minutes_later_larger_sizes_are_tried_again() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 1472);
    mtu.want();
    assert_eq!(send(&mut mtu, at(600)), None);
    let probe = send(&mut mtu, at(601)).unwrap();
    assert_eq!(probe.size, 8972);
    mtu.on_probe_acknowledged(probe);
    assert_eq!(mtu.size(), 8972);
}

#[test]
fn another_path_begins_anew_and_late_acknowledgements_of_the_old_one_do_not_count() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 8972);
    mtu.want();
    let old = send(&mut mtu, at(700)).unwrap();
    mtu.restart("2001:db8::1".parse().unwrap());
    assert_eq!(mtu.size(), BASE);
    mtu.on_probe_acknowledged(old);
    assert_eq!(mtu.size(), BASE);
    assert_eq!(send(&mut mtu, at(700)).unwrap().size, 1452);
}

/// RFC 8899 §4.3: the base size is used immediately, then the size that was in use is tried, and
/// then smaller ones.
#[test]
fn after_a_black_hole_the_search_finds_what_is_left() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 1472);
    assert!(mtu.on_black_hole());
    assert_eq!((mtu.size(), mtu.is_complete()), (BASE, false));
    let lost = search(&mut mtu, 1300);
    assert_eq!(lost, [1472, 1472, 1472, 1372, 1372, 1372, 1312, 1312, 1312]);
    assert!((1284..=1300).contains(&mtu.size()), "{}", mtu.size());
    assert!(mtu.is_complete());
}

#[test]
fn after_jumbo_frames_ethernet_is_tried_first() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 8972);
    mtu.on_black_hole();
    assert_eq!(search(&mut mtu, 1472), [8972, 8972, 8972, 1974, 1974, 1974]);
    assert_eq!(mtu.size(), 1472);
}

/// Congestion can look like a black hole. In that case one probe suffices, and sizes that failed
/// before are not probed again.
#[test]
fn a_black_hole_that_was_none_costs_one_probe() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 1472);
    mtu.on_black_hole();
    assert_eq!(search(&mut mtu, 1472), []);
    assert_eq!(mtu.size(), 1472);
}

/// Probes may take a different path from data (RFC 8899 §5.3.3).
#[test]
fn a_size_that_is_a_black_hole_twice_is_not_tried_for_ten_minutes() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 1472);
    mtu.on_black_hole();
    search(&mut mtu, 1472);
    mtu.on_black_hole();
    search(&mut mtu, 1472);
    let second = mtu.size();
    assert!(second < 1472 && second > 1400, "{second}");
    mtu.on_black_hole();
    search(&mut mtu, 1472);
    assert!(mtu.size() < second);
    mtu.want();
    assert!(send(&mut mtu, at(2000)).is_some());
    assert!(!PathMtu::new(ON, V4.into()).on_black_hole(), "the base cannot be left");
}

/// RFC 9002 §6.2.4: a probe of a silent peer has a size that passes on every path.
#[test]
fn silent_peers_are_probed_with_the_base_size() {
    let mut mtu = wanted(ON);
    search(&mut mtu, 8972);
    assert_eq!(mtu.safe_size(), BASE);
    let off = MtuConfig { initial: 1452, is_enabled: false, ..ON };
    assert_eq!(wanted(off).safe_size(), 1452);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acknowledge,
    Lose,
    Refuse,
    Postpone,
    Late(usize),
    BlackHole,
    Restart,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Acknowledge),
        4 => Just(Step::Lose),
        1 => Just(Step::Refuse),
        1 => Just(Step::Postpone),
        1 => (0..20_usize).prop_map(Step::Late),
        1 => Just(Step::BlackHole),
        1 => Just(Step::Restart),
        2 => (0..700_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// In all cases, the datagram size is the initial one or one that was acknowledged since the
    /// path changed or a black hole was detected, no probe is smaller than this size or above the
    /// limits, and every search ends.
    #[test]
    fn the_size_is_always_a_known_one(
        maximum in 1200..=65_527_u16,
        peer in 1200..=65_527_u32,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut mtu = wanted(MtuConfig { maximum, ..ON });
        mtu.set_peer_maximum(VarInt::from_u32(peer));
        let limit = maximum.min(u16::try_from(peer).unwrap()).min(65_507);
        let (mut now, mut old) = (at(1), Vec::new());
        let mut known = vec![BASE];
        for step in steps {
            mtu.want();
            if let Some(probe) = send(&mut mtu, now) {
                prop_assert!(probe.size > mtu.size() && probe.size <= limit);
                match step {
                    Step::Acknowledge => {
                        mtu.on_probe_acknowledged(probe);
                        known.push(probe.size);
                    }
                    Step::Refuse => mtu.on_probe_refused(probe),
                    Step::Postpone => mtu.on_probe_postponed(probe),
                    _ => mtu.on_probe_lost(probe),
                }
                old.push(probe);
            }
            match step {
                Step::Late(index) if !old.is_empty() => {
                    let probe = old[index % old.len()];
                    mtu.on_probe_acknowledged(probe);
                    if probe.epoch == mtu.epoch {
                        known.push(probe.size);
                    }
                }
                Step::BlackHole if mtu.on_black_hole() => known = vec![BASE],
                Step::Restart => {
                    mtu.restart(V4.into());
                    known = vec![BASE];
                }
                Step::Wait(seconds) => now += Duration::from_secs(seconds),
                _ => {}
            }
            prop_assert!(known.contains(&mtu.size()), "{} is not among {known:?}", mtu.size());
        }
        let mut probes = 0;
        while let Some(probe) = send(&mut mtu, now) {
            mtu.on_probe_lost(probe);
            probes += 1;
            prop_assert!(probes < 100);
        }
    }
}
