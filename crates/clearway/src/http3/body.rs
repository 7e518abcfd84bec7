use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::{Error, RecvBody, SendBody};

type BoxError = Box<dyn core::error::Error + Send + Sync>;
type Streamed = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>;

/// Maximum number of bytes to read from a reader in one call.
const READ: usize = 64 << 10;

/// Maximum number of frames to take from a body before other tasks run.
const FRAMES: usize = 32;

/// Capacity of a channel, in chunks.
const CHANNEL: usize = 16;

/// The content of a message to send: empty, bytes, or a stream.
#[derive(Default)]
pub struct Body {
    content: Content,
    trailers: Option<HeaderMap>,
}

#[derive(Default)]
enum Content {
    #[default]
    Empty,
    Full(Bytes),
    Streamed(Streamed),
}

impl Body {
    /// Creates an empty body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a body from these bytes, without copying them. A content-length field is added to
    /// the message if there is none.
    pub fn full(content: impl Into<Bytes>) -> Self {
        Self { content: Content::Full(content.into()), trailers: None }
    }

    /// Creates a body with the content that `reader` provides until EOF.
    pub fn from_reader(reader: impl AsyncRead + Send + 'static) -> Self {
        let reader = Reader { reader: Box::pin(reader), buffer: BytesMut::new() };
        Self::wrap(reader)
    }

    /// Creates a body from any other [`http_body::Body`].
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let streamed: Streamed = Box::pin(Boxed(Box::pin(body)));
        Self { content: Content::Streamed(streamed), trailers: None }
    }

    /// Creates a body whose content another task sends piece by piece.
    pub fn channel() -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        (BodySender { sender }, Self::wrap(Channel { receiver, is_ended: false }))
    }

    /// Adds a trailer section.
    pub fn with_trailers(mut self, trailers: HeaderMap) -> Self {
        self.trailers = Some(trailers);
        self
    }

    /// Returns the length in bytes, if it is known.
    pub fn length(&self) -> Option<u64> {
        match &self.content {
            Content::Empty => Some(0),
            Content::Full(content) => Some(content.len() as u64),
            Content::Streamed(body) => body.size_hint().exact(),
        }
    }

    /// Passes the header section of a response to `send`. If all content is available immediately,
    /// even from a stream that returns it in one piece, the content is sent with the header
    /// section. Otherwise returns a pump that streams the content. The message must not contain
    /// content yet, so that there is room. If it must not have content at all, the body is dropped
    /// without being polled, since it may be long or never end.
    pub(super) fn begin(self, send: &mut SendBody, head: Option<Response<()>>) -> Option<Pump> {
        if send.is_bodiless() {
            send.commit_with(head, Bytes::new(), None);
            return None;
        }
        let content = match self.content {
            Content::Empty => Bytes::new(),
            Content::Full(content) => content,
            Content::Streamed(body) => {
                let mut pump = Pump { body, ahead: VecDeque::new(), trailers: self.trailers };
                let Some(content) = pump.take_whole() else {
                    if let Some(head) = head {
                        send.start(head);
                    }
                    if pump.ahead.is_empty() {
                        // Producing the content may take long; the header section should not wait
                        // for it.
                        send.wake_shard();
                    }
                    return Some(pump);
                };
                send.commit_with(head, content, pump.trailers);
                return None;
            }
        };
        send.commit_with(head, content, self.trailers);
        None
    }
}

/// Streams a body's content to a message.
pub(super) struct Pump {
    body: Streamed,
    /// Frames that the body has returned and that have not been sent yet.
    ahead: VecDeque<Given>,
    trailers: Option<HeaderMap>,
}

/// The result of polling a body that has not ended.
type Given = Result<Frame<Bytes>, BoxError>;

impl Pump {
    /// Returns the entire content if the body returns it immediately in one piece. Otherwise the
    /// frames that the body returned are kept.
    fn take_whole(&mut self) -> Option<Bytes> {
        // The body is polled again later by a task that waits for it.
        let context = &mut Context::from_waker(Waker::noop());
        let first = match self.body.as_mut().poll_frame(context) {
            Poll::Pending => return None,
            Poll::Ready(None) => return Some(Bytes::new()),
            Poll::Ready(Some(first)) => first,
        };
        // No second piece is requested until there is room for it.
        let may_be_all = matches!(&first, Ok(frame) if frame.is_data())
            && self.body.size_hint().exact() == Some(0);
        self.ahead.push_back(first);
        if may_be_all && let Poll::Ready(second) = self.body.as_mut().poll_frame(context) {
            match second {
                None => return self.ahead.pop_front()?.ok()?.into_data().ok(),
                Some(second) => self.ahead.push_back(second),
            }
        }
        None
    }

    /// Returns the body's next frame; `Ready(None)` at its end.
    fn poll_given(&mut self, context: &mut Context<'_>) -> Poll<Option<Given>> {
        match self.ahead.pop_front() {
            Some(given) => Poll::Ready(Some(given)),
            None => self.body.as_mut().poll_frame(context),
        }
    }

    /// Passes all content to `send`, which is canceled if the body fails.
    pub(super) async fn run(mut self, mut send: SendBody) -> Result<(), Error> {
        let mut has_room = false;
        for number in 1_usize.. {
            if number.is_multiple_of(FRAMES) {
                yield_now(&mut send).await?;
            }
            // No content is produced until there is room for it.
            if !has_room {
                send.room().await?;
            }
            let frame = poll_fn(|context| {
                let frame = self.poll_given(context);
                if frame.is_pending()
                    && let Poll::Ready(error) = send.poll_failed(context)
                {
                    // The message has failed: the remaining content need not be produced.
                    return Poll::Ready(Err(error));
                }
                frame.map(Ok)
            });
            match frame.await? {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => has_room = send.push(chunk)?,
                    Err(frame) => self.trailers = frame.into_trailers().ok().or(self.trailers),
                },
                Some(Err(error)) => {
                    let error = Error::Body(Arc::from(error));
                    send.fail(&error);
                    return Err(error);
                }
                None => break,
            }
        }
        match self.trailers {
            Some(trailers) => send.finish_with_trailers(trailers).await,
            None => send.finish().await,
        }
    }
}

