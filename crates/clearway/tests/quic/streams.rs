//! Tests of streams between two endpoints on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::support::{Pair, code, pattern, run};
use bytes::Bytes;
use clearway::{
    Connection, ConnectionError, Observation, Observer, ReadError, ReadToEndError, ResetAtError,
    Side, Timestamp, TransportConfig, WriteError,
};
use clearway_wire::{Frame, Reader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

/// Echoes every bidirectional stream until the connection ends.
async fn echo(connection: Connection) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = recv.read_chunk(usize::MAX).await {
                if send.write_chunk(chunk).await.is_err() {
                    return;
                }
            }
        });
    }
}

#[test]
fn a_megabyte_is_echoed() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let data = pattern(1 << 20);
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        let writing = async {
            send.write_all(&data).await.unwrap();
            send.finish().unwrap();
        };
        let (_, answer) = tokio::join!(writing, recv.read_to_end(2 << 20));
        assert!(answer.unwrap() == data, "different bytes were echoed");
        assert_eq!(send.stopped().await, Ok(None));
    });
}

/// Counts STREAM frames without data, that is, stream ends that needed a separate frame.
struct LoneEnds(Arc<AtomicUsize>);

impl Observer for LoneEnds {
    fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
        let Observation::PacketSent(packet) = observation else { return };
        let mut reader = Reader::new(packet.payload);
        while let Ok(frame) = Frame::decode(&mut reader) {
            let is_lone = matches!(frame, Frame::Stream(it) if it.data.is_empty());
            self.0.fetch_add(is_lone.into(), Ordering::SeqCst);
        }
    }
}

/// Data and the end of the stream share a frame even if the shard sends as soon as it can, which is
/// often between two writes of a task.
#[test]
fn data_and_the_end_are_sent_in_one_frame() {
    run(async {
        let lone_ends = Arc::new(AtomicUsize::new(0));
        let counted = lone_ends.clone();
        let observer =
            move |_: Side| Some(Box::new(LoneEnds(counted.clone())) as Box<dyn Observer>);
        let mut pair = Pair::new();
        pair.config = pair.config.clone().observer(Arc::new(observer));
        let (client, server) = pair.connect().await;
        for _ in 0..100 {
            let mut send = client.open_uni().await.unwrap();
            send.finish_with(Bytes::from_static(b"hello")).await.unwrap();
            let received = server.accept_uni().await.unwrap().read_to_end(10).await.unwrap();
            assert_eq!(received, b"hello");
            let again = send.finish_with(Bytes::new()).await;
            assert_eq!(again, Err(WriteError::ClosedStream));
        }
        assert_eq!(lone_ends.load(Ordering::SeqCst), 0);
        let mut send = client.open_uni().await.unwrap();
        send.finish_with(Bytes::new()).await.unwrap();
        let received = server.accept_uni().await.unwrap().read_to_end(0).await.unwrap();
        assert!(received.is_empty());
    });
}

#[test]
fn tokio_traits_carry_ten_megabytes_one_way() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = Bytes::from(pattern(10 << 20));
        let sent = data.clone();
        let writer = tokio::spawn(async move {
            let mut send = server.open_uni().await.unwrap();
            AsyncWriteExt::write_all(&mut send, &sent).await.unwrap();
            send.shutdown().await.unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        });
        let mut recv = client.accept_uni().await.unwrap();
        let mut received = Vec::new();
        AsyncReadExt::read_to_end(&mut recv, &mut received).await.unwrap();
        assert!(received == data, "different bytes were received");
        writer.await.unwrap();
    });
}

