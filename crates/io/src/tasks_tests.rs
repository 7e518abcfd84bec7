use std::future::pending;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

fn tasks() -> Tasks {
    Tasks::new(Arc::new(Mailbox::new()))
}

/// Returns after it was polled `times` times; wakes itself each time.
async fn yield_now(mut times: u32) {
    core::future::poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn a_task_runs_when_it_can_continue_and_only_then() {
    let mut tasks = tasks();
    assert!(!tasks.run());
    let (sender, wakers) = mpsc::channel();
    let mut polls = 0;
    tasks.add(Box::pin(core::future::poll_fn(move |context: &mut Context<'_>| {
        polls += 1;
        sender.send((polls, context.waker().clone())).unwrap();
        Poll::Pending
    })));
    while tasks.run() {}
    let (first, waker) = wakers.try_recv().unwrap();
    assert!(wakers.try_recv().is_err());
    thread::spawn(move || waker.wake()).join().unwrap();
    while tasks.run() {}
    let (second, _) = wakers.try_recv().unwrap();
    assert_eq!((first, second), (1, 2));
    assert!(wakers.try_recv().is_err());
}

#[test]
fn tasks_that_never_wait_do_not_keep_the_shard_from_its_turn() {
    let mut tasks = tasks();
    for _ in 0..3 {
        tasks.add(Box::pin(yield_now(u32::MAX)));
    }
    assert!(tasks.run());
    // The tasks can continue in the next turn.
    assert!(tasks.run());
}

#[test]
fn a_task_that_panics_ends_alone() {
    let mut tasks = tasks();
    let (sender, finished) = mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        tasks.add(Box::pin(async move {
            yield_now(1).await;
            assert!(number != 1, "a panic that the test wants");
            sender.send(number).unwrap();
        }));
    }
    while tasks.run() {}
    let mut numbers: Vec<_> = finished.try_iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 2]);
    assert_eq!(crate::guarded::panics(), 1);
}

/// Reports that it was dropped.
struct Dropped(mpsc::Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn tasks_end_with_their_shard() {
    let mut tasks = tasks();
    let (sender, dropped) = mpsc::channel();
    let guard = Dropped(sender);
    tasks.add(Box::pin(async move {
        let _guard = guard;
        pending().await
    }));
    assert!(tasks.run());
    assert!(dropped.try_recv().is_err());
    drop(tasks);
    dropped.recv_timeout(TIMEOUT).unwrap();
}
