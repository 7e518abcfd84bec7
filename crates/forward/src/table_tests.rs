use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const IDLE: Duration = Duration::from_secs(10);

/// A datagram that looks like a client's first flight.
const FIRST: Claim<'_> = Claim { datagram: &[0xc0; 1200], begins: true };

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_origin(Duration::from_secs(seconds))
}

/// The server's response, with its connection ID.
const ANSWER: [u8; 15] = [0xc0, 0, 0, 0, 1, 0, 8, 7, 7, 7, 7, 7, 7, 7, 7];
/// A datagram with that connection ID.
const REPLY: Claim<'_> = Claim { datagram: &[7; 40], begins: false };

/// Returns the port of a client that has used the server's connection ID.
fn confirmed(table: &mut Table, now: Timestamp, server: SocketAddr, client: Client) -> Option<u32> {
    let port = table.port(now, server, client, FIRST)?;
    table.answered(port, server, &ANSWER);
    assert_eq!(table.port(now, server, client, REPLY), Some(port));
    Some(port)
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
    assert_eq!(confirmed(&mut table, at(0), server(1), client(1)), Some(0));
    assert_eq!(confirmed(&mut table, at(5), server(1), client(2)), Some(1));
    assert_eq!(confirmed(&mut table, at(6), server(1), client(3)), None);
    // For another server, all ports are free.
    assert_eq!(confirmed(&mut table, at(6), server(2), client(3)), Some(0));
    assert_eq!(confirmed(&mut table, at(9), server(1), client(1)), Some(0));
    assert_eq!(table.client(0, server(1)), Some(client(1)));
    assert_eq!(table.client(0, server(2)), Some(client(3)));
    assert_eq!(table.client(1, server(2)), None);
    assert_eq!(table.in_use(), 3);
    // The second client has been idle for long enough, but not the first.
    assert_eq!(confirmed(&mut table, at(15), server(1), client(3)), Some(1));
    assert_eq!(confirmed(&mut table, at(16), server(1), client(2)), None);
    table.expire(at(40));
    assert_eq!((table.in_use(), table.deadline()), (0, None));
    assert_eq!((table.client(0, server(1)), table.servers.len()), (None, 0));
}

#[test]
fn a_client_at_two_local_addresses_is_two() {
    let mut table = Table::new(2, IDLE);
    let [one, other] = [1, 2].map(|last| Some(IpAddr::from([203, 0, 113, last])));
    let client = |local_ip| Client { local_ip, ..client(1) };
    assert_eq!(confirmed(&mut table, at(0), server(1), client(one)), Some(0));
    assert_eq!(confirmed(&mut table, at(0), server(1), client(other)), Some(1));
    assert_eq!(table.client(1, server(1)), Some(client(other)));
}

#[test]
fn a_port_is_free_for_as_long_as_possible_before_another_client_has_it() {
    let mut table = Table::new(3, IDLE);
    for number in 0..3 {
        assert_eq!(
            confirmed(&mut table, at(number.into()), server(1), client(number)),
            Some(number.into())
        );
    }
    assert_eq!(confirmed(&mut table, at(9), server(1), client(0)), Some(0));
    table.release(2, server(1));
    table.expire(at(11));
    assert_eq!(confirmed(&mut table, at(12), server(1), client(3)), Some(2));
    assert_eq!(confirmed(&mut table, at(12), server(1), client(4)), Some(1));
    assert_eq!(confirmed(&mut table, at(12), server(1), client(5)), None);
}

/// Returns the address of a client that is alone in its network.
fn stranger(number: u16) -> Client {
    let [high, low] = number.to_be_bytes();
    Client { remote: ([10, high, low, 1], 4433).into(), local_ip: None }
}

