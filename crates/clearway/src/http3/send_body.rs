use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use clearway_http3::Code;
use http::{HeaderMap, Response};
use tokio::io::AsyncWrite;

use super::Error;
use super::state::{Exchange, Finish, Head, Shared};

/// How much [`AsyncWrite`] copies at once.
const COPY: usize = 64 << 10;

/// The sending end of one message: content, then [`finish`](Self::finish).
///
/// Dropping it before that gives the message up: the peer is told H3_REQUEST_CANCELLED, and never
/// takes what came for a complete message. Up to 1 MiB waits for the transport, and 2 MiB on all streams of
/// a connection beside a chunk for each; then writing waits.
pub struct SendBody {
    shared: Arc<Shared>,
    key: usize,
    /// The whole message was given: it is sent even when nobody waits for that.
    is_committed: bool,
    /// The message has no content (RFC 9110 §6.4.1): what is given is left out.
    is_bodiless: bool,
}

impl SendBody {
    pub(super) fn new(shared: Arc<Shared>, key: usize, is_bodiless: bool) -> Self {
        Self { shared, key, is_committed: false, is_bodiless }
    }

    /// Gives content away, without copying it, as soon as there is room. Bytes of any size are taken
    /// at once.
    ///
    /// Cancelling this gives nothing away.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the peer wants no more, [`Error::Send`] if it is more than the
    /// content-length field says, and whatever ended the connection.
    pub async fn write_chunk(&mut self, chunk: impl Into<Bytes>) -> Result<(), Error> {
        let mut chunk = chunk.into();
        poll_fn(|context| self.poll_write_chunk(context, &mut chunk)).await
    }

    /// As [`write_chunk`](Self::write_chunk); leaves `chunk` empty when it was taken.
    pub fn poll_write_chunk(
        &mut self,
        context: &mut Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<(), Error>> {
        if self.is_bodiless {
            *chunk = Bytes::new();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_room(context))?;
        let chunk = core::mem::take(chunk);
        self.act(|exchange| exchange.send.push(chunk))?;
        self.shared.wake_shard();
        Poll::Ready(Ok(()))
    }

    fn poll_room(&self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        let state = &mut *self.shared.lock();
        match state.exchanges.get_mut(self.key) {
            Some(exchange) => exchange.send.poll_room(context),
            None => Poll::Ready(Err(Error::Cancelled)),
        }
    }

    /// Waits until there is room for content, so that it need not be produced, or held, before.
    ///
    /// # Errors
    /// As [`write_chunk`](Self::write_chunk).
    pub async fn room(&mut self) -> Result<(), Error> {
        poll_fn(
            |context| if self.is_bodiless { Poll::Ready(Ok(())) } else { self.poll_room(context) },
        )
        .await
    }

    /// Ends the message, and waits until the transport has all of it.
    ///
    /// The message is on its way from the first poll on, whether or not the end is waited for.
    ///
    /// # Errors
    /// [`Error::Send`] if the content is shorter than the content-length field says, and as
    /// [`write_chunk`](Self::write_chunk).
    pub async fn finish(mut self) -> Result<(), Error> {
        self.commit(None);
        poll_fn(|context| self.poll_over(context)).await
    }

    /// As [`finish`](Self::finish), with a trailer section (RFC 9114 §4.1).
    pub async fn finish_with_trailers(mut self, trailers: HeaderMap) -> Result<(), Error> {
        self.commit(Some(trailers));
        poll_fn(|context| self.poll_over(context)).await
    }

    /// Gives the message up, with a reason for the peer.
    pub fn reset(mut self, code: Code) {
        self.cancel(code);
    }

    /// Gives the message up because it could not be produced; the other end of the exchange fails
    /// with `error`.
    pub(super) fn fail(mut self, error: &Error) {
        let mut wakers = Vec::new();
        {
            let mut state = self.shared.lock();
            if let Some(exchange) = state.exchanges.get_mut(self.key) {
                exchange.receive.fail(error, &mut wakers);
                exchange.receive.stop = Some(Code::REQUEST_CANCELLED);
                exchange.send.error.get_or_insert_with(|| error.clone());
            }
        }
        self.cancel(Code::REQUEST_CANCELLED);
        wakers.into_iter().for_each(core::task::Waker::wake);
    }

    /// Gives the whole of a short message.
    pub(super) fn commit_with(&mut self, content: Bytes, trailers: Option<HeaderMap>) {
        if !self.is_bodiless {
            // What has failed already is told to whoever waits for the end.
            let _ = self.act(|exchange| exchange.send.push(content));
        }
        self.commit(trailers);
    }

    /// Gives the end.
    pub(super) fn commit(&mut self, trailers: Option<HeaderMap>) {
        if core::mem::replace(&mut self.is_committed, true) {
            return;
        }
        let trailers = trailers.filter(|trailers| !trailers.is_empty() && !self.is_bodiless);
        let _ = self.act(|exchange| {
            if !exchange.send.is_over {
                exchange.send.finish = Some(Finish { trailers });
            }
        });
        self.shared.wake_shard();
    }

    /// Gives the header section of a response.
    pub(super) fn start(&mut self, response: Response<()>) {
        let _ = self.act(|exchange| {
            if !exchange.send.is_over {
                exchange.send.head = Some(Head::Response(response));
            }
        });
    }

    /// Gives an interim response.
    pub(super) fn inform(&mut self, response: Response<()>) -> Result<(), Error> {
        self.act(|exchange| match &exchange.send.error {
            Some(error) => Err(error.clone()),
            None => {
                exchange.send.informational.push_back(response);
                Ok(())
            }
        })??;
        self.shared.wake_shard();
        Ok(())
    }

    /// Waits until the transport has the whole message.
    pub(super) fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let state = &mut *self.shared.lock();
        match state.exchanges.get_mut(self.key) {
            Some(exchange) => exchange.send.poll_over(context),
            None => Poll::Ready(Err(Error::Cancelled)),
        }
    }

