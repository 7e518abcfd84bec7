use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

fn client(number: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 10_000 + u16::try_from(number).unwrap()))
}

fn server() -> SocketAddr {
    "127.0.0.1:4433".parse().unwrap()
}

#[test]
fn a_client_keeps_its_flow() {
    let mut flows = Flows::new(server(), false);
    let first = flows.of_client(at(0), client(1), None).unwrap();
    let second = flows.of_client(at(0), client(2), None).unwrap();
    assert_ne!(first, second);
    assert_eq!(flows.of_client(at(100), client(1), None), Some(first));
    assert_eq!(flows.len(), 2);
}

#[test]
fn clients_are_bounded_and_only_silent_ones_are_evicted() {
    let mut flows = Flows::new(server(), false);
    let ids: Vec<_> = (0..MAX_FLOWS)
        .map(|number| flows.of_client(at(0), client(number), None).unwrap())
        .collect();
    assert_eq!(flows.of_client(at(29), client(MAX_FLOWS), None), None);
    flows.of_client(at(29), client(0), None).unwrap();
    let late = flows.of_client(at(30), client(MAX_FLOWS), None).unwrap();
    assert!(!ids.contains(&late), "an ID is not used again");
    assert_eq!(flows.len(), MAX_FLOWS);
    assert!(flows.get(ids[0]).is_some(), "the client that sent something stays");
    assert!(flows.get(ids[1]).is_none(), "the client that was silent for longest is evicted");
}

#[test]
fn each_binding_has_its_own_socket_and_two_are_kept() {
    let mut flows = Flows::new(server(), false);
    let id = flows.of_client(at(0), client(1), None).unwrap();
    let mut address = |generation| {
        let socket = flows.socket(id, generation).unwrap();
        socket.map(|socket| socket.local_address().unwrap())
    };
    let first = address(0).unwrap();
    assert_eq!(address(0), Some(first));
    let second = address(1).unwrap();
    assert_ne!(first, second);
    assert_eq!(address(0), Some(first), "the previous binding is kept");
    let fourth = address(3).unwrap();
    assert_ne!(second, fourth);
    assert_eq!(address(0), None);
    assert_eq!(address(2), None, "a binding that was skipped is not created later");
    assert_eq!(flows.bindings().count(), 2);
    flows.close(id, 3);
    assert_eq!(flows.bindings().count(), 1);
    assert!(flows.socket(id + 1, 0).unwrap().is_none());
}

#[test]
fn addresses_change_with_bindings_if_configured() {
    let ports_only = source(server(), false, 3, 9);
    assert_eq!(ports_only, "127.0.0.1:0".parse().unwrap());
    let mut seen = std::collections::BTreeSet::new();
    for id in 0..20 {
        for generation in 0..20 {
            let source = source(server(), true, id, generation);
            assert!(source.ip().is_loopback() && source.port() == 0);
            assert!(seen.insert(source), "{source} twice");
        }
    }
    assert!(!seen.contains(&"127.0.0.1:0".parse().unwrap()));
    assert_eq!(source("10.0.0.1:1".parse().unwrap(), true, 0, 0), "0.0.0.0:0".parse().unwrap());
    assert_eq!(source("[::1]:1".parse().unwrap(), true, 0, 0), "[::1]:0".parse().unwrap());
}