/// Tests a flood: an attacker sends this datagram from a new address each time, and the server
/// responds if `is_answered`. Meanwhile, new clients still get ports, and existing clients keep
/// theirs.
fn flood(claim: Claim<'_>, is_answered: bool) -> Table {
    const PORTS: u32 = 64;
    let mut table = Table::new(PORTS, IDLE);
    let (server, start) = (server(1), at(0));
    let old: Vec<_> = (0..10).map(|number| (client(number), number)).collect();
    let ports: Vec<_> =
        old.iter().map(|(client, _)| confirmed(&mut table, start, server, *client)).collect();
    for number in 0..5_000_u16 {
        // The attacker sends ten thousand datagrams per second.
        let now = start + Duration::from_micros(100) * number.into();
        if let Some(port) = table.port(now, server, stranger(number), claim)
            && is_answered
        {
            table.answered(port, server, &ANSWER);
        }
        // The server's response arrives after 0.5 ms, and the client uses its connection ID 3 ms
        // later.
        if number % 100 == 50 {
            let newcomer = client(1_000 + number);
            let port = table.port(now, server, newcomer, FIRST);
            assert!(port.is_some(), "{number}");
            for later in 1..40 {
                let number = number + later;
                let now = now + Duration::from_micros(100) * later.into();
                let flood = table.port(now, server, stranger(number), claim);
                if let Some(port) = flood.filter(|_| is_answered) {
                    table.answered(port, server, &ANSWER);
                }
                if later == 5 {
                    let port = port.unwrap();
                    assert_eq!(table.answered(port, server, &ANSWER), Some(newcomer), "{number}");
                }
                if later == 35 {
                    assert_eq!(table.port(now, server, newcomer, REPLY), port, "{number}");
                    // The client's connection ends, to leave room for the next one.
                    table.release(port.unwrap(), server);
                }
            }
        }
    }
    let now = start + Duration::from_secs(1);
    for ((client, _), port) in old.iter().zip(ports) {
        assert_eq!(table.port(now, server, *client, FIRST), port, "an old client lost its port");
    }
    assert!(table.in_use() <= PORTS as usize);
    table
}

/// Short-header packets with forged connection IDs take up only a part of the ports, and take none
/// from other clients.
#[test]
fn strays_do_not_fill_the_table() {
    let table = flood(Claim { datagram: &[0x43; 31], begins: false }, false);
    assert_eq!(table.in_use(), 10 + 11);
}

#[test]
fn unanswered_first_flights_are_evicted_by_others() {
    let table = flood(FIRST, false);
    assert_eq!(table.in_use(), 64);
    assert!(table.evicted() > 4_000);
}

/// The server responds to spoofed first flights too. Clients with half-open connections keep their
/// ports until there are too many others.
#[test]
fn answered_first_flights_are_evicted_by_others() {
    let table = flood(FIRST, true);
    assert_eq!(table.in_use(), 64);
}

/// A client continues after a restart of the balancer, or from another address: the server
/// responds, and the client sends again.
#[test]
fn a_stray_that_is_answered_is_none() {
    let stray = Claim { datagram: &[0x43; 40], begins: false };
    let mut table = Table::new(8, IDLE);
    let port = table.port(at(0), server(1), client(1), stray).unwrap();
    table.answered(port, server(1), &[0x41; 30]);
    assert_eq!(table.port(at(0), server(1), client(1), stray), Some(port));
    for number in 0..100 {
        table.port(at(1), server(1), stranger(number), stray);
    }
    for number in 0..7 {
        assert!(table.port(at(1), server(1), stranger(200 + number), FIRST).is_some());
    }
    assert_eq!(table.client(port, server(1)), Some(client(1)));
    // Version Negotiation is a response for which servers do not keep state.
    let mut table = Table::new(1, IDLE);
    table.port(at(0), server(1), client(1), FIRST);
    table.answered(0, server(1), &[&[0x80, 0, 0, 0, 0, 0, 8][..], &[7; 8], &[0; 4]].concat());
    table.port(at(0), server(1), client(1), REPLY);
    assert_eq!(table.port(at(0), server(1), client(2), FIRST), Some(0));
}

/// A thousand clients behind one address keep their ports, and so does another client.
#[test]
fn many_clients_may_have_one_address() {
    let mut table = Table::new(4096, IDLE);
    for number in 0..1000 {
        assert!(confirmed(&mut table, at(0), server(1), client(number)).is_some());
    }
    // Even after a flood has filled the remaining ports, additional clients get ports.
    for number in 0..10_000 {
        table.port(at(1), server(1), stranger(number), FIRST);
    }
    assert_eq!(table.in_use(), 4096);
    for number in 1000..2000 {
        assert!(confirmed(&mut table, at(1), server(1), client(number)).is_some());
    }
}

/// The maximum for one address or network depends on how many ports are left for others.
#[test]
fn nobody_has_all_ports() {
    let v6 = |bits: u128| Client {
        remote: (core::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | bits), 4433).into(),
        local_ip: None,
    };
    let mut table = Table::new(1000, IDLE);
    let mut fill = |client: &dyn Fn(u16) -> Client| {
        (1..2000)
            .filter(|number| confirmed(&mut table, at(0), server(1), client(*number)).is_some())
            .count()
    };
    // The clients are an IPv4 address, others in its network, an IPv6 host, its customer network,
    // its site, and an unrelated client.
    let in_network = |number: u16| Client {
        remote: ([198, 51, 100, 2 + (number % 200) as u8], number).into(),
        ..client(0)
    };
    let had = [
        fill(&client),
        fill(&in_network),
        fill(&|number| v6(number.into())),
        fill(&|number| v6(u128::from(number % 256) << 64 | u128::from(number))),
        fill(&|number| v6(u128::from(number) << 64)),
        fill(&stranger),
    ];
    assert_eq!(had, [800, 89, 89, 10, 6, 6]);
}

