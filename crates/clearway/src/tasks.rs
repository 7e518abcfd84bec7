//! Tasks on the thread of a shard.

mod runtime;

use core::future::{Future, poll_fn};
use core::task::Poll;

pub(crate) use runtime::Runtime;

/// `task`, polled inside `runtime`: its timers, sockets and [`tokio::spawn`] belong to that,
/// wherever it is polled. It ends with the runtime, as tasks of the runtime itself do.
pub(crate) fn inside<F: Future<Output = ()>>(
    runtime: Option<Runtime>,
    task: F,
) -> impl Future<Output = ()> + use<F> {
    // A task that an asynchronous function takes has two places there: the one where it comes and the one where it is polled.
    let mut task = Box::pin(task);
    let mut membership = None;
    poll_fn(move |context| {
        let Some(runtime) = &runtime else { return task.as_mut().poll(context) };
        // Before the runtime is entered, so that no end is missed. A shard always polls with the
        // same waker.
        membership.get_or_insert_with(|| runtime.join(context.waker()));
        match runtime.enter() {
            Some(_entered) => task.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    })
}