/// Lets other tasks run. Fails if the message has failed.
async fn yield_now(send: &mut SendBody) -> Result<(), Error> {
    let mut has_yielded = false;
    poll_fn(|context| {
        if let Poll::Ready(error) = send.poll_failed(context) {
            return Poll::Ready(Err(error));
        }
        if core::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(Ok(()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

macro_rules! from_bytes {
    ($($bytes:ty)*) => {$(
        impl From<$bytes> for Body {
            fn from(content: $bytes) -> Self {
                Self::full(content)
            }
        }
    )*};
}

from_bytes! { Bytes Vec<u8> String &'static str &'static [u8] }

impl From<RecvBody> for Body {
    fn from(body: RecvBody) -> Self {
        Self::wrap(body)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match core::mem::take(&mut self.content) {
            Content::Full(content) if !content.is_empty() => Some(Ok(Frame::data(content))),
            Content::Empty | Content::Full(_) => None,
            Content::Streamed(mut body) => {
                let polled = body.as_mut().poll_frame(context);
                if !matches!(polled, Poll::Ready(None)) {
                    self.content = Content::Streamed(body);
                }
                ready!(polled)
            }
        };
        let trailers = || self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers)));
        Poll::Ready(frame.or_else(trailers))
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none()
            && match &self.content {
                Content::Empty => true,
                Content::Full(content) => content.is_empty(),
                // Trailers may follow even if there is no content.
                Content::Streamed(body) => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        self.length().map(SizeHint::with_exact).unwrap_or_default()
    }
}

/// Sends content to a [`Body`] piece by piece.
///
/// Dropping the sender without [`finish`](Self::finish) cancels the message, since its content is
/// then incomplete.
#[derive(Debug)]
pub struct BodySender {
    sender: mpsc::Sender<Part>,
}

#[derive(Debug)]
enum Part {
    Data(Bytes),
    End(Option<HeaderMap>),
    Failed(BoxError),
}

impl BodySender {
    /// Sends the next chunk of content without copying it, as soon as the channel to the body has
    /// room.
    ///
    /// # Errors
    /// Fails if the message was canceled, so that the content is no longer needed.
    pub async fn send(&self, chunk: impl Into<Bytes>) -> Result<(), BodyUnwanted> {
        self.sender.send(Part::Data(chunk.into())).await.map_err(|_| BodyUnwanted)
    }

    /// Ends the content.
    ///
    /// # Errors
    /// Returns the same error as [`send`](Self::send).
    pub async fn finish(self) -> Result<(), BodyUnwanted> {
        self.sender.send(Part::End(None)).await.map_err(|_| BodyUnwanted)
    }

    /// Ends the content with a trailer section.
    ///
    /// # Errors
    /// Returns the same error as [`send`](Self::send).
    pub async fn finish_with_trailers(self, trailers: HeaderMap) -> Result<(), BodyUnwanted> {
        self.sender.send(Part::End(Some(trailers))).await.map_err(|_| BodyUnwanted)
    }

    /// Cancels the message because of `error`, which the receiving half of the exchange on this
    /// endpoint reports ([`Error::Body`]).
    pub async fn fail(self, error: impl Into<Box<dyn core::error::Error + Send + Sync>>) {
        // Fails if the message was already canceled.
        let _ = self.sender.send(Part::Failed(error.into())).await;
    }
}

/// The content is no longer needed because the message was canceled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BodyUnwanted;

impl fmt::Display for BodyUnwanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message was canceled: its content is no longer needed")
    }
}

impl core::error::Error for BodyUnwanted {}

/// The [`BodySender`] was dropped before the end of the content.
#[derive(Debug)]
struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the content is incomplete")
    }
}

impl core::error::Error for CutOff {}

/// The content that a [`BodySender`] sends.
struct Channel {
    receiver: mpsc::Receiver<Part>,
    is_ended: bool,
}

impl http_body::Body for Channel {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let part = ready!(self.receiver.poll_recv(context));
        self.is_ended = !matches!(part, Some(Part::Data(_)));
        Poll::Ready(match part {
            Some(Part::Data(chunk)) => Some(Ok(Frame::data(chunk))),
            Some(Part::End(trailers)) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Some(Part::Failed(error)) => Some(Err(error)),
            None => Some(Err(CutOff.into())),
        })
    }
}

/// The content that a reader provides.
struct Reader<R> {
    reader: Pin<Box<R>>,
    /// Zeroed memory to read into.
    buffer: BytesMut,
}

impl<R: AsyncRead> http_body::Body for Reader<R> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Self { reader, buffer } = &mut *self;
        buffer.resize(READ, 0);
        let mut target = ReadBuf::new(buffer);
        if let Err(error) = ready!(reader.as_mut().poll_read(context, &mut target)) {
            return Poll::Ready(Some(Err(error)));
        }
        let filled = target.filled().len();
        let chunk = buffer.split_to(filled).freeze();
        Poll::Ready((filled > 0).then(|| Ok(Frame::data(chunk))))
    }
}

/// A body with a type-erased error.
struct Boxed<B>(Pin<Box<B>>);

impl<B> http_body::Body for Boxed<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.as_mut().poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
