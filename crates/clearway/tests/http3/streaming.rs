//! Tests of streamed bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use clearway::http3::{Body, Error};
use http::header::CONTENT_LANGUAGE;
use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
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
        // Other requests succeed while this one is not read. This waits for enough round trips to
        // fill every buffer.
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
fn a_header_section_does_not_wait_for_content() {
    run(async {
        let pair = Pair::new();
        let client = pair.client().await;
        let pending = client.start(get("/")).unwrap();
        let (_request, responder) = pair.accept().await;
        let (sender, body) = Body::channel();
        let answer = tokio::spawn(responder.respond(Response::new(body)));
        let mut received = pending.response().await.unwrap().into_body();
        sender.send("late").await.unwrap();
        sender.finish().await.unwrap();
        assert_eq!(received.bytes(100).await.unwrap(), "late");
        answer.await.unwrap().unwrap();
    });
}

/// A body whose frames are all available immediately.
struct AtHand {
    frames: Vec<Result<Frame<Bytes>, &'static str>>,
    /// Whether the body reports its length.
    is_sized: bool,
}

impl http_body::Body for AtHand {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let has_more = !self.frames.is_empty();
        Poll::Ready(has_more.then(|| self.frames.remove(0)))
    }

    fn size_hint(&self) -> SizeHint {
        let data = self.frames.iter().flatten().filter_map(Frame::data_ref);
        let length = data.map(|data| data.len() as u64).sum();
        if self.is_sized { SizeHint::with_exact(length) } else { SizeHint::default() }
    }
}

/// A response that is available immediately arrives unchanged, whether or not its length is known,
/// and no matter how it is split.
#[test]
fn content_at_hand_is_sent_as_it_is() {
    run(async {
        let pair = Pair::new();
        let trailers = HeaderMap::from_iter([(CONTENT_LANGUAGE, "de".parse().unwrap())]);
        let cases: [(&[&'static str], bool, bool); 6] = [
            (&[], false, false),
            (&["one"], false, false),
            (&["one"], true, false),
            (&["one"], false, true),
            (&["one", "two", "three"], true, false),
            (&[], true, true),
        ];
        let client = pair.client().await;
        for (is_sized, (pieces, has_trailers, fails)) in
            [false, true].into_iter().flat_map(|is_sized| cases.map(|case| (is_sized, case)))
        {
            let pending = client.start(get("/")).unwrap();
            let (_request, responder) = pair.accept().await;
            let data =
                pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
            let end = has_trailers.then(|| Ok(Frame::trailers(trailers.clone())));
            let failure = fails.then_some(Err("it failed"));
            let frames = data.chain(end).chain(failure).collect();
            let body = Body::wrap(AtHand { frames, is_sized });
            let answer = tokio::spawn(responder.respond(Response::new(body)));
            let received = async {
                let mut body = pending.response().await?.into_body();
                let content = body.bytes(100).await?;
                Ok::<_, Error>((content, body.trailers().await?))
            };
            let received = received.await;
            let answered = answer.await.unwrap();
            if fails {
                assert!(matches!(received, Err(Error::Reset(_))), "{received:?}");
                assert!(matches!(answered, Err(Error::Body(_))), "{answered:?}");
                continue;
            }
            let expected = (Bytes::from(pieces.concat()), has_trailers.then(|| trailers.clone()));
            assert_eq!(received.unwrap(), expected);
            answered.unwrap();
        }
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
