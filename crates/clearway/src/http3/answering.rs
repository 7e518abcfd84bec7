//! Responds to requests in tasks on the threads of their shards.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use http::Request;

use super::exchanges::Shared;
use super::{RecvBody, Responder};
use crate::tasks::Runtime;

/// Iterates over the requests of one connection.
pub(super) type Requests<'a> = &'a mut dyn FnMut() -> Option<(Request<RecvBody>, Responder)>;

/// Responds to requests in tasks on the threads of their shards.
pub(super) trait Answer: Send + Sync {
    /// Responds to requests on the connection `shared`, on its shard's thread. Responses that have
    /// to wait continue as tasks on that thread.
    fn answer(&self, shared: &Arc<Shared>, requests: Requests<'_>);

    /// Starts the task that responds to a request. May be called from any thread.
    fn spawn(&self, request: Request<RecvBody>, responder: Responder);
}

/// Responds to requests with the futures that `answer` returns, inside `runtime`.
pub(super) fn answering<A, F>(runtime: Option<Runtime>, answer: A) -> Arc<dyn Answer>
where
    A: Fn(Request<RecvBody>, Responder) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(Answering { runtime, answer, spare: Mutex::new(None) })
}

struct Answering<A, F> {
    runtime: Option<Runtime>,
    answer: A,
    /// Memory for the next future: most futures complete in their first poll, and their memory is
    /// then reused.
    spare: Mutex<Option<Place<F>>>,
}

/// The memory for a future.
type Place<F> = Pin<Box<Option<F>>>;

impl<A, F> Answering<A, F>
where
    A: Fn(Request<RecvBody>, Responder) -> F,
    F: Future<Output = ()>,
{
    /// Polls the future for a request once. The future is stored in the empty `place`, which is
    /// emptied again if it completes. If the future panics, returns the panic.
    fn begin(
        &self,
        place: &mut Place<F>,
        (request, responder): (Request<RecvBody>, Responder),
    ) -> Result<Poll<()>, Box<dyn Any + Send>> {
        // A future that is not ready is polled again by its task.
        let context = &mut Context::from_waker(Waker::noop());
        catch_unwind(AssertUnwindSafe(|| {
            place.set(Some((self.answer)(request, responder)));
            let task = place.as_mut().as_pin_mut();
            let begun = task.map_or(Poll::Ready(()), |task| task.poll(context));
            if begun.is_ready() {
                place.set(None);
            }
            begun
        }))
    }

    fn exchange_spare(&self, place: Option<Place<F>>) -> Option<Place<F>> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut spare, place)
    }
}

impl<A, F> Answer for Answering<A, F>
where
    A: Fn(Request<RecvBody>, Responder) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    fn answer(&self, shared: &Arc<Shared>, requests: Requests<'_>) {
        let entered = self.runtime.as_ref().map(Runtime::enter);
        if matches!(entered, Some(None)) {
            // The runtime has ended: no more responses are sent, and the streams are reset.
            return while requests().is_some() {};
        }
        let mut spare = self.exchange_spare(None);
        while let Some(request) = requests() {
            let mut place = spare.take().unwrap_or_else(|| Box::pin(None));
            match self.begin(&mut place, request) {
                Ok(Poll::Ready(())) => spare = Some(place),
                Ok(Poll::Pending) => shared.spawn(self.runtime.clone(), async move {
                    if let Some(task) = place.as_mut().as_pin_mut() {
                        task.await;
                    }
                }),
                // As with a panic in a later poll, only this request fails.
                Err(panic) => shared.spawn(None, async move { resume_unwind(panic) }),
            }
        }
        self.exchange_spare(spare);
    }

    fn spawn(&self, request: Request<RecvBody>, responder: Responder) {
        // Obtained first, since the task then owns the responder.
        let spawner = responder.spawner();
        spawner.spawn(self.runtime.clone(), (self.answer)(request, responder));
    }
}