    /// Waits until sending has failed: the peer or the connection gave up. Never completes if the
    /// message is handed over before.
    pub(super) fn poll_failed(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        match ready!(self.poll_over(context)) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error),
        }
    }

    pub(super) fn set_bodiless(&mut self, is_bodiless: bool) {
        self.is_bodiless = is_bodiless;
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Changes the exchange and has the shard look at it, if it is alive.
    fn act<T>(&mut self, change: impl FnOnce(&mut Exchange) -> T) -> Result<T, Error> {
        let state = &mut *self.shared.lock();
        let exchange = state.exchanges.get_mut(self.key).ok_or(Error::Cancelled)?;
        let outcome = change(exchange);
        if !exchange.send.is_over {
            state.touch(self.key);
        }
        Ok(outcome)
    }

    fn cancel(&mut self, code: Code) {
        if core::mem::replace(&mut self.is_committed, true) {
            return;
        }
        let needs_shard = self.act(|exchange| exchange.send.cancel(code));
        if needs_shard.unwrap_or(false) {
            self.shared.wake_shard();
        }
    }
}

impl Drop for SendBody {
    fn drop(&mut self) {
        self.cancel(Code::REQUEST_CANCELLED);
        release(&self.shared, self.key);
    }
}

/// A task has let go of one end of an exchange.
pub(super) fn release(shared: &Shared, key: usize) {
    let state = &mut *shared.lock();
    if let Some(exchange) = state.exchanges.get_mut(key) {
        exchange.handles = exchange.handles.saturating_sub(1);
        state.retire(key);
    }
}

impl AsyncWrite for SendBody {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_room(context))?;
        let (part, _) = data.split_at(data.len().min(COPY));
        ready!(self.poll_write_chunk(context, &mut Bytes::copy_from_slice(part)))?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was given is on its way.
        Poll::Ready(Ok(()))
    }

    /// Ends the message, as [`SendBody::finish`] does.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.commit(None);
        Poll::Ready(Ok(ready!(self.poll_over(context))?))
    }
}

impl core::fmt::Debug for SendBody {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SendBody").finish_non_exhaustive()
    }
}
