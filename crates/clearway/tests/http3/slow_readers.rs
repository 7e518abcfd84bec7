//! Tests of clients that read responses slowly, or not at all.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Body, Code, Error, Server, Timeouts};
use clearway::{ReadError, ReadToEndError, TransportConfig, VarInt};
use http::Response;
use tokio::io::{AsyncRead, ReadBuf};

use crate::support::{Pair, configs, get, loopback, run};

/// Endless content that counts how much of it was read.
struct Counted(Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let room = buffer.remaining();
        buffer.put_slice(&vec![7; room]);
        self.0.fetch_add(room, Ordering::SeqCst);
        Poll::Ready(Ok(()))
    }
}

#[test]
fn content_of_unread_responses_is_not_produced() {
    run(async {
        let pair = Pair::with(
            TransportConfig::builder()
                // Unread data on some streams must not use up the connection-level credit that
                // other streams need.
                .initial_connection_receive_window(24 << 20)
                .max_stream_receive_window(256 << 10)
                .send_buffer(256 << 10)
                .build()
                .unwrap(),
        );
        let produced = Arc::new(AtomicUsize::new(0));
        let counter = produced.clone();
        pair.serve(move |request| {
            let is_other = request.uri().path() == "/other";
            let counted = Body::from_reader(Counted(counter.clone()));
            async move { Response::new(if is_other { "other".into() } else { counted }) }
        });
        let client = pair.client().await;
        let mut responses = Vec::new();
        for _ in 0..20 {
            responses.push(client.send(get("/")).await.unwrap());
        }
        // Waits for enough round trips to fill every buffer.
        let (mut before, mut rounds) = (0, 0);
        while before != produced.load(Ordering::SeqCst) || rounds < 50 {
            before = produced.load(Ordering::SeqCst);
            rounds += 1;
            let mut other = client.send(get("/other")).await.unwrap();
            assert_eq!(other.body_mut().bytes(100).await.unwrap(), "other");
        }
        // For each response, the client buffers an unread window and chunk, and its transport
        // another window. On the server, each response has the transport's minimum buffer and a
        // chunk; all responses share the rest.
        let clients = 3 * (256 << 10);
        let allowed = 20 * (clients + (64 << 10) + (64 << 10)) + (2 << 20) + (256 << 10);
        assert!(before < allowed, "{before} bytes are held, {allowed} are allowed");
        // A stream that is read still makes progress.
        let mut body = responses.pop().unwrap().into_body();
        let mut received = 0;
        while received < 3_000_000 {
            received += body.chunk().await.unwrap().unwrap().len();
        }
    });
}

/// The maximum windows limit not only the client's transport but also its other buffers.
#[test]
fn small_windows_make_small_buffers() {
    const WINDOW: u64 = 64 << 10;
    run(async {
        let transport = TransportConfig::builder()
            .initial_stream_receive_window(WINDOW)
            .max_stream_receive_window(WINDOW)
            .initial_connection_receive_window(2 * WINDOW)
            .max_connection_receive_window(2 * WINDOW)
            .send_buffer(WINDOW)
            .build();
        let pair = Pair::with(transport.unwrap());
        let produced = Arc::new(AtomicUsize::new(0));
        let counter = produced.clone();
        pair.serve(move |_| {
            let counted = Body::from_reader(Counted(counter.clone()));
            async move { Response::new(counted) }
        });
        let client = pair.client().await;
        let _unread = client.send(get("/")).await.unwrap();
        let (mut before, mut unchanged) = (0, 0);
        while unchanged < 10 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = produced.load(Ordering::SeqCst);
            unchanged = if now == before { unchanged + 1 } else { 0 };
            before = now;
        }
        // The server buffers 1 MiB between task and transport, its transport's buffer, and a chunk.
        // The client buffers a window and a chunk for its task, and a window in its transport.
        let allowed = (1 << 20) + 6 * WINDOW as usize;
        assert!(before < allowed, "{before} bytes are held, {allowed} are allowed");
    });
}