/// A server that clears the QUIC bit does not accept prefaces.
#[test]
fn the_quic_bit_may_be_cleared_where_the_server_does_it() {
    let mut table = Table::new(4, IDLE);
    let port = confirmed(&mut table, at(0), server(1), client(1)).unwrap();
    for answer in [&[0x41; 50], &[0x01; 50], &[0x02; 50]] {
        table.answered(port, server(1), answer);
        assert!(!table.may_clear_quic_bit(server(1), client(1)));
    }
    table.answered(port, server(1), &[0x12; 50]);
    assert!(table.may_clear_quic_bit(server(1), client(1)));
    assert!(!table.may_clear_quic_bit(server(2), client(1)));
    assert!(!table.may_clear_quic_bit(server(1), client(2)));
}

proptest! {
    /// No matter what clients and servers send, the shares are consistent with the leases, and
    /// confirmed clients keep their ports.
    #[test]
    fn shares_agree_with_leases(
        ports in 1_u32..9,
        steps in prop::collection::vec((0_u64..2, 0_u16..12, 0_u8..5), 0..300)
    ) {
        let (mut table, server) = (Table::new(ports, IDLE), server(1));
        let mut now = 0;
        for (later, number, what) in steps {
            now += later;
            let before: Vec<Lease> = table.leases.iter().flatten().copied().collect();
            let stray = Claim { datagram: &[0x43; 31], begins: false };
            let client = if number < 8 { client(number) } else { stranger(number) };
            match what {
                0 => drop(table.port(at(now), server, client, FIRST)),
                1 => drop(table.port(at(now), server, client, stray)),
                2 => drop(table.port(at(now), server, client, REPLY)),
                3 => drop(table.answered(u32::from(number), server, &ANSWER)),
                _ => drop(table.answered(u32::from(number), server, &[0x41; 30])),
            }
            for lease in before.iter().filter(|lease| lease.stage == Stage::Confirmed) {
                let is_idle = lease.last_used + IDLE <= at(now);
                prop_assert!(is_idle || table.client(lease.port, server) == Some(lease.client));
            }
            let mut shares = Shares::default();
            for (place, lease) in table.leases.iter().enumerate() {
                if let Some(lease) = lease {
                    shares.add(lease.holder(place));
                }
            }
            let known = table.servers.get(&server).map(|it| format!("{:?}", it.shares));
            prop_assert_eq!(known.unwrap_or(format!("{:?}", Shares::default())), format!("{:?}", shares));
            prop_assert!(table.in_use() <= ports as usize);
        }
    }

    /// A port for a server belongs to one client until the client has been idle. A client is
    /// rejected only while all ports are in use.
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
            match confirmed(&mut table, now, server, client) {
                Some(port) => {
                    prop_assert!(port < ports);
                    prop_assert!(has.is_none_or(|it| it == port));
                    let before = model.insert((server, port), (client, now));
                    prop_assert!(before.is_none_or(|(before, _)| before == client));
                    if gives_back {
                        table.release(port, server);
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
        assert_eq!(confirmed(&mut before, now, server, client(number)), Some(number.into()));
    }
    before.release(1, server);
    let later = now + Duration::from_secs(30);
    confirmed(&mut before, later, server, client(3));
    let mut after = Table::new(8, idle);
    let mut saved = before.save(later);
    // Leases can be restored in any order, and even twice.
    saved.rotate_left(1);
    saved.push(saved[0]);
    saved.iter().for_each(|lease| after.restore(now, *lease));
    assert_eq!(after.in_use(), 3);
    for number in [0, 2, 3] {
        assert_eq!(after.client(u32::from(number), server), Some(client(number)));
    }
    assert_eq!(confirmed(&mut after, now, server, client(9)), Some(1), "the port was freed");
    assert_eq!(confirmed(&mut after, now, server, client(10)), Some(4));
    // The idle time continues after the handover.
    after.expire(now + Duration::from_secs(31));
    assert_eq!(after.client(0, server), None);
    assert_eq!(after.client(3, server), Some(client(3)));
    // For each server, a port has one client, and a client has one port.
    let mut unique = Table::new(10, idle);
    unique.restore(now, saved[0]);
    unique.restore(now, SavedLease { client: client(8), ..saved[0] });
    unique.restore(now, SavedLease { port: 7, ..saved[0] });
    assert_eq!(unique.in_use(), 1);
    assert_eq!(unique.client(saved[0].port, server), Some(saved[0].client));
    // With fewer ports, fewer clients are restored.
    let mut smaller = Table::new(3, idle);
    saved.iter().for_each(|lease| smaller.restore(now, *lease));
    assert_eq!(smaller.in_use(), 2);
}
