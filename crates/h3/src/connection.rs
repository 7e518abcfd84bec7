use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Buf;
use clearway::ConnectionError;
use h3::error::Code;
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

use crate::error::{connection_error, connection_lost};
use crate::frame_cutter::FrameCutter;
use crate::{BidiStream, RecvStream, SendStream, error_code};

/// The two halves of a bidirectional stream.
type Halves = (clearway::SendStream, clearway::RecvStream);

/// A future that waits for a stream.
type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>;

/// Number of unidirectional streams that h3 opens before it exchanges anything: the control stream
/// and those of QPACK.
const FIRST_STREAMS: u8 = 3;

/// A connection for [`h3::client::new`](::h3::client::new) and
/// [`h3::server::Connection::new`](::h3::server::Connection::new).
///
/// The application protocol (ALPN) of an HTTP/3 connection is `h3`. h3 opens three unidirectional
/// streams and, unless told otherwise, one more that exercises the peer's handling of unknown
/// stream types (RFC 9114 §6.2.3).
pub struct Connection {
    open: OpenStreams,
    /// Number of unidirectional streams opened so far, up to [`FIRST_STREAMS`].
    opened_first: u8,
    accepting_bidi: Option<Waiting<Halves>>,
    accepting_recv: Option<Waiting<clearway::RecvStream>>,
}

impl Connection {
    /// Creates an adapter for an established connection, or for one on which early data can be
    /// exchanged.
    pub fn new(connection: clearway::Connection) -> Self {
        Self {
            open: OpenStreams::new(connection),
            opened_first: 0,
            accepting_bidi: None,
            accepting_recv: None,
        }
    }

    #[cfg(feature = "datagram")]
    pub(crate) fn quic(&self) -> &clearway::Connection {
        &self.open.connection
    }
}

impl<B: Buf> h3::quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let connection = &self.open.connection;
        let accepted = poll_slot(&mut self.accepting_recv, context, || {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_uni().await })
        });
        let stream = |stream| RecvStream::new(stream, FrameCutter::unidirectional());
        accepted.map_ok(stream).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let connection = &self.open.connection;
        let accepted = poll_slot(&mut self.accepting_bidi, context, || {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_bi().await })
        });
        accepted.map_ok(BidiStream::new).map_err(connection_error)
    }

    fn opener(&self) -> OpenStreams {
        self.open.clone()
    }
}

impl<B: Buf> h3::quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        self.open.poll_open_bidi(context)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let opened = ready!(self.open.poll_open_send(context));
        if self.opened_first < FIRST_STREAMS {
            self.opened_first += 1;
            if self.opened_first == FIRST_STREAMS {
                self.open.open_in_advance(context);
            }
        }
        Poll::Ready(opened)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.open.close_connection(code, reason);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.open.connection).finish()
    }
}

/// A handle that opens streams on a connection. Clones wait for streams independently.
pub struct OpenStreams {
    connection: clearway::Connection,
    opening_bidi: Option<Waiting<Halves>>,
    opening_send: Option<Waiting<clearway::SendStream>>,
}

impl OpenStreams {
    fn new(connection: clearway::Connection) -> Self {
        Self { connection, opening_bidi: None, opening_send: None }
    }

    /// Begins to open the next unidirectional stream, so that it is there when h3 asks for it.
    ///
    /// h3 opens a stream of a reserved type when a frame arrives on the control stream. If it has to
    /// wait then, it loses the frame, for example GOAWAY.
    fn open_in_advance(&mut self, context: &mut Context<'_>) {
        let connection = self.connection.clone();
        let mut opening: Waiting<_> = Box::pin(async move { connection.open_uni().await });
        if let Poll::Ready(outcome) = opening.as_mut().poll(context) {
            opening = Box::pin(core::future::ready(outcome));
        }
        self.opening_send = Some(opening);
    }

    fn close_connection(&self, code: Code, reason: &[u8]) {
        self.connection.close(error_code(code.value()), reason);
    }
}

impl<B: Buf> h3::quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let connection = &self.connection;
        let opened = poll_slot(&mut self.opening_bidi, context, || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_bi().await })
        });
        opened.map_ok(BidiStream::new).map_err(connection_lost)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let connection = &self.connection;
        let opened = poll_slot(&mut self.opening_send, context, || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        opened.map_ok(SendStream::new).map_err(connection_lost)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.close_connection(code, reason);
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone())
    }
}

impl fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenStreams").field(&self.connection).finish()
    }
}

/// Polls the future in `slot`; if there is none, `start` creates one.
fn poll_slot<T>(
    slot: &mut Option<Waiting<T>>,
    context: &mut Context<'_>,
    start: impl FnOnce() -> Waiting<T>,
) -> Poll<Result<T, ConnectionError>> {
    let outcome = ready!(slot.get_or_insert_with(start).as_mut().poll(context));
    *slot = None;
    Poll::Ready(outcome)
}
