//! Clients that read responses slowly, or not at all.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use clearway::http3::{Body, Code, Error, Server, Timeouts};
use clearway::{ReadError, ReadToEndError, TransportConfig, VarInt};
use http::Response;
use tokio::io::{AsyncRead, ReadBuf};

use crate::support::{Pair, configs, get, loopback, run};

/// Endless content, which counts how much was read from it.
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
                // Unread data on some streams must not use up the connection's credit for the others.
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
        // Enough round trips to fill every buffer.
        let (mut before, mut rounds) = (0, 0);
        while before != produced.load(Ordering::SeqCst) || rounds < 50 {
            before = produced.load(Ordering::SeqCst);
            rounds += 1;
            let mut other = client.send(get("/other")).await.unwrap();
            assert_eq!(other.body_mut().bytes(100).await.unwrap(), "other");
        }
        // The client itself holds a window and a chunk of each that it has not read, and its transport another window. At the server
        // each has what the transport always keeps, and a chunk; all of them share the rest.
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

/// The largest windows bound what a client holds, not only its transport.
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
        // The server has 1 MiB between task and transport, its transport's buffer, and a chunk; the client has a window and a chunk
        // for its task, and a window in its transport.
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
        // The client gets the reset on the unread stream, and the other one continues.
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
        // A HEADERS frame of 100 bytes, of which none are sent.
        send.write_all(&[1, 0x40, 100]).await.unwrap();
        let error = receive.read_to_end(100).await.unwrap_err();
        let rejected = VarInt::from_u32(0x10b);
        assert_eq!(error, ReadToEndError::Read(ReadError::Reset(rejected)));
        assert!(connection.close_reason().is_none());
    });
}
