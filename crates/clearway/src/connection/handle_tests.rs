use clearway_transport::TransportConfig;

use super::*;
use crate::wakes_tests::world::{Configs, DELAY, Scene, now_or_never};
use crate::wakes_tests::{Raw, begin};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: usize = 64 << 10;

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(2 * WINDOW as u64)
        .max_stream_receive_window(2 * WINDOW as u64)
        .initial_connection_receive_window(WINDOW as u64)
        .max_connection_receive_window(WINDOW as u64)
        .max_concurrent_bidirectional_streams(1)
        .max_concurrent_unidirectional_streams(1)
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

#[test]
fn a_connection_knows_what_it_is() {
    let (raw, other) = (Raw::new(transport()), Raw::new(transport()));
    let ids = [&raw.client, &raw.server, &other.client, &other.server].map(Connection::stable_id);
    assert!((1..4).all(|at| !ids[..at].contains(&ids[at])), "{ids:?}");
    assert_eq!(raw.client.clone().stable_id(), ids[0]);
    assert_eq!([&raw.client, &raw.server].map(Connection::side), [Side::Client, Side::Server]);
    for end in [&raw.client, &raw.server] {
        let (Some(rtt), Some(least)) = (end.rtt(), end.min_rtt()) else { panic!("no sample") };
        assert!(rtt >= least && least >= 2 * DELAY, "{rtt:?} {least:?}");
    }
}

#[test]
fn a_server_knows_what_is_negotiated_before_the_handshake_is_complete() {
    let (mut world, [mut client, mut server]) = begin(&Configs::new(b"test", transport()));
    let client = world.spawn(async move { (client.handshake_data().await, client.await) });
    let server = world.spawn(async move { (server.handshake_data().await, server) });
    let (took, (known, server)) = world.wait(&server, SECOND).unwrap();
    let known = known.unwrap();
    assert_eq!((took, known.application_protocol.as_deref()), (DELAY, Some(&b"test"[..])));
    assert_eq!(known.server_name.as_deref(), Some("localhost"));
    let (took, (known, connected)) = world.wait(&client, SECOND).unwrap();
    assert_eq!(took, DELAY, "after a round trip");
    assert_eq!(known.unwrap().application_protocol.as_deref(), Some(&b"test"[..]));
    // The result is the same afterward.
    world.run_for(SECOND);
    let mut server = server;
    let known = now_or_never(server.handshake_data()).unwrap().unwrap();
    assert_eq!(known.server_name.as_deref(), Some("localhost"));
    drop(connected);
    world.run_for(SECOND);
    assert!(now_or_never(server.handshake_data()).unwrap().is_ok(), "it was established");

    // The connection ends before anything is negotiated.
    let (mut world, [mut client, server]) = begin(&Configs::new(b"test", transport()));
    world.loss = Some(Box::new(|_, _| true));
    let client = world.spawn(async move { client.handshake_data().await });
    let (_, known) = world.wait(&client, 100 * SECOND).unwrap();
    assert!(matches!(known, Err(ConnectError::Lost(_))), "{known:?}");
    drop(server);
}

#[test]
fn tasks_that_wait_for_the_handshake_continue() {
    let configs = Configs::new(b"test", transport());
    let (mut world, connecting) = begin(&configs);
    let [client, server] = connecting.map(|it| world.spawn(it));
    let (_, client) = world.wait(&client, SECOND).unwrap();
    let client = client.unwrap();
    assert_eq!(now_or_never(client.authenticated()), Some(Ok(())));
    let waiting = client.clone();
    let waiting = world.spawn(async move { waiting.handshake_confirmed().await });
    let (took, confirmed) = world.wait(&waiting, SECOND).unwrap();
    assert_eq!((took, confirmed), (2 * DELAY, Ok(())), "the server has to confirm it");
    let (_, server) = server.take().unwrap();
    assert_eq!(now_or_never(server.unwrap().handshake_confirmed()), Some(Ok(())));
    drop(client);

    // The client resumes its session, with early data.
    for completes in [true, false] {
        let (mut world, [client, server]) = begin(&configs);
        let server = world.spawn(server);
        let early = world.spawn(client.into_0rtt());
        world.settle();
        let (client, _) = early.take().unwrap().1.unwrap();
        let waiting = client.clone();
        let waiting = world.spawn(async move {
            let authenticated = waiting.authenticated().await;
            (authenticated, waiting.handshake_confirmed().await)
        });
        world.settle();
        if !completes {
            client.close(VarInt::ZERO, b"");
        }
        let (took, outcome) = world.wait(&waiting, SECOND).unwrap();
        match completes {
            true => assert_eq!((took, outcome), (4 * DELAY, (Ok(()), Ok(())))),
            false => assert!(outcome.0.is_err() && outcome.1.is_err() && took.is_zero()),
        }
        drop(server);
    }
}