async fn impatient(request: Duration, send: Duration) -> Pair {
    let mut pair = Pair::new();
    let (server, config) = configs(TransportConfig::default());
    let server = Server::bind(loopback(), server).unwrap();
    pair.server = Arc::new(server.with_timeouts(Timeouts { request, send }));
    pair.config = config;
    pair
}

#[test]
fn only_the_response_that_is_not_read_is_abandoned() {
    run(async {
        let pair = impatient(Duration::from_secs(600), Duration::from_secs(1)).await;
        let client = pair.client().await;
        let answer = || Response::new(Body::from_reader(Counted(Arc::default())));
        let unread = client.start(get("/unread")).unwrap();
        let (_, responder) = pair.accept().await;
        let mut abandoned = tokio::spawn(responder.respond(answer()));
        let read = client.start(get("/read")).unwrap();
        let (_, responder) = pair.accept().await;
        let going_on = tokio::spawn(responder.respond(answer()));
        let mut unread = unread.response().await.unwrap().into_body();
        let mut read = read.response().await.unwrap().into_body();
        let error = loop {
            tokio::select! {
                outcome = &mut abandoned => break outcome.unwrap().unwrap_err(),
                chunk = read.chunk() => assert!(!chunk.unwrap().unwrap().is_empty()),
            }
        };
        assert!(matches!(error, Error::TimedOut), "{error}");
        // The client gets the reset of the unread stream, and the other stream continues.
        let error = loop {
            tokio::select! {
                chunk = unread.chunk() => match chunk {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("the endless content has ended"),
                },
                chunk = read.chunk() => assert!(!chunk.unwrap().unwrap().is_empty()),
            }
        };
        assert!(matches!(error, Error::Reset(Code::REQUEST_CANCELLED)), "{error}");
        assert!(!read.chunk().await.unwrap().unwrap().is_empty());
        assert!(!going_on.is_finished());
    });
}

#[test]
fn an_incomplete_request_is_abandoned_and_the_connection_continues() {
    run(async {
        let pair = impatient(Duration::from_millis(200), Duration::from_secs(600)).await;
        let connection = pair.raw_client().await;
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        // A HEADERS frame of 100 bytes, none of which are sent.
        send.write_all(&[1, 0x40, 100]).await.unwrap();
        let error = receive.read_to_end(100).await.unwrap_err();
        let rejected = VarInt::from_u32(0x10b);
        assert_eq!(error, ReadToEndError::Read(ReadError::Reset(rejected)));
        assert!(connection.close_reason().is_none());
    });
}

const WINDOW: u64 = 64 << 10;
const RESPONSES: usize = 8;
const LENGTH: usize = 300_000;

/// Returns a server that produces content only when it has credit, and a counter of the bytes
/// produced.
fn produce_for_credit(connection_window: u64) -> (Pair, Arc<AtomicUsize>) {
    let transport = TransportConfig::builder()
        .initial_stream_receive_window(WINDOW)
        .max_stream_receive_window(WINDOW)
        .initial_connection_receive_window(connection_window)
        .max_connection_receive_window(connection_window)
        .build();
    let pair = Pair::with(transport.unwrap());
    let produced = Arc::new(AtomicUsize::new(0));
    let (server, counter) = (pair.server.clone(), produced.clone());
    tokio::spawn(async move {
        while let Some((_, responder)) = server.accept().await {
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut send = responder.start(Response::new(()));
                let mut left = LENGTH;
                while left > 0 {
                    let bytes = send.credit(left.min(10_000)).await.unwrap();
                    counter.fetch_add(bytes, Ordering::SeqCst);
                    send.write_chunk(vec![7; bytes]).await.unwrap();
                    left -= bytes;
                }
                send.finish().await.unwrap();
            });
        }
    });
    (pair, produced)
}

