//! Waiting for the tasks that answer requests.

use std::convert::Infallible;

use tokio::sync::mpsc;

/// Held by each task that answers a request, until it has written its line to the access log.
#[derive(Clone)]
pub(super) struct Answering {
    _held: mpsc::Sender<Infallible>,
}

/// Waits for these tasks. A connection can end before they do, and the program must not exit
/// without their lines.
pub(super) struct AllAnswered(mpsc::Receiver<Infallible>);

/// Creates the first [`Answering`]; all others are its clones.
pub(super) fn answering() -> (Answering, AllAnswered) {
    let (held, all) = mpsc::channel(1);
    (Answering { _held: held }, AllAnswered(all))
}

impl AllAnswered {
    /// Waits until no task holds an [`Answering`] any more.
    pub(super) async fn wait(&mut self) {
        while self.0.recv().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_last_task_ends_the_wait() {
        let (answering, mut all) = answering();
        let other = answering.clone();
        drop(answering);
        assert!(all.wait().now_or_never().is_none());
        drop(other);
        assert!(all.wait().now_or_never().is_some());
    }
}
