use core::convert::Infallible;
use core::pin::Pin;
use core::task::Waker;

use http_body::{Frame, SizeHint};
use tokio::io::AsyncWrite;

use super::super::extent::Extent;
use super::super::recv_body::ReceiveEnd;
use super::super::{Body, RecvBody, SendBody};
use super::*;
use crate::bridge::tests::waiting;

fn request() -> Exchange {
    Exchange::request(Request::new(()), &Totals::default())
}

fn take(receive: &mut Receiving, chunks: &mut VecDeque<Bytes>) -> Poll<Result<bool, Error>> {
    receive.poll_take(&Context::from_waker(Waker::noop()), &mut Effects::default(), chunks)
}

#[test]
fn unread_requests_leave_room_for_responses() {
    let totals = Totals::default();
    let mut all: Vec<Receiving> = Vec::new();
    for _ in 0..100 {
        let mut receive = Exchange::incoming(4, Request::new(()), &totals).receive;
        while receive.buffer.has_room([u64::MAX; 2]) {
            receive.buffer.push(vec![0; 1 << 15].into());
        }
        all.push(receive);
    }
    let context = Context::from_waker(Waker::noop());
    let mut send = Exchange::request(Request::new(()), &totals).send;
    assert!(send.poll_room(&context, &mut Effects::default()).is_ready());
    let mut taken = VecDeque::new();
    assert!(take(&mut all[50], &mut taken).is_ready());
    assert!(all[50].buffer.has_room([u64::MAX; 2]) && !all[51].buffer.has_room([u64::MAX; 2]));
}

#[test]
fn content_received_before_a_failure_is_read_first() {
    let mut receive = request().receive;
    let mut taken = VecDeque::new();
    assert!(take(&mut receive, &mut taken).is_pending());
    receive.buffer.push(Bytes::from_static(b"content"));
    receive.fail(&Error::Closed, &mut Effects::default());
    assert!(matches!(take(&mut receive, &mut taken), Poll::Ready(Ok(false))));
    assert_eq!(taken.pop_front().unwrap(), "content");
    assert!(matches!(take(&mut receive, &mut taken), Poll::Ready(Err(Error::Closed))));
}

#[test]
fn no_content_is_accepted_after_the_end_of_a_message() {
    let mut send = request().send;
    assert!(send.push(Bytes::from_static(b"content")).is_ok());
    send.finish(None);
    assert!(matches!(send.push(Bytes::from_static(b"more")), Err(Error::Cancelled)));
    send.fail(&Error::GoingAway, &mut Effects::default());
    assert!(matches!(send.push(Bytes::from_static(b"more")), Err(Error::GoingAway)));
    assert!(!send.cancel(Code::REQUEST_CANCELLED), "sending is over");
}

#[test]
fn an_exchange_is_discarded_when_it_is_not_needed_any_more() {
    let mut effects = Effects::default();
    let mut state = State::default();
    let key = state.app.all.insert(request());
    state.app.by_stream.insert(0, key);
    state.app.all[key].stream = Some(0);
    state.app.all[key].send.end(SendState::Finished, &mut effects);
    state.app.retire(key);
    assert!(state.app.by_stream.contains(0), "the response is still to come");
    state.app.all[key].receive.end(&mut effects);
    state.app.retire(key);
    assert!(state.app.by_stream.is_empty());
    assert!(state.app.all.contains(key), "tasks hold it");
    state.app.all[key].handles = 0;
    state.change(key);
    state.app.retire(key);
    assert!(state.app.all.contains(key), "the shard still has to process it");
    let mut changed = Vec::new();
    state.take_changed(&mut changed);
    assert_eq!(changed, [key]);
    state.app.retire(key);
    assert!(!state.app.all.contains(key));
}