/// Content that is produced only when there is credit never exceeds the client's windows.
#[test]
fn content_for_which_there_is_no_credit_is_not_produced() {
    run(async {
        let (pair, produced) = produce_for_credit(24 << 20);
        let client = pair.client().await;
        let mut responses = Vec::new();
        for _ in 0..RESPONSES {
            responses.push(client.send(get("/")).await.unwrap().into_body());
        }
        // The client's tasks read nothing, so credit is granted only for data that their connection
        // buffers for them: about a window per stream. Wait long enough for that to be used up:
        let (mut before, mut rounds) = (0, 0);
        while before != produced.load(Ordering::SeqCst) || rounds < 20 {
            before = produced.load(Ordering::SeqCst);
            rounds += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(before <= 3 * WINDOW as usize * RESPONSES, "{before} bytes were produced");
        assert!(before < LENGTH * RESPONSES / 2);
        for mut body in responses {
            assert_eq!(body.bytes(LENGTH).await.unwrap().len(), LENGTH);
        }
        assert_eq!(produced.load(Ordering::SeqCst), RESPONSES * LENGTH);
    });
}

/// All responses that wait for connection-level credit get a share, even if there is less than
/// their streams' total.
#[test]
fn the_credit_of_a_connection_gets_to_all_that_wait_for_it() {
    run(async {
        let (pair, produced) = produce_for_credit(WINDOW);
        let client = pair.client().await;
        let read = |_| {
            let pending = client.start(get("/")).unwrap();
            tokio::spawn(async move {
                let mut body = pending.response().await.unwrap().into_body();
                body.bytes(LENGTH).await.unwrap().len()
            })
        };
        for length in (0..RESPONSES).map(read).collect::<Vec<_>>() {
            assert_eq!(length.await.unwrap(), LENGTH);
        }
        assert_eq!(produced.load(Ordering::SeqCst), RESPONSES * LENGTH);
    });
}

/// A task that waits for credit fails when its client has granted none for too long, even if
/// nothing is outstanding.
#[test]
fn waiting_for_credit_ends_with_the_timeout() {
    run(async {
        let transport = TransportConfig::builder()
            .initial_stream_receive_window(1 << 10)
            .max_stream_receive_window(1 << 10)
            .build();
        let (server, config) = configs(transport.unwrap());
        let send = Duration::from_millis(200);
        let timeouts = Timeouts { request: Duration::from_secs(60), send };
        let server = Server::bind(loopback(), server).unwrap().with_timeouts(timeouts);
        let endpoint = clearway::Endpoint::client(loopback()).unwrap();
        let client = clearway::http3::Client::connect(
            &endpoint,
            &config,
            server.local_address(),
            "localhost",
        );
        let client = client.await.unwrap();
        let pending = client.start(get("/")).unwrap();
        let (_, responder) = server.accept().await.unwrap();
        let mut send = responder.start(Response::new(()));
        let error = loop {
            match send.credit(1000).await {
                Ok(bytes) => send.write_chunk(vec![7; bytes]).await.unwrap(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::TimedOut), "{error}");
        drop(pending);
    });
}

/// Content that reveals whether it is still in memory.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A response that its task has finished can be aborted until the client has acknowledged it;
/// aborting it frees its memory.
#[test]
fn a_finished_response_can_be_aborted() {
    run(async {
        let transport = TransportConfig::builder()
            .initial_stream_receive_window(1 << 10)
            .max_stream_receive_window(1 << 10)
            .build();
        let pair = Pair::with(transport.unwrap());
        let server = pair.server.clone();
        let kept = Arc::new(vec![7; 40_000]);
        let content = Bytes::from_owner(Shared(kept.clone()));
        let (send_handle, handle) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let (_, responder) = server.accept().await.unwrap();
            let mut send = responder.start(Response::new(()));
            let abort = send.abort_handle().unwrap();
            send.write_chunk(content).await.unwrap();
            // The transport has accepted the entire response, but has not sent it.
            send.finish().await.unwrap();
            let _ = send_handle.send(abort);
        });
        let client = pair.client().await;
        let mut body = client.send(get("/")).await.unwrap().into_body();
        let handle = handle.await.unwrap();
        assert_eq!(Arc::strong_count(&kept), 2);
        handle.abort(Code::EXCESSIVE_LOAD);
        let error = loop {
            match body.chunk().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Reset(Code::EXCESSIVE_LOAD)), "{error:?}");
        assert_eq!(Arc::strong_count(&kept), 1, "the content is freed");
        // There is nothing left to abort, and the connection continues.
        handle.abort(Code::EXCESSIVE_LOAD);
        assert!(client.is_open());
    });
}