#[test]
fn a_hundred_streams_at_once() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let mut tasks = Vec::new();
        for number in 0..100_usize {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                let data = pattern(1000 + number * 37);
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                assert_eq!(recv.read_to_end(1 << 20).await.unwrap(), data);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn streams_beyond_the_peers_limit_wait() {
    run(async {
        let transport =
            TransportConfig::builder().max_concurrent_bidirectional_streams(3).build().unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let mut tasks = Vec::new();
        for number in 0..30_u8 {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let (mut send, mut recv) = client.open_bi().await.unwrap();
                send.write_all(&[number]).await.unwrap();
                send.finish().unwrap();
                assert_eq!(recv.read_to_end(10).await.unwrap(), [number]);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// A waker whose wake-up another future can await.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[test]
fn a_stream_opened_for_a_dropped_future_is_that_of_the_next() {
    run(async {
        let transport =
            TransportConfig::builder().max_concurrent_bidirectional_streams(1).build().unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        tokio::spawn(echo(server));
        let mut used = 0;
        for _ in 0..20 {
            let mut opening = Box::pin(client.open_bi());
            let opened = Arc::new(Woken::default());
            let waker = Waker::from(opened.clone());
            match opening.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => opened.0.notified().await,
                // On a busy machine, the stream may be available immediately.
                Poll::Ready(_) => used += 1,
            }
            // The stream was opened, but the future that requested it is dropped.
            drop(opening);
        }
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        assert_eq!(send.id().index(), used, "no other stream was used");
        send.write_all(b"here").await.unwrap();
        send.finish().unwrap();
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"here");
    });
}

#[test]
fn a_reader_that_does_not_read_stops_the_writer() {
    run(async {
        let transport = TransportConfig::builder()
            .initial_stream_receive_window(64 << 10)
            .max_stream_receive_window(64 << 10)
            .send_buffer(256 << 10)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        let chunk = Bytes::from(vec![7; 64 << 10]);
        send.write_chunk(chunk.clone()).await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        // Two buffers of 1 MiB, the transport's send buffer and its window are filled: the writer
        // stops well before 8 MiB.
        let mut written = chunk.len();
        let patience = std::time::Duration::from_millis(300);
        while tokio::time::timeout(patience, send.write_chunk(chunk.clone())).await.is_ok() {
            written += chunk.len();
            assert!(written < 8 << 20, "nothing stops the writer");
        }
        // The writer continues when the reader reads.
        let reading = async {
            let mut read = 0;
            while let Some(chunk) = recv.read_chunk(usize::MAX).await.unwrap() {
                read += chunk.len();
            }
            read
        };
        let writing = async {
            send.write_chunk(chunk.clone()).await.unwrap();
            send.finish().unwrap();
        };
        let (_, read) = tokio::join!(writing, reading);
        assert_eq!(read, written + chunk.len());
    });
}

#[test]
fn a_cancelled_read_loses_nothing() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(3 << 20);
        let sent = data.clone();
        let writer = tokio::spawn(async move {
            let mut send = client.open_uni().await.unwrap();
            let mut rest = &sent[..];
            while !rest.is_empty() {
                tokio::select! {
                    biased;
                    // The write is canceled at many points, whenever it has to wait.
                    written = send.write(rest) => rest = &rest[written.unwrap()..],
                    () = tokio::task::yield_now() => {}
                }
            }
            send.finish().unwrap();
            assert_eq!(send.stopped().await, Ok(None));
        });
        let mut recv = server.accept_uni().await.unwrap();
        let mut received = Vec::new();
        loop {
            tokio::select! {
                biased;
                chunk = recv.read_chunk(5000) => match chunk.unwrap() {
                    Some(chunk) => received.extend_from_slice(&chunk),
                    None => break,
                },
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(received == data, "bytes were lost or changed");
        writer.await.unwrap();
    });
}

#[test]
fn reset_and_stop_carry_their_codes() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"half a thou").await.unwrap();
        let (mut server_send, mut server_recv) = server.accept_bi().await.unwrap();
        let mut buffer = [0; 4];
        assert_eq!(server_recv.read(&mut buffer).await, Ok(Some(4)));
        assert_eq!(&buffer, b"half");

        send.reset(code(7)).unwrap();
        assert!(send.reset(code(8)).is_err());
        assert_eq!(send.write(b"more").await, Err(WriteError::ClosedStream));
        let end = loop {
            match server_recv.read_chunk(100).await {
                Ok(Some(_)) => {}
                other => break other,
            }
        };
        assert_eq!(end, Err(ReadError::Reset(code(7))));

        recv.stop(code(9)).unwrap();
        assert_eq!(recv.read_chunk(1).await, Err(ReadError::ClosedStream));
        assert_eq!(server_send.stopped().await, Ok(Some(code(9))));
        assert_eq!(server_send.write(b"x").await, Err(WriteError::Stopped(code(9))));
    });
}

