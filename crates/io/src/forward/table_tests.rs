use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const IDLE: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

fn server(number: u8) -> SocketAddr {
    ([192, 0, 2, number], 443).into()
}

fn client(number: u16) -> Client {
    Client { remote: ([198, 51, 100, 1], number).into(), local_ip: None }
}

#[test]
fn a_client_keeps_its_port_while_it_sends() {
    let mut table = Table::new(2, IDLE);
    assert_eq!(table.port(at(0), server(1), client(1)), Some(0));
    assert_eq!(table.port(at(5), server(1), client(2)), Some(1));
    assert_eq!(table.port(at(6), server(1), client(3)), None);
    // Towards another server all ports are free.
    assert_eq!(table.port(at(6), server(2), client(3)), Some(0));
    assert_eq!(table.port(at(9), server(1), client(1)), Some(0));
    assert_eq!(table.client(0, server(1)), Some(client(1)));
    assert_eq!(table.client(0, server(2)), Some(client(3)));
    assert_eq!(table.client(1, server(2)), None);
    assert_eq!(table.in_use(), 3);
    // The second client has been idle for long enough; the first not yet.
    assert_eq!(table.port(at(15), server(1), client(3)), Some(1));
    assert_eq!(table.port(at(16), server(1), client(2)), None);
    table.expire(at(40));
    assert_eq!((table.in_use(), table.deadline()), (0, None));
    assert_eq!((table.client(0, server(1)), table.servers.len()), (None, 0));
}

#[test]
fn a_client_at_two_local_addresses_is_two() {
    let mut table = Table::new(2, IDLE);
    let [one, other] = [1, 2].map(|last| Some(IpAddr::from([203, 0, 113, last])));
    let client = |local_ip| Client { local_ip, ..client(1) };
    assert_eq!(table.port(at(0), server(1), client(one)), Some(0));
    assert_eq!(table.port(at(0), server(1), client(other)), Some(1));
    assert_eq!(table.client(1, server(1)), Some(client(other)));
}

#[test]
fn a_port_is_free_for_as_long_as_possible_before_another_client_has_it() {
    let mut table = Table::new(3, IDLE);
    for number in 0..3 {
        assert_eq!(table.port(at(number.into()), server(1), client(number)), Some(number.into()));
    }
    assert_eq!(table.port(at(9), server(1), client(0)), Some(0));
    table.give_back(2, server(1));
    table.expire(at(11));
    assert_eq!(table.port(at(12), server(1), client(3)), Some(2));
    assert_eq!(table.port(at(12), server(1), client(4)), Some(1));
    assert_eq!(table.port(at(12), server(1), client(5)), None);
}

proptest! {
    /// A port towards a server is one client's, and stays so until that has been idle. One is refused only while all are in
    /// use.
    #[test]
    fn behaves_like_a_list(
        ports in 1_u32..5,
        steps in prop::collection::vec((0_u64..4, 0_u8..3, 0_u16..8, any::<bool>()), 0..300)
    ) {
        let mut table = Table::new(ports, IDLE);
        let mut model: BTreeMap<(SocketAddr, u32), (Client, Timestamp)> = BTreeMap::new();
        let mut now = 0;
        for (later, number, who, gives_back) in steps {
            now += later;
            let (now, server, client) = (at(now), server(number), client(who));
            model.retain(|_, (_, last_used)| *last_used + IDLE > now);
            let has = model.iter().find(|((of, _), (it, _))| *of == server && *it == client);
            let has = has.map(|((_, port), _)| *port);
            let in_use = model.keys().filter(|(of, _)| *of == server).count();
            match table.port(now, server, client) {
                Some(port) => {
                    prop_assert!(port < ports);
                    prop_assert!(has.is_none_or(|it| it == port));
                    let before = model.insert((server, port), (client, now));
                    prop_assert!(before.is_none_or(|(before, _)| before == client));
                    if gives_back {
                        table.give_back(port, server);
                        model.remove(&(server, port));
                    }
                }
                None => prop_assert!(has.is_none() && in_use == ports as usize),
            }
            for port in 0..ports {
                let expected = model.get(&(server, port)).map(|(client, _)| *client);
                prop_assert_eq!(table.client(port, server), expected);
            }
            prop_assert_eq!(table.in_use(), model.len());
            prop_assert_eq!(table.leases.iter().flatten().count(), model.len());
            prop_assert_eq!(table.by_client.len(), model.len());
            let earliest = model.values().map(|(_, last_used)| *last_used + IDLE).min();
            prop_assert!(table.deadline() <= earliest || earliest.is_none());
        }
        table.expire(at(now + 20));
        prop_assert_eq!((table.in_use(), table.servers.len()), (0, 0));
    }
}

#[test]
fn the_next_process_knows_whose_ports_they_are() {
    let (server, idle) = (server(1), Duration::from_secs(60));
    let mut before = Table::new(8, idle);
    let now = Timestamp::ORIGIN + Duration::from_secs(1000);
    for number in 0..4 {
        assert_eq!(before.port(now, server, client(number)), Some(number.into()));
    }
    before.give_back(1, server);
    let later = now + Duration::from_secs(30);
    before.port(later, server, client(3));
    let mut after = Table::new(8, idle);
    let mut saved = before.save(later);
    // In any order, and one of them twice.
    saved.rotate_left(1);
    saved.push(saved[0]);
    saved.iter().for_each(|lease| after.restore(now, *lease));
    assert_eq!(after.in_use(), 3);
    for number in [0, 2, 3] {
        assert_eq!(after.client(u32::from(number), server), Some(client(number)));
    }
    assert_eq!(after.port(now, server, client(9)), Some(1), "it was given back");
    assert_eq!(after.port(now, server, client(10)), Some(4));
    // What was idle for a while remains so.
    after.expire(now + Duration::from_secs(31));
    assert_eq!(after.client(0, server), None);
    assert_eq!(after.client(3, server), Some(client(3)));
    // With fewer ports there are fewer clients.
    let mut smaller = Table::new(3, idle);
    saved.iter().for_each(|lease| smaller.restore(now, *lease));
    assert_eq!(smaller.in_use(), 2);
}
