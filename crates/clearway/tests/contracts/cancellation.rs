//! Tests of futures that are documented as cancel-safe. They are canceled at every await point, and
//! nothing is lost or delivered twice.
//!
//! A seed determines how often each future is polled before it is dropped and recreated, and
//! whether it is polled again immediately or when it can continue.

use core::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{self, Client, Config, Protocol, Server};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use http::{Method, Request, Response};

use crate::stack::{Clearway, Stack};
use crate::support::{Pair, code, identity, loopback, pattern, run};

const SEEDS: core::ops::Range<u64> = 0..12;
/// Upper bound (exclusive) on how often a future is polled before it is dropped.
const MOST_POLLS: u64 = 5;

/// Pseudorandom numbers from a seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, limit: u64) -> u64 {
        // The constants of Knuth's MMIX generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns the result of a future that is repeatedly created, polled a few times and dropped, until
/// it is ready.
macro_rules! canceled {
    ($random:expr, $make:expr) => {
        loop {
            let polls = $random.below(MOST_POLLS);
            let is_patient = $random.below(2) == 0;
            let ready = {
                let mut future = core::pin::pin!($make);
                let mut polled = 0;
                core::future::poll_fn(|context| {
                    if polled == polls {
                        return Poll::Ready(None);
                    }
                    polled += 1;
                    let poll = future.as_mut().poll(context).map(Some);
                    if poll.is_pending() && !is_patient {
                        context.waker().wake_by_ref();
                    }
                    poll
                })
                .await
            };
            match ready {
                Some(result) => break result,
                None => tokio::task::yield_now().await,
            }
        }
    };
}

/// Returns the data in chunks of different sizes.
fn in_chunks(data: &[u8]) -> Vec<Bytes> {
    data.chunks(30_011).map(Bytes::copy_from_slice).collect()
}

#[test]
fn writes_and_reads() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        // The content exceeds all buffers on the way, so that both ends have to wait.
        let content = pattern(3 << 20);
        for seed in SEEDS {
            let writing = async {
                let mut random = Seeded(seed);
                let mut sending = canceled!(random, client.open_uni()).unwrap();
                let mut at = 0;
                while at < content.len() {
                    let length = (1 + random.below(400_000) as usize).min(content.len() - at);
                    let piece = &content[at..at + length];
                    let is_last = at + length == content.len();
                    at += match random.below(4) {
                        0 if !is_last => canceled!(random, sending.write(piece)).unwrap(),
                        1 if !is_last => {
                            let mut chunks = in_chunks(piece);
                            canceled!(random, sending.write_chunks(&mut chunks)).unwrap().bytes
                        }
                        2 if !is_last => {
                            let mut chunks = in_chunks(piece);
                            canceled!(random, sending.write_all_chunks(&mut chunks)).unwrap();
                            length
                        }
                        _ => {
                            let chunk = Bytes::copy_from_slice(piece);
                            match is_last {
                                true => canceled!(random, sending.finish_with(chunk.clone())),
                                false => canceled!(random, sending.write_chunk(chunk.clone())),
                            }
                            .unwrap();
                            length
                        }
                    };
                }
                assert_eq!(canceled!(random, sending.stopped()), Ok(None));
            };
            let reading = async {
                let mut random = Seeded(!seed);
                let mut receiving = canceled!(random, server.accept_uni()).unwrap();
                let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
                let mut chunks = vec![Bytes::new(); 3];
                loop {
                    let read = match random.below(3) {
                        0 => canceled!(random, receiving.read(&mut buffer))
                            .unwrap()
                            .map(|length| buffer[..length].to_vec()),
                        1 => canceled!(random, receiving.read_chunk(100_000))
                            .unwrap()
                            .map(|chunk| chunk.to_vec()),
                        _ => canceled!(random, receiving.read_chunks(&mut chunks))
                            .unwrap()
                            .map(|used| chunks[..used].concat()),
                    };
                    match read {
                        Some(data) => all.extend(data),
                        None => break,
                    }
                }
                assert_eq!(canceled!(random, receiving.received_reset()), Ok(None));
                all
            };
            let ((), all) = tokio::join!(writing, reading);
            assert!(all == content, "seed {seed}: {} bytes", all.len());
        }
    });
}

