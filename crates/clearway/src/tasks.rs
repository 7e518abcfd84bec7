//! Tasks on the thread of a shard.

use core::future::{Future, poll_fn};
use core::pin::pin;

use tokio::runtime::Handle;

/// `task`, polled inside `runtime`: its timers, sockets and [`tokio::spawn`] belong to that, wherever it is polled.
pub(crate) async fn inside<F: Future>(runtime: Option<Handle>, task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|context| {
        let _guard = runtime.as_ref().map(Handle::enter);
        task.as_mut().poll(context)
    })
    .await
}
