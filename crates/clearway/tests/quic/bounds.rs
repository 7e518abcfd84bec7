//! The memory that a peer can make this endpoint use is limited by flow control (RFC 9000 §4), no
//! matter what the local tasks do.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::support::{Pair, code, pattern, run};
use bytes::Bytes;
use clearway::{Connection, ReadError, RecvStream, SendStream, TransportConfig};

const STREAMS: u64 = 8;
const STREAM_WINDOW: u64 = 64 << 10;
const CONNECTION_WINDOW: u64 = 256 << 10;

fn narrow() -> TransportConfig {
    TransportConfig::builder()
        .max_concurrent_bidirectional_streams(STREAMS)
        .max_concurrent_unidirectional_streams(STREAMS)
        .initial_stream_receive_window(STREAM_WINDOW)
        .max_stream_receive_window(STREAM_WINDOW)
        .initial_connection_receive_window(CONNECTION_WINDOW)
        .max_connection_receive_window(CONNECTION_WINDOW)
        .max_datagram_frame_size(Some(1000))
        // MTU probes would count as received bytes.
        .discover_path_mtu(false)
        .build()
        .unwrap()
}

/// The endpoint that tries to exhaust the other's memory.
#[derive(Clone, Copy)]
enum Attacker {
    Client,
    Server,
}

/// Returns the attacker's connection and the victim's.
async fn connect(pair: &Pair, attacker: Attacker) -> (Connection, Connection) {
    let (client, server) = pair.connect().await;
    match attacker {
        Attacker::Client => (client, server),
        Attacker::Server => (server, client),
    }
}

/// Ensures that each endpoint has processed everything that its peer has sent so far. Uses
/// datagrams, which have no flow control.
async fn round_trip(from: &Connection, to: &Connection) {
    for (from, to) in [(from, to), (to, from)] {
        from.send_datagram(Bytes::from_static(b"?")).unwrap();
        to.read_datagram().await.unwrap();
    }
}

