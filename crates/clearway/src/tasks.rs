//! Tasks on the thread of a shard.

use core::future::{Future, poll_fn};

use tokio::runtime::Handle;

/// `task`, polled inside `runtime`: its timers, sockets and [`tokio::spawn`] belong to that, wherever it is polled.
pub(crate) fn inside<F: Future>(
    runtime: Option<Handle>,
    task: F,
) -> impl Future<Output = F::Output> + use<F> {
    // A task that an asynchronous function takes has two places there: the one where it comes and the one where it is polled.
    let mut task = Box::pin(task);
    poll_fn(move |context| {
        let _guard = runtime.as_ref().map(Handle::enter);
        task.as_mut().poll(context)
    })
}