#[test]
fn the_peer_gets_a_higher_limit_on_streams_at_once() {
    let mut raw = Raw::new(transport());
    let server = raw.server.clone();
    let streams =
        raw.get(async move { (server.open_uni().await.unwrap(), server.open_bi().await.unwrap()) });
    let server = raw.server.clone();
    let opening = async move { server.open_uni().await.map(|_| ()) };
    let raise = |raw: &mut Raw| raw.client.set_max_concurrent_uni_streams(VarInt::from_u32(2));
    raw.expect(1, opening, raise).unwrap();
    let server = raw.server.clone();
    let opening = async move { server.open_bi().await.map(|_| ()) };
    let raise = |raw: &mut Raw| raw.client.set_max_concurrent_bi_streams(VarInt::from_u32(2));
    raw.expect(1, opening, raise).unwrap();
    drop(streams);
}

#[test]
fn the_receive_window_follows_its_maximum() {
    let mut raw = Raw::new(transport());
    raw.client.set_receive_window(VarInt::from_u32(WINDOW as u32 / 4));
    let (mut sending, mut receiving) = raw.stream();
    let writing = raw.world.spawn(async move {
        let written = sending.write_all(&vec![0; 4 * WINDOW]).await;
        std::mem::forget(sending);
        written
    });
    // The peer uses the credit that it had from the beginning, and then the smaller window.
    let mut read = |raw: &mut Raw, most: usize| {
        raw.world.run_for(SECOND);
        let mut sum = 0;
        while sum < most
            && let Some(Ok(Some(data))) = now_or_never(receiving.read_chunk(most - sum))
        {
            sum += data.len();
        }
        sum
    };
    let first = read(&mut raw, usize::MAX);
    assert!(first <= WINDOW, "{first}");
    let second = read(&mut raw, usize::MAX);
    assert!(second > 0 && second <= WINDOW / 4, "{second}");
    raw.client.set_receive_window(VarInt::from_u32(WINDOW as u32));
    raw.world.run_for(SECOND);
    let third = read(&mut raw, usize::MAX);
    assert!(third > WINDOW / 4, "{third}");
    drop(writing);
}

#[test]
fn the_send_window_limits_what_the_transport_keeps() {
    let mut raw = Raw::new(transport());
    raw.server.set_send_window(1000);
    let (mut sending, _receiving) = raw.stream();
    raw.world.loss = Some(Box::new(|_, _| true));
    now_or_never(sending.write_all(&vec![0; WINDOW / 2])).unwrap().unwrap();
    raw.world.settle();
    let kept = |raw: &Raw| raw.world.held_bytes(1) as usize;
    assert!(kept(&raw) > WINDOW / 2 - 1000, "{} bytes wait for the transport", kept(&raw));
    raw.server.set_send_window(1 << 20);
    raw.world.settle();
    assert_eq!(kept(&raw), 0);
}

#[test]
fn keys_are_updated_when_they_can_be() {
    let (mut world, connecting) = begin(&Configs::new(b"test", transport()));
    let [client, server] = connecting.map(|it| world.spawn(it));
    let (_, client) = world.wait(&client, SECOND).unwrap();
    let client = client.unwrap();
    let updates = |client: &Connection| client.statistics().key_updates;
    // The handshake is not confirmed yet.
    for _ in 0..3 {
        client.force_key_update();
    }
    world.settle();
    assert_eq!(updates(&client), 0);
    world.run_for(SECOND);
    assert_eq!(updates(&client), 1);
    // An update is complete once a packet with the new keys is acknowledged.
    client.force_key_update();
    world.settle();
    let second = client.clone();
    let sent = world.spawn(async move {
        let mut stream = second.open_uni().await.unwrap();
        stream.write_all(b"data").await.unwrap();
        stream
    });
    world.run_for(SECOND);
    let after = updates(&client);
    assert!((1..=2).contains(&after), "{after}");
    let (_, server) = server.take().unwrap();
    assert_eq!(server.unwrap().close_reason(), None);
    client.close(VarInt::ZERO, b"");
    client.force_key_update();
    drop(sent);
}