#[test]
fn the_end_of_the_connection_reaches_every_waiting_task_once() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let shared = Shared::new(None);
    assert!(shared.poll_established(&context).is_pending());
    shared.act(|state, effects| {
        let key = state.app.all.insert(request());
        state.app.waiting.push_back(key);
        state.change(key);
        let exchange = &mut state.app.all[key];
        exchange.is_queued = true;
        assert!(exchange.send.poll_over(&context, effects).is_pending());
        let taken = exchange.receive.poll_take(&context, effects, &mut VecDeque::new());
        assert!(taken.is_pending());
    });
    shared.fail(Error::Closed);
    shared.fail(Error::GoingAway);
    assert_eq!(counter.count(), 3);
    let mut state = shared.lock();
    assert!(matches!(state.check_open(), Err(Error::Closed)), "the first error is kept");
    assert!(state.app.waiting.is_empty());
    let mut changed = Vec::new();
    state.take_changed(&mut changed);
    assert!(changed.is_empty());
}

#[test]
fn rejected_requests_are_handed_to_the_shard() {
    let mut state = State::default();
    let exchange = Exchange::incoming(4, Request::new(()), &Totals::default());
    let key = state.app.all.insert(exchange);
    state.app.incoming.push_back(key);
    state.reject_incoming();
    let mut changed = Vec::new();
    state.take_changed(&mut changed);
    assert_eq!(changed, [key]);
    let rejected = VarInt::saturating(Code::REQUEST_REJECTED.get());
    let exchange = &mut state.app.all[key];
    assert!(
        matches!(exchange.send.buffer.state(), SendState::Resetting(code) if *code == rejected)
    );
    assert_eq!(exchange.receive.buffer.take_stop(), Some(rejected));
    assert!(state.app.incoming.is_empty());
}

/// A body that consists of one piece.
struct Whole(Option<&'static str>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|content| Ok(Frame::data(content.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.map_or(0, str::len) as u64)
    }
}

#[test]
fn a_write_or_a_read_that_need_not_wait_takes_the_lock_once() {
    let shared = Shared::new(None);
    let key = shared.act(|state, _| state.app.all.insert(request()));
    let locks = || shared.locks.load(core::sync::atomic::Ordering::Relaxed);
    let context = &mut Context::from_waker(Waker::noop());

    let mut send = SendBody::of_request(shared.clone(), key);
    let before = locks();
    assert!(send.poll_write_chunk(context, &mut Bytes::from_static(b"content")).is_ready());
    assert_eq!(locks() - before, 1);
    let written = Pin::new(&mut send).poll_write(context, b"content");
    assert!(matches!(written, Poll::Ready(Ok(7))));
    assert_eq!(locks() - before, 2);
    assert!(matches!(send.push(Bytes::from_static(b"content")), Ok(true)));
    assert_eq!(locks() - before, 3);

    // A response whose body returns all its content in the first poll.
    let key = shared.act(|state, _| state.app.all.insert(request()));
    let mut send = SendBody::of_request(shared.clone(), key);
    let before = locks();
    assert!(Body::wrap(Whole(Some("content"))).begin(&mut send, Some(Response::new(()))).is_none());
    assert_eq!(locks() - before, 1);
    assert!(matches!(shared.lock().app.all[key].send.buffer.state(), SendState::Finishing));

    let mut receive = RecvBody::new(ReceiveEnd::new(shared.clone(), key, true), Extent::default());
    shared.act(|state, _| {
        state.app.all[key].receive.buffer.push(Bytes::from_static(b"content"));
    });
    let before = locks();
    assert!(matches!(receive.poll_chunk(context), Poll::Ready(Some(Ok(_)))));
    assert_eq!(locks() - before, 1);
}

#[test]
fn a_connection_that_rests_keeps_no_room_for_exchanges_that_are_over() {
    let mut exchanges = Exchanges::default();
    let totals = Totals::default();
    let keys: Vec<usize> = (0..100)
        .map(|index| {
            let stream = 4 * index;
            let key = exchanges.all.insert(Exchange::incoming(stream, Request::new(()), &totals));
            exchanges.by_stream.insert(stream, key);
            exchanges.incoming.push_back(key);
            key
        })
        .collect();
    exchanges.compact();
    assert!(keys.iter().all(|key| exchanges.all.contains(*key)), "they are not over");
    exchanges.fail(&Error::Closed, &mut Effects::default());
    for key in keys {
        exchanges.release(key);
    }
    exchanges.compact();
    assert_eq!((exchanges.all.capacity(), exchanges.incoming.capacity()), (0, 0));
}
