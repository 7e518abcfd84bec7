use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn waiting() -> (Arc<Counter>, Waker) {
    let counter = Arc::<Counter>::default();
    (counter.clone(), counter.into())
}

fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

fn request() -> Exchange {
    Exchange::request(Request::new(()), &Totals::default())
}

#[test]
fn a_writer_waits_for_half_of_the_buffer() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut send = Sending::default();
    // Bytes of any size are taken at once while there is room.
    assert!(send.poll_room(&context).is_ready());
    send.push(vec![0; BUFFER * 2].into());
    assert!(send.poll_room(&context).is_pending());
    for (buffered, wakes) in [(BUFFER, 0), (BUFFER / 2 + 1, 0), (BUFFER / 2, 1), (0, 1)] {
        send.held.set(buffered);
        let mut wakers = Vec::new();
        send.collect_waker(&mut wakers);
        wake_all(wakers);
        assert_eq!(counter.count(), wakes);
    }
    assert!(send.poll_room(&context).is_ready());
}

#[test]
fn tiny_chunks_use_up_the_buffer_too() {
    let mut receive = Receiving::default();
    let mut chunks = 0;
    while receive.has_room() {
        receive.push(Bytes::from_static(b"x"));
        chunks += 1;
    }
    assert!(chunks <= BUFFER / CHUNK_OVERHEAD);
}

#[test]
fn requests_that_nobody_reads_share_a_buffer_and_one_that_holds_nothing_may_read_on() {
    let (_, waker) = waiting();
    let context = Context::from_waker(&waker);
    let totals = Totals::default();
    let mut all: Vec<Receiving> = Vec::new();
    for _ in 0..100 {
        let mut receive = Exchange::incoming(4, Request::new(()), &totals).receive;
        while receive.has_room() {
            receive.push(vec![0; 1 << 15].into());
        }
        all.push(receive);
    }
    let held: usize = all.iter().map(|receive| receive.held.bytes()).sum();
    assert!(held <= CONNECTION_BUFFER + 101 * ((1 << 15) + CHUNK_OVERHEAD), "{held} bytes");
    // What a task takes, its stream may have anew, whatever the others hold.
    let mut taken = VecDeque::new();
    assert!(all[50].poll_take(&context, &mut taken).is_ready());
    assert!(all[50].has_room() && !all[51].has_room());
    assert!(Exchange::request(Request::new(()), &totals).send.poll_room(&context).is_ready());
    all.clear();
    assert_eq!(totals.receiving.0.load(Ordering::Relaxed), 0);
}

#[test]
fn what_came_before_a_failure_is_read_first() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut receive = Receiving::default();
    let mut taken = VecDeque::new();
    assert!(receive.poll_take(&context, &mut taken).is_pending());
    receive.push(Bytes::from_static(b"content"));
    let mut wakers = Vec::new();
    receive.fail(&Error::Closed, &mut wakers);
    wake_all(wakers);
    assert_eq!(counter.count(), 1);
    assert!(matches!(receive.poll_take(&context, &mut taken), Poll::Ready(Ok(false))));
    assert_eq!(taken.pop_front().unwrap(), "content");
    assert!(matches!(receive.poll_take(&context, &mut taken), Poll::Ready(Err(Error::Closed))));
}

#[test]
fn an_exchange_is_forgotten_when_nobody_needs_it() {
    let mut state = State::default();
    let key = state.exchanges.insert(request());
    state.streams.insert(0, key);
    state.exchanges[key].stream = Some(0);
    state.exchanges[key].send.end();
    state.retire(key);
    assert!(state.streams.contains_key(&0), "the response is still to come");
    state.exchanges[key].receive.end(&mut Vec::new());
    state.retire(key);
    assert!(state.streams.is_empty());
    assert!(state.exchanges.contains(key), "tasks hold it");
    state.exchanges[key].handles = 0;
    state.touch(key);
    state.retire(key);
    assert!(state.exchanges.contains(key), "the shard is about to look at it");
    state.exchanges[key].is_changed = false;
    state.retire(key);
    assert!(!state.exchanges.contains(key));
}

#[test]
fn the_end_of_the_connection_reaches_every_waiting_task_once() {
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    let mut state = State::default();
    let key = state.exchanges.insert(request());
    state.waiting.push_back(key);
    state.exchanges[key].is_queued = true;
    assert!(state.exchanges[key].send.poll_over(&context).is_pending());
    assert!(state.exchanges[key].receive.poll_take(&context, &mut VecDeque::new()).is_pending());
    state.watch(&context);
    state.watch(&context);
    let mut wakers = Vec::new();
    state.close(Error::Closed, &mut wakers);
    state.close(Error::GoingAway, &mut wakers);
    wake_all(wakers);
    assert_eq!(counter.count(), 3);
    assert!(matches!(state.check_open(), Err(Error::Closed)), "the first reason stays");
    assert!(state.waiting.is_empty());
}

#[test]
fn rejected_requests_are_handed_to_the_shard() {
    let mut state = State::default();
    let key = state.exchanges.insert(Exchange::incoming(4, Request::new(()), &Totals::default()));
    state.incoming.push_back(key);
    state.reject_incoming();
    assert_eq!(state.changed, [key]);
    assert_eq!(state.exchanges[key].send.reset, Some(Code::REQUEST_REJECTED));
    assert_eq!(state.exchanges[key].receive.stop, Some(Code::REQUEST_REJECTED));
    assert!(state.incoming.is_empty());
}

#[test]
fn streams_share_a_buffer_and_none_is_shut_out() {
    let (_, waker) = waiting();
    let context = Context::from_waker(&waker);
    let total = Total::default();
    let mut streams: Vec<_> = (0..100).map(|_| Sending::new(&total)).collect();
    let chunk = Bytes::from(vec![0; 64 << 10]);
    let mut held = 0;
    loop {
        let before = held;
        for send in &mut streams {
            if send.poll_room(&context).is_ready() {
                send.push(chunk.clone());
                held += chunk.len();
            }
        }
        if held == before {
            break;
        }
    }
    assert!(held <= CONNECTION_BUFFER + 100 * chunk.len(), "{held} bytes are held");
    // One that has handed over all it had goes on, whatever the others hold.
    streams[7].held.set(0);
    assert!(streams[7].poll_room(&context).is_ready());
    assert!(streams[8].poll_room(&context).is_pending());
    drop(streams);
    assert!(Held::new(&total).has_room());
    assert_eq!(total.0.load(Ordering::Relaxed), 0);
}
