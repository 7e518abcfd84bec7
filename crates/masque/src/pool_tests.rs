use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pool(networks: &[&str]) -> Result<AddressPool, PoolError> {
    let networks: Vec<IpNet> = networks.iter().map(|text| text.parse().unwrap()).collect();
    AddressPool::new(&networks)
}

#[test]
fn reserved_addresses_are_never_assigned() {
    let mut pool = pool(&["192.0.2.8/29", "2001:db8::/126"]).unwrap();
    assert_eq!(pool.gateways().collect::<Vec<_>>(), [ip("192.0.2.9"), ip("2001:db8::1")]);
    for (address, error) in [
        ("192.0.2.8", PoolError::Reserved),
        ("192.0.2.9", PoolError::Reserved),
        ("192.0.2.15", PoolError::Reserved),
        ("192.0.2.7", PoolError::OutsideOfPool),
        ("192.0.2.16", PoolError::OutsideOfPool),
        ("2001:db8::", PoolError::Reserved),
        ("2001:db8::1", PoolError::Reserved),
        ("2001:db8::3", PoolError::Reserved),
    ] {
        assert_eq!(pool.assign(ip(address)), Err(error), "{address}");
        assert!(!pool.release(ip(address)));
    }
    let all: Vec<IpAddr> = (0..5).map(|_| pool.assign_any(true).unwrap()).collect();
    assert_eq!(all, (10..15).map(|last| ip(&format!("192.0.2.{last}"))).collect::<Vec<_>>());
    assert_eq!(pool.assign_any(true), Err(PoolError::Exhausted));
    assert_eq!(pool.assign_any(false), Ok(ip("2001:db8::2")));
    assert_eq!(pool.assigned(), 6);
}

#[test]
fn prefixes_are_checked() {
    for (networks, error) in [
        (&["192.0.2.0/31"][..], PoolError::TooSmall),
        (&["192.0.2.0/32"], PoolError::TooSmall),
        (&["255.255.255.255/32"], PoolError::TooSmall),
        (&["::/127"], PoolError::TooSmall),
        (&["10.0.0.0/8", "10.1.0.0/16"], PoolError::Overlap),
        (&["10.1.0.0/16", "10.0.0.0/8"], PoolError::Overlap),
    ] {
        assert_eq!(pool(networks).unwrap_err(), error, "{networks:?}");
    }
    assert_eq!(pool(&["10.0.0.0/8"]).unwrap().assign_any(false), Err(PoolError::NoPrefix));
    assert_eq!(pool(&["::/0"]).unwrap().assign_any(false), Ok(ip("::2")));
    assert_eq!(pool(&["0.0.0.0/0"]).unwrap().assign_any(true), Ok(ip("0.0.0.2")));
}

#[test]
fn released_addresses_are_assigned_again_as_late_as_possible() {
    let mut pool = pool(&["192.0.2.0/29"]).unwrap();
    let first = pool.assign_any(true).unwrap();
    pool.assign(ip("192.0.2.3")).unwrap();
    pool.release(ip("192.0.2.3"));
    pool.release(first);
    let next: Vec<IpAddr> = (0..5).map(|_| pool.assign_any(true).unwrap()).collect();
    let expected = ["192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.3", "192.0.2.2"].map(ip);
    assert_eq!(next, expected);
}

#[test]
fn the_memory_of_a_pool_is_bounded() {
    let mut pool = pool(&["2001:db8::/64"]).unwrap();
    for _ in 0..3 * MAX_RELEASED {
        let address = pool.assign_any(false).unwrap();
        pool.release(address);
    }
    let prefix = &pool.prefixes[0];
    assert_eq!((prefix.released.len(), prefix.order.len()), (MAX_RELEASED, MAX_RELEASED));
    assert!(prefix.assigned.is_empty());
}

/// Tests the requirements of RFC 9484 §4.7.2.
#[test]
fn section_4_7_2_requests_are_answered() {
    let mut pool = pool(&["192.0.2.0/30"]).unwrap();
    let request =
        |id, prefix: &str| RequestedAddress { request_id: id, prefix: prefix.parse().unwrap() };
    let answer = pool.answer(&request(5, "0.0.0.0/32"));
    assert_eq!((answer.request_id, answer.prefix), (5, "192.0.2.2/32".parse().unwrap()));
    let answer = pool.answer(&request(6, "192.0.2.2/32"));
    assert!(answer.is_rejection() && answer.request_id == 6);
    assert!(pool.answer(&request(7, "::/64")).is_rejection());
    pool.release(ip("192.0.2.2"));
    let answer = pool.answer(&request(8, "192.0.2.2/32"));
    assert_eq!(answer.prefix, "192.0.2.2/32".parse().unwrap());
}

#[derive(Clone, Debug)]
enum Step {
    Any(bool),
    Assign(u8),
    Release(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(Step::Any),
        2 => (0u8..40).prop_map(Step::Assign),
        3 => (0u8..40).prop_map(Step::Release),
    ]
}

proptest! {
    /// Compares a pool with a set of assigned addresses.
    #[test]
    fn a_pool_agrees_with_a_set(steps in proptest::collection::vec(step(), 0..200)) {
        let mut pool = pool(&["192.0.2.0/28", "192.0.2.16/29", "2001:db8::/124"]).unwrap();
        let usable = |last: u8| (2..15).contains(&last) || (18..23).contains(&last);
        let v4 = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut model: BTreeSet<IpAddr> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Any(is_ipv4) => {
                    let capacity = if is_ipv4 { 13 + 5 } else { 13 };
                    let used = model.iter().filter(|it| it.is_ipv4() == is_ipv4).count();
                    match pool.assign_any(is_ipv4) {
                        Ok(address) => {
                            prop_assert!(model.insert(address));
                            if let IpAddr::V4(address) = address {
                                prop_assert!(usable(address.octets()[3]));
                            }
                        }
                        Err(error) => {
                            prop_assert_eq!((error, used), (PoolError::Exhausted, capacity));
                        }
                    }
                }
                Step::Assign(last) => {
                    let expected = usable(last) && !model.contains(&v4(last));
                    prop_assert_eq!(pool.assign(v4(last)).is_ok(), expected);
                    if expected {
                        model.insert(v4(last));
                    }
                }
                Step::Release(last) => {
                    prop_assert_eq!(pool.release(v4(last)), model.remove(&v4(last)));
                }
            }
            prop_assert_eq!(pool.assigned(), model.len());
        }
    }
}