#[test]
fn handshakes() {
    run(async {
        let pair = Pair::new();
        for seed in SEEDS {
            let mut random = Seeded(seed);
            let mut client = pair.connecting();
            let data = canceled!(random, client.handshake_data()).unwrap();
            assert!(data.application_protocol.is_some());
            let mut server = canceled!(random, pair.server.accept()).unwrap();
            let data = canceled!(random, server.handshake_data()).unwrap();
            assert_eq!(data.server_name.as_deref(), Some("localhost"));
            let (client, server) = (client.await.unwrap(), server.await.unwrap());
            for connection in [&client, &server] {
                assert_eq!(canceled!(random, connection.authenticated()), Ok(()));
                assert_eq!(canceled!(random, connection.handshake_confirmed()), Ok(()));
            }
        }
    });
}

/// Only a few streams may be open, so opening waits. Dropped futures leave no stream behind.
#[test]
fn opening_and_accepting_streams() {
    run(async {
        let transport = TransportConfig::builder()
            .max_concurrent_unidirectional_streams(3)
            .max_concurrent_bidirectional_streams(3)
            .build();
        let pair = Pair::with(transport.unwrap(), |server| server);
        let (client, server) = pair.connect().await;
        for seed in SEEDS {
            let opening = async {
                let mut random = Seeded(seed);
                for number in 0..40_u8 {
                    let content = Bytes::from(vec![number]);
                    if number % 2 == 0 {
                        let mut sending = canceled!(random, client.open_uni()).unwrap();
                        sending.finish_with(content).await.unwrap();
                    } else {
                        let (mut sending, _) = canceled!(random, client.open_bi()).unwrap();
                        sending.finish_with(content).await.unwrap();
                    }
                }
            };
            let accepting = async {
                let mut random = Seeded(!seed);
                let mut numbers = [Vec::new(), Vec::new()];
                while numbers[0].len() + numbers[1].len() < 40 {
                    // Accepts a stream of either kind, among the kinds of which streams are still
                    // missing.
                    let (kind, mut receiving) = canceled!(random, async {
                        tokio::select! {
                            uni = server.accept_uni() => (0, uni.unwrap()),
                            both = server.accept_bi() => (1, both.unwrap().1),
                        }
                    });
                    numbers[kind].extend(receiving.read_to_end(10).await.unwrap());
                }
                numbers
            };
            let ((), mut numbers) = tokio::join!(opening, accepting);
            numbers.iter_mut().for_each(|it| it.sort_unstable());
            let every = |first| (first..40).step_by(2).collect::<Vec<u8>>();
            assert_eq!(numbers, [every(0), every(1)], "seed {seed}");
        }
    });
}

#[test]
fn datagrams() {
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(65_535))
            // The buffer has room for two datagrams, so that sending has to wait.
            .datagram_send_buffer(2 * (1000 + 64))
            .datagram_notices(true)
            .build();
        let pair = Pair::with(transport.unwrap(), |server| server);
        let (client, server) = pair.connect().await;
        for seed in SEEDS {
            let sending = async {
                let mut random = Seeded(seed);
                for number in 0..100 {
                    let data = Bytes::from(vec![number; 1000]);
                    canceled!(random, client.send_datagram_wait(data.clone())).unwrap();
                }
            };
            let receiving = async {
                let mut random = Seeded(!seed);
                let mut numbers = Vec::new();
                for _ in 0..100 {
                    let data = canceled!(random, server.read_datagram()).unwrap();
                    assert_eq!(data.len(), 1000);
                    numbers.push(data[0]);
                }
                numbers
            };
            let settled = async {
                let mut random = Seeded(seed + 1);
                let mut outcomes = std::collections::BTreeMap::new();
                while outcomes.len() < 100 {
                    let (id, outcome) = canceled!(random, client.datagram_outcome()).unwrap();
                    outcomes.insert(id, outcome);
                }
            };
            let ((), numbers, ()) = tokio::join!(sending, receiving, settled);
            assert_eq!(numbers, (0..100).collect::<Vec<u8>>(), "seed {seed}");
        }
    });
}

#[test]
fn accepting_clients_and_waiting_for_the_end() {
    run(async {
        let pair = Pair::new();
        let mut random = Seeded(1);
        for _ in 0..40 {
            let connecting = pair.connecting();
            let accepted = canceled!(random, pair.server.accept()).unwrap();
            let (client, server) = tokio::join!(connecting, accepted);
            let (client, server) = (client.unwrap(), server.unwrap());
            client.close(code(3), b"bye");
            let end = canceled!(random, server.closed());
            assert_eq!(end, server.close_reason().unwrap());
        }
        canceled!(random, pair.client.wait_idle());
        assert_eq!(pair.client.statistics().connections, 0);
        // Every client was accepted exactly once.
        let none = core::pin::pin!(pair.server.accept());
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(none.poll(&mut context).is_pending());
    });
}

