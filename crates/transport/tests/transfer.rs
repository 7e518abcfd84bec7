//! Data between two real endpoints, in virtual time.

mod support;

use std::time::Duration;

use bytes::Bytes;
use clearway_network::{Conditions, LinkConfig, LossRule, Probability};
use clearway_transport::{Event, ReadError, ReadOutcome};
use clearway_units::Rate;
use clearway_wire::{Direction, StreamId};
use support::{Pair, delayed};

/// Sends `size` bytes from the server to the client, and returns how long it took.
fn download(pair: &mut Pair, size: usize, limit: Duration) -> Option<Duration> {
    pair.establish();
    let start = pair.now;
    let stream = pair.client().open(Direction::Bidirectional).unwrap();
    pair.client().write_slice(stream, b"give").unwrap();
    pair.client().finish(stream).unwrap();
    let pattern: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
    let mut rest = Bytes::from(pattern.clone());
    let mut received = Vec::with_capacity(size);
    let mut accepted: Option<StreamId> = None;
    let mut finished = false;
    let done = pair.run_until(limit, |pair| {
        if accepted.is_none() && !pair.accepted.is_empty() {
            accepted = pair.server().accept(Direction::Bidirectional);
        }
        if let Some(stream) = accepted
            && !rest.is_empty()
        {
            let taken = pair.server().write(stream, rest.clone()).unwrap();
            rest = rest.slice(taken..);
            if rest.is_empty() {
                pair.server().finish(stream).unwrap();
            }
        }
        let now = pair.now;
        loop {
            match pair.client().read(now, stream, usize::MAX) {
                Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
                Ok(ReadOutcome::Blocked) => break,
                Ok(ReadOutcome::Finished) | Err(ReadError::UnknownStream) => {
                    finished = true;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        finished
    });
    assert!(received == pattern || !done, "the bytes differ");
    done.then(|| pair.now.saturating_since(start))
}

fn lossy(percent: f64, delay: u64, seed: u64) -> LinkConfig {
    let loss = LossRule::random(Probability::new(percent / 100.0).unwrap());
    let conditions = Conditions {
        delay: Duration::from_millis(delay),
        loss: vec![loss],
        ..Conditions::default()
    };
    LinkConfig { to_server: conditions.clone(), to_client: conditions, seed, rebind: None }
}

#[test]
fn a_clean_path_carries_a_megabyte() {
    let mut pair = Pair::new(delayed(5, 1));
    let took = download(&mut pair, 1 << 20, Duration::from_secs(10)).expect("not finished");
    assert!(took < Duration::from_millis(200), "{took:?}");
    let statistics = pair.server().statistics();
    assert_eq!(statistics.packets_lost, 0, "{statistics:?}");
}

#[test]
fn every_byte_arrives_under_loss_on_every_seed() {
    for seed in 0..20 {
        let mut pair = Pair::new(lossy(10.0, 5, seed));
        let took = download(&mut pair, 300_000, Duration::from_secs(120));
        assert!(took.is_some(), "seed {seed}: {:?} {:?}", pair.client_events, pair.now);
    }
}

#[test]
fn a_bottleneck_is_filled() {
    let wire = Conditions {
        delay: Duration::from_millis(15),
        rate: Some(Rate::from_bits_per_second(10_000_000)),
        queue: clearway_network::QueueLimit { packets: Some(25), bytes: None },
        ..Conditions::default()
    };
    let link = LinkConfig { to_server: wire.clone(), to_client: wire, seed: 3, rebind: None };
    let mut pair = Pair::new(link);
    let took = download(&mut pair, 3 << 20, Duration::from_secs(30)).expect("not finished");
    let rate = 8.0 * f64::from(3 << 20) / took.as_secs_f64();
    assert!(rate > 8_000_000.0, "only {rate} bit/s: {:?}", pair.server().statistics());
}

#[test]
fn events_are_told_once() {
    let mut pair = Pair::new(delayed(5, 1));
    download(&mut pair, 1000, Duration::from_secs(10)).expect("not finished");
    let connected = |event: &&Event| **event == Event::Connected;
    assert_eq!(pair.client_events.iter().filter(connected).count(), 1);
    assert_eq!(pair.server_events.iter().filter(connected).count(), 1);
}