#[test]
fn dropped_streams_finish_and_stop() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let (mut send, recv) = client.open_bi().await.unwrap();
        send.write_all(b"all of it").await.unwrap();
        drop(send);
        drop(recv);
        let (server_send, mut server_recv) = server.accept_bi().await.unwrap();
        assert_eq!(server_recv.read_to_end(100).await.unwrap(), b"all of it");
        assert_eq!(server_send.stopped().await, Ok(Some(code(0))));
    });
}

#[test]
fn read_to_end_fails_if_the_stream_is_too_long() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&pattern(1000)).await.unwrap();
        send.finish().unwrap();
        assert!(send.finish().is_err());
        let mut recv = server.accept_uni().await.unwrap();
        let error = recv.read_to_end(999).await.unwrap_err();
        assert_eq!(error, ReadToEndError::TooLong { limit: 999 });
    });
}

#[test]
fn delivered_data_can_be_read_after_the_close() {
    run(async {
        let window = 4 << 20;
        let transport = TransportConfig::builder()
            .initial_stream_receive_window(window)
            .initial_connection_receive_window(window)
            .build()
            .unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, server) = pair.connect().await;
        // This is more data than is buffered for the task: the transport buffers the rest.
        let data = pattern(3 << 20);
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.finish().unwrap();
        assert_eq!(send.stopped().await, Ok(None));
        client.close(code(0), b"");
        server.closed().await;
        let mut recv = server.accept_uni().await.unwrap();
        assert!(recv.read_to_end(4 << 20).await.unwrap() == data, "bytes were lost or changed");
    });
}

#[test]
fn data_received_before_the_close_can_be_read() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"last words").await.unwrap();
        let mut recv = server.accept_uni().await.unwrap();
        let first = recv.read_chunk(4).await.unwrap().unwrap();
        client.close(code(3), b"enough");
        let error = server.closed().await;
        let ConnectionError::ApplicationClosed { error_code, reason } = &error else {
            panic!("closed with {error:?}")
        };
        assert_eq!((*error_code, &reason[..]), (code(3), &b"enough"[..]));
        assert_eq!(&first[..], b"last");
        assert_eq!(recv.read_chunk(100).await.unwrap().unwrap(), " words");
        assert_eq!(recv.read_chunk(1).await, Err(ReadError::ConnectionLost(error.clone())));
        assert_eq!(server.open_bi().await.unwrap_err(), error);
    });
}

/// Data written before the reset is delivered even though the stream is reset immediately
/// (RESET_STREAM_AT).
#[test]
fn a_stream_that_is_reset_in_part_delivers_its_beginning() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let data = pattern(300_000);
        let mut send = client.open_uni().await.unwrap();
        send.write_all(&data).await.unwrap();
        send.reset_at(code(7), 100_000).unwrap();
        assert_eq!(send.reset_at(code(7), 5), Err(ResetAtError::ClosedStream));
        assert!(matches!(send.write(b"x").await, Err(WriteError::ClosedStream)));
        let mut recv = server.accept_uni().await.unwrap();
        let mut received = Vec::new();
        let end = loop {
            match recv.read_chunk(usize::MAX).await {
                Ok(Some(chunk)) => received.extend_from_slice(&chunk),
                end => break end,
            }
        };
        assert_eq!(end, Err(ReadError::Reset(code(7))));
        // Data beyond the reliable size may have been read before the reset arrived.
        let length = received.len();
        assert!(length >= 100_000 && received == data[..length], "{length} bytes");
    });
}

#[test]
fn a_reset_in_part_needs_a_peer_that_supports_it() {
    run(async {
        let transport = TransportConfig::builder().reset_stream_at(false).build().unwrap();
        let pair = Pair::with(transport, |server| server);
        let (client, _server) = pair.connect().await;
        let mut send = client.open_uni().await.unwrap();
        send.write_all(b"header").await.unwrap();
        assert_eq!(send.reset_at(code(7), 6), Err(ResetAtError::Unsupported));
        assert_eq!(send.reset_at(code(7), 0), Ok(()));
    });
}