#[test]
fn exchanges_of_http3() {
    run(async {
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let config = ServerConfig::new(vec![identity.certificate], identity.key);
        let server = Server::bind(loopback(), config).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let config = ClientConfig::with_roots(roots).application_protocols([http3::PROTOCOL]);
        let connecting = Client::connect(&endpoint, &config, server.local_address(), "localhost");
        let client = connecting.await.unwrap();
        let content = pattern(3 << 20);
        for seed in SEEDS {
            let asking = async {
                let mut random = Seeded(seed);
                let request = Request::post(format!("https://localhost/{seed}")).body(()).unwrap();
                let (mut sending, pending) = client.open(request).unwrap();
                let mut at = 0;
                while at < content.len() {
                    let length = (1 + random.below(400_000) as usize).min(content.len() - at);
                    let chunk = Bytes::copy_from_slice(&content[at..at + length]);
                    canceled!(random, sending.room()).unwrap();
                    canceled!(random, sending.write_chunk(chunk.clone())).unwrap();
                    at += length;
                }
                // Polled once: the entire message is sent even though the future is dropped.
                {
                    let mut finishing = core::pin::pin!(sending.finish());
                    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
                    let _ = finishing.as_mut().poll(&mut context);
                }
                let mut body = pending.response().await.unwrap().into_body();
                let mut all = Vec::new();
                while let Some(chunk) = canceled!(random, body.chunk()) {
                    all.extend_from_slice(&chunk.unwrap());
                }
                all
            };
            let answering = async {
                let mut random = Seeded(!seed);
                let (request, responder) = canceled!(random, server.accept()).unwrap();
                assert_eq!(request.uri().path(), format!("/{seed}"));
                let mut body = request.into_body();
                let mut all = Vec::new();
                while let Some(chunk) = canceled!(random, body.chunk()) {
                    all.extend_from_slice(&chunk.unwrap());
                }
                responder.respond(Response::new(Bytes::from(all.clone()))).await.unwrap();
                all
            };
            let (answer, question) = tokio::join!(asking, answering);
            assert!(question == content && answer == content, "seed {seed}");
        }
    });
}

#[test]
fn datagrams_of_http3() {
    run(async {
        let transport = TransportConfig::builder().max_datagram_frame_size(Some(65_535)).build();
        let transport = transport.unwrap();
        let http3 = || Config { extended_connect: true, datagrams: true, ..Config::default() };
        let identity = identity();
        let mut roots = RootCertStore::empty();
        roots.add(identity.certificate.clone()).unwrap();
        let config = ServerConfig::new(vec![identity.certificate], identity.key)
            .transport(transport.clone());
        let server = Server::bind_with(loopback(), config, http3()).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let config = ClientConfig::with_roots(roots)
            .application_protocols([http3::PROTOCOL])
            .transport(transport);
        let address = server.local_address();
        let connecting = Client::connect_with(&endpoint, &config, address, "localhost", http3());
        let client = connecting.await.unwrap();
        for seed in SEEDS {
            let mut request = Request::new(());
            *request.method_mut() = Method::CONNECT;
            *request.uri_mut() = "https://localhost/".parse().unwrap();
            request.extensions_mut().insert(Protocol::new("test").unwrap());
            let (_sending, pending) = client.open(request).unwrap();
            let (_request, responder) = server.accept().await.unwrap();
            let mut received = responder.datagrams();
            let _response = responder.start(Response::new(()));
            let response = pending.response().await.unwrap();
            let datagrams = response.body().datagrams();
            let sending = async {
                for number in 0..100_u8 {
                    datagrams.send(Bytes::from(vec![number])).unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let receiving = async {
                let mut random = Seeded(seed);
                let mut numbers = Vec::new();
                for _ in 0..100 {
                    numbers.push(canceled!(random, received.receive()).unwrap().unwrap()[0]);
                }
                numbers
            };
            let ((), numbers) = tokio::join!(sending, receiving);
            assert_eq!(numbers, (0..100).collect::<Vec<u8>>(), "seed {seed}");
        }
    });
}

#[test]
fn migrations_are_reported_once() {
    run(async {
        let Clearway(pair) = Clearway::new(Duration::from_secs(30));
        let (client, server) = pair.connect().await;
        server.open_uni().await.unwrap().finish().unwrap();
        client.accept_uni().await.unwrap();
        let mut random = Seeded(1);
        for _ in 0..3 {
            client.migrate(loopback()).await.unwrap();
            let event = canceled!(random, client.path_event()).unwrap();
            assert!(matches!(event, clearway::PathEvent::Migrated { .. }), "{event:?}");
        }
    });
}
