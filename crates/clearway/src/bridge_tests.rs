//! Helpers for tests of the buffers between tasks and the shard: an empty [`AppState`], and wakers
//! that count.

use core::task::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

/// An empty [`AppState`]: only the connection-wide state is shared.
#[derive(Default)]
pub(crate) struct Bare;

impl AppState for Bare {
    type Key = ();
    type Error = &'static str;
    type Replies = ();

    fn is_changed(&mut self, (): ()) -> Option<&mut bool> {
        None
    }

    fn fail(&mut self, _: &&'static str, _: &mut Effects<Self>) {}

    fn compact(&mut self) {}
}

/// Waker that counts how often it is woken.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn waiting() -> (Arc<Counter>, Waker) {
    let counter = Arc::<Counter>::default();
    (counter.clone(), counter.into())
}

#[test]
fn effects_are_carried_out_once_and_without_the_lock() {
    let shared = Shared::<Bare>::new(None);
    let (counter, waker) = waiting();
    let context = Context::from_waker(&waker);
    assert!(shared.poll_established(&context).is_pending());
    shared.fail("first");
    shared.fail("second");
    assert_eq!(counter.count(), 1);
    assert!(matches!(shared.poll_established(&context), Poll::Ready(Err("first"))));

    /// A task that takes the lock when it is woken.
    struct Taking(Arc<Shared<Bare>>, AtomicUsize);
    impl Wake for Taking {
        fn wake(self: Arc<Self>) {
            assert!(self.0.lock().is_gone);
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let shared = Shared::<Bare>::new(None);
    let taking = Arc::new(Taking(shared.clone(), AtomicUsize::new(0)));
    let waker = Waker::from(taking.clone());
    assert!(shared.poll_established(&Context::from_waker(&waker)).is_pending());
    shared.on_gone("gone");
    assert_eq!(taking.1.load(Ordering::SeqCst), 1);
}

#[test]
fn a_signal_wakes_everybody_who_waits_for_it() {
    let shared = Shared::<Bare>::new(None);
    let (counter, waker) = waiting();
    let mut context = Context::from_waker(&waker);
    let wait = || shared.wait(Signal::Connection, |state| state.error);
    let (mut first, mut second) = (Box::pin(wait()), Box::pin(wait()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    shared.act(|_, effects| effects.signal(Signal::Datagrams));
    assert_eq!(counter.count(), 0);
    shared.fail("over");
    assert_eq!(counter.count(), 2);
    for waits in [first, second] {
        let mut waits = waits;
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready("over"));
    }
}

/// If a connection was established before it ended, a task that polls only afterward still sees it
/// as established.
#[test]
fn a_connection_that_was_established_is_one_after_it_has_ended() {
    let results = || {
        Some(Arc::new(Established {
            side: Side::Client,
            application_protocol: None,
            peer_certificates: None,
            server_name: None,
            key_exchange_group: None,
            max_datagram_payload: None,
            reset_stream_at: false,
        }))
    };
    let context = Context::from_waker(Waker::noop());
    let shared = Shared::<Bare>::new(None);
    shared.lock().early = results();
    shared.fail("over");
    assert!(matches!(shared.poll_early(&context), Poll::Ready(Ok(Some(_)))));
    assert!(matches!(shared.poll_established(&context), Poll::Ready(Err("over"))));
    shared.lock().established = results();
    assert!(matches!(shared.poll_early(&context), Poll::Ready(Ok(Some(_)))));
    assert!(matches!(shared.poll_established(&context), Poll::Ready(Ok(_))));
}