fn poll_once<F: Future>(future: core::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn unaccepted_streams_count_against_the_stream_limit() {
    for attacker in [Attacker::Client, Attacker::Server] {
        for is_reset in [false, true] {
            run(unaccepted_streams(attacker, is_reset));
        }
    }
}

async fn unaccepted_streams(attacker: Attacker, is_reset: bool) {
    let pair = Pair::with(narrow(), |server| server);
    let (peer, victim) = connect(&pair, attacker).await;
    let mut sent = Vec::new();
    for _ in 0..STREAMS {
        let mut send = peer.open_uni().await.unwrap();
        send.write_all(b"whole").await.unwrap();
        if is_reset {
            send.reset(code(7)).unwrap();
        } else {
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        }
        sent.push(send);
    }
    let mut opening = pin!(peer.open_uni());
    for _ in 0..5 {
        assert!(poll_once(opening.as_mut()).is_pending(), "more streams than allowed");
        round_trip(&peer, &victim).await;
    }
    // Each stream that a task has read to its end makes room for another.
    let mut first = victim.accept_uni().await.unwrap();
    round_trip(&peer, &victim).await;
    assert!(poll_once(opening.as_mut()).is_pending(), "an accepted stream was not read yet");
    let end = first.read_to_end(100).await;
    assert_eq!(end.is_err(), is_reset, "{end:?}");
    opening.await.unwrap();
}

#[test]
fn unread_data_is_bounded_by_the_receive_windows() {
    for attacker in [Attacker::Client, Attacker::Server] {
        for accepts in [false, true] {
            run(unread_data(attacker, accepts));
        }
    }
}

async fn unread_data(attacker: Attacker, accepts: bool) {
    let pair = Pair::with(narrow(), |server| server);
    let (peer, victim) = connect(&pair, attacker).await;
    let length = usize::try_from(STREAM_WINDOW * 2).unwrap();
    let mut writers = Vec::new();
    for _ in 0..STREAMS {
        let mut send = peer.open_uni().await.unwrap();
        writers.push(tokio::spawn(async move {
            send.write_all(&pattern(length)).await.unwrap();
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        }));
    }
    let mut accepted: Vec<RecvStream> = Vec::new();
    let mut at_window = 0;
    while at_window < 20 {
        round_trip(&peer, &victim).await;
        if accepts && accepted.len() < 4 {
            accepted.push(victim.accept_uni().await.unwrap());
        }
        // Received bytes include packet overhead, which is a few percent.
        let received = victim.statistics().bytes_received;
        assert!(received < CONNECTION_WINDOW * 5 / 4, "{received} unread bytes were received");
        at_window += u32::from(received >= CONNECTION_WINDOW);
    }
    // Nothing is lost, and all data arrives once all streams are read. (A single reader might wait
    // forever: other streams may use the credit that it returns.)
    let mut readers = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = match accepted.pop() {
            Some(stream) => stream,
            None => victim.accept_uni().await.unwrap(),
        };
        readers.push(tokio::spawn(async move { stream.read_to_end(length).await.unwrap() }));
    }
    for reader in readers {
        assert!(reader.await.unwrap() == pattern(length), "other bytes were received");
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// The streams carry many times both windows in total, but each is read one byte short of
/// triggering its own window update.
#[test]
fn many_partly_read_streams_do_not_block_the_connection() {
    run(async {
        let pair = Pair::with(narrow(), |server| server);
        let (client, server) = pair.connect().await;
        let part = usize::try_from(STREAM_WINDOW / 4 - 1).unwrap();
        let mut kept = Vec::new();
        for _ in 0..4 {
            for _ in 0..STREAMS {
                let mut send = client.open_uni().await.unwrap();
                send.write_all(&vec![7; part]).await.unwrap();
                let mut receive = server.accept_uni().await.unwrap();
                let mut left = part;
                while left > 0 {
                    left -= receive.read_chunk(left).await.unwrap().unwrap().len();
                }
                kept.push((send, receive));
            }
            // Dropping these streams makes room for others.
            kept.clear();
        }
    });
}

#[test]
fn many_small_pieces_arrive_complete() {
    run(async {
        let pair = Pair::with(narrow(), |server| server);
        let (client, server) = pair.connect().await;
        let data = pattern(3000);
        let sent = data.clone();
        let mut send = client.open_uni().await.unwrap();
        for byte in &sent {
            send.write_all(&[*byte]).await.unwrap();
            if byte % 16 == 0 {
                round_trip(&client, &server).await;
            }
        }
        send.finish().unwrap();
        let mut receive = server.accept_uni().await.unwrap();
        assert_eq!(receive.read_to_end(data.len()).await.unwrap(), data);
        assert_eq!(send.stopped().await, Ok(None));
    });
}

#[test]
fn a_partly_read_stream_that_is_dropped_returns_its_credit() {
    run(async {
        let pair = Pair::with(narrow(), |server| server);
        let (client, server) = pair.connect().await;
        // The rounds transfer three connection windows in total.
        for round in 0..12 {
            let mut send = client.open_uni().await.unwrap();
            send.write_all(&pattern(STREAM_WINDOW as usize)).await.unwrap();
            let mut receive = server.accept_uni().await.unwrap();
            let _ = receive.read_chunk(1000).await.unwrap();
            if round % 2 == 0 {
                drop(receive);
            } else {
                // The entire stream was received before it is dropped.
                send.finish().unwrap();
                assert_eq!(send.stopped().await, Ok(None));
                round_trip(&client, &server).await;
            }
        }
    });
}

#[test]
fn a_reset_discards_unread_data_and_returns_its_credit() {
    run(async {
        let pair = Pair::with(narrow(), |server| server);
        let (client, server) = pair.connect().await;
        for _ in 0..12 {
            let mut send: SendStream = client.open_uni().await.unwrap();
            send.write_all(&pattern(STREAM_WINDOW as usize)).await.unwrap();
            let mut receive = server.accept_uni().await.unwrap();
            let _ = receive.read_chunk(1000).await.unwrap();
            send.reset(code(5)).unwrap();
            let end = loop {
                if let Err(end) = receive.read_chunk(usize::MAX).await {
                    break end;
                }
            };
            assert_eq!(end, ReadError::Reset(code(5)));
        }
    });
}
