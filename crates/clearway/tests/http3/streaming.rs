//! Streamed bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway::http3::{Body, Error};
use http::{HeaderMap, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Pair, get, pattern, post, run, small_windows};

#[test]
fn request_and_response_are_streamed_at_the_same_time() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let (mut send, pending) = client.open(post("/", ()).map(|_| ())).unwrap();
        let (request, responder) = pair.accept().await;
        let mut requested = request.into_body();
        let mut answer = responder.start(Response::new(()));
        let mut received = pending.response().await.unwrap().into_body();
        for number in 0_u8..50 {
            send.write_chunk(vec![number; 10]).await.unwrap();
            let mut part = [0; 10];
            requested.read_exact(&mut part).await.unwrap();
            assert_eq!(part, [number; 10]);
            answer.write_chunk(vec![number; 20]).await.unwrap();
            let mut part = [0; 20];
            received.read_exact(&mut part).await.unwrap();
            assert_eq!(part, [number; 20]);
        }
        send.finish().await.unwrap();
        assert!(requested.chunk().await.is_none());
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", "yes".parse().unwrap());
        answer.finish_with_trailers(trailers.clone()).await.unwrap();
        assert_eq!(received.trailers().await.unwrap(), Some(trailers));
    });
}

#[test]
fn a_slow_reader_stops_the_writer() {
    run(async {
        let pair = Pair::with(small_windows());
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let mut answer = responder.start(Response::new(()));
        let written = Arc::new(AtomicUsize::new(0));
        let chunk = pattern(100_000);
        let writer = tokio::spawn({
            let (written, chunk) = (written.clone(), chunk.clone());
            async move {
                for _ in 0..200 {
                    answer.write_chunk(chunk.clone()).await.unwrap();
                    written.fetch_add(chunk.len(), Ordering::SeqCst);
                }
                answer.finish().await.unwrap();
            }
        });
        let mut body = pending.response().await.unwrap().into_body();
        // Other requests get through while nobody reads: enough round trips to fill every buffer.
        let mut before = 0;
        let mut rounds = 0;
        while before != written.load(Ordering::SeqCst) || rounds < 100 {
            before = written.load(Ordering::SeqCst);
            rounds += 1;
            let pending = client.start(get("/other")).unwrap();
            let (_request, responder) = pair.accept().await;
            responder.respond(Response::new("other")).await.unwrap();
            pending.response().await.unwrap().body_mut().bytes(100).await.unwrap();
        }
        assert!(before < 4_000_000, "{before} bytes were buffered somewhere");
        let content = body.bytes(200 * chunk.len()).await.unwrap();
        assert_eq!(content.len(), 200 * chunk.len());
        assert!(content.chunks(chunk.len()).all(|part| part == chunk));
        writer.await.unwrap();
    });
}

#[test]
fn bodies_are_async_readers_and_writers() {
    run(async {
        let pair = Pair::new();
        let content = pattern(300_000);
        pair.serve(|request| async move {
            let mut content = Vec::new();
            request.into_body().read_to_end(&mut content).await.unwrap();
            Response::new(Body::from_reader(std::io::Cursor::new(content)))
        });
        let client = pair.client().await;
        let (mut send, pending) = client.open(post("/", ()).map(|_| ())).unwrap();
        send.write_all(&content).await.unwrap();
        send.shutdown().await.unwrap();
        let mut echoed = Vec::new();
        let mut body = pending.response().await.unwrap().into_body();
        body.read_to_end(&mut echoed).await.unwrap();
        assert!(echoed == content);
    });
}

#[test]
fn a_channel_body_is_sent_with_its_trailers() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move { Response::new(Body::from(request.into_body())) });
        let client = pair.client().await;
        let (sender, body) = Body::channel();
        let mut received = client.send(post("/", body)).await.unwrap().into_body();
        for number in 0_u8..40 {
            sender.send(vec![number; 5000]).await.unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", "yes".parse().unwrap());
        sender.finish_with_trailers(trailers.clone()).await.unwrap();
        let content = received.bytes(1_000_000).await.unwrap();
        let expected: Vec<u8> = (0_u8..40).flat_map(|number| [number; 5000]).collect();
        assert!(content == expected);
        assert_eq!(received.trailers().await.unwrap(), Some(trailers));
    });
}

#[test]
fn a_body_that_is_cut_off_is_not_taken_for_complete() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let (sender, body) = Body::channel();
        let pending = client.start(post("/", body)).unwrap();
        let (request, responder) = pair.accept().await;
        let mut body = request.into_body();
        sender.send("begin").await.unwrap();
        let mut part = [0; 5];
        body.read_exact(&mut part).await.unwrap();
        assert_eq!(&part, b"begin");
        drop(sender);
        let error = body.chunk().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Reset(_)), "{error}");
        let error = pending.response().await.unwrap_err();
        assert!(matches!(error, Error::Body(_)), "{error}");
        drop(responder);
    });
}
