//! Tasks on the thread of a shard.

mod runtime;

use core::future::{Future, poll_fn};
use core::task::Poll;

pub(crate) use runtime::Runtime;

/// Wraps `task` so that it is polled inside `runtime`: its timers, sockets and [`tokio::spawn`] use
/// that runtime, no matter which thread polls the task. The task ends with the runtime, as the
/// runtime's own tasks do.
pub(crate) fn inside<F: Future<Output = ()>>(
    runtime: Option<Runtime>,
    task: F,
) -> impl Future<Output = ()> + use<F> {
    // Boxed, since an async function would store its argument twice: where the argument is passed
    // and where it is polled.
    let mut task = Box::pin(task);
    let mut membership = None;
    poll_fn(move |context| {
        let Some(runtime) = &runtime else { return task.as_mut().poll(context) };
        // Joined before the runtime is entered, so that the runtime's end is not missed. A shard
        // always polls with the same waker.
        membership.get_or_insert_with(|| runtime.join(context.waker()));
        match runtime.enter() {
            Some(_entered) => task.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    })
}
