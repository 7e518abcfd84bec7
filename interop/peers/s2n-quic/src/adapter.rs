//! Adapter from s2n-quic to h3's traits for connections and streams. Errors preserve the codes that
//! the peer sent.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use s2n_quic::application;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::stream::{self, BidirectionalStream};

/// Maximum number of bytes to copy into s2n-quic per call. s2n-quic keeps the copy until the data
/// is acknowledged.
const LONGEST_COPY: usize = 64 << 10;

/// One QUIC connection.
pub struct Connection {
    opener: Opener,
    bidirectional: BidirectionalStreamAcceptor,
    unidirectional: ReceiveStreamAcceptor,
}

impl Connection {
    pub fn new(connection: s2n_quic::Connection) -> Self {
        let (handle, acceptor) = connection.split();
        let (bidirectional, unidirectional) = acceptor.split();
        Self { opener: Opener(handle), bidirectional, unidirectional }
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = Receive;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Receive, ConnectionErrorIncoming>> {
        let accepted = ready!(self.unidirectional.poll_accept_receive_stream(context));
        Poll::Ready(match accepted {
            Ok(Some(stream)) => Ok(Receive(stream)),
            Ok(None) => Err(closed()),
            Err(error) => Err(connection_error(error)),
        })
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bidirectional<B>, ConnectionErrorIncoming>> {
        let accepted = ready!(self.bidirectional.poll_accept_bidirectional_stream(context));
        Poll::Ready(match accepted {
            Ok(Some(stream)) => Ok(Bidirectional::new(stream)),
            Ok(None) => Err(closed()),
            Err(error) => Err(connection_error(error)),
        })
    }

    fn opener(&self) -> Opener {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = Bidirectional<B>;
    type SendStream = Send<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bidirectional<B>, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(context)
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Send<B>, StreamErrorIncoming>> {
        self.opener.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}

/// Opens streams on a connection.
#[derive(Clone)]
pub struct Opener(Handle);

impl<B: Buf> quic::OpenStreams<B> for Opener {
    type BidiStream = Bidirectional<B>;
    type SendStream = Send<B>;

    fn poll_open_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bidirectional<B>, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_bidirectional_stream(context));
        Poll::Ready(opened.map(Bidirectional::new).map_err(lost))
    }

    fn poll_open_send(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Send<B>, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_send_stream(context));
        Poll::Ready(opened.map(Send::new).map_err(lost))
    }

    /// Ignores the reason, because s2n-quic does not send it.
    fn close(&mut self, code: Code, _reason: &[u8]) {
        self.0.close(application_error(code.value()));
    }
}

/// Both halves of a bidirectional stream.
pub struct Bidirectional<B: Buf> {
    send: Send<B>,
    receive: Receive,
}

impl<B: Buf> Bidirectional<B> {
    fn new(stream: BidirectionalStream) -> Self {
        let (receive, send) = stream.split();
        Self { send: Send::new(send), receive: Receive(receive) }
    }
}

impl<B: Buf> quic::BidiStream<B> for Bidirectional<B> {
    type SendStream = Send<B>;
    type RecvStream = Receive;

    fn split(self) -> (Send<B>, Receive) {
        (self.send, self.receive)
    }
}

impl<B: Buf> quic::SendStream<B> for Bidirectional<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for Bidirectional<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

/// The sending half of a stream.
pub struct Send<B: Buf> {
    stream: stream::SendStream,
    /// Data from h3 that has not been copied yet.
    waiting: Option<WriteBuf<B>>,
    /// Copied data that s2n-quic has not accepted yet.
    copied: Bytes,
}

impl<B: Buf> Send<B> {
    fn new(stream: stream::SendStream) -> Self {
        Self { stream, waiting: None, copied: Bytes::new() }
    }
}

impl<B: Buf> quic::SendStream<B> for Send<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            if !self.copied.is_empty() {
                ready!(self.stream.poll_send(&mut self.copied, context)).map_err(stream_error)?;
            }
            let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.has_remaining())
            else {
                break;
            };
            self.copied = waiting.copy_to_bytes(waiting.remaining().min(LONGEST_COPY));
        }
        self.waiting = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.waiting.is_some() {
            let text = "h3 sent data before the stream was ready for it";
            return Err(StreamErrorIncoming::ConnectionErrorIncoming {
                connection_error: ConnectionErrorIncoming::InternalError(text.to_owned()),
            });
        }
        self.waiting = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.stream.finish().map_err(stream_error))
    }

    fn reset(&mut self, code: u64) {
        // An error means that the stream has already ended.
        let _ = self.stream.reset(application_error(code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

/// The receiving half of a stream.
pub struct Receive(stream::ReceiveStream);

impl quic::RecvStream for Receive {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_receive(context).map_err(stream_error)
    }

    fn stop_sending(&mut self, code: u64) {
        // An error means that the stream has already ended.
        let _ = self.0.stop_sending(application_error(code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

fn stream_id(id: u64) -> StreamId {
    StreamId::try_from(id).expect("s2n-quic's stream IDs are below 2^62")
}

fn application_error(code: u64) -> application::Error {
    application::Error::new(code).unwrap_or(application::Error::UNKNOWN)
}

/// Returns the h3 error for a connection that the peer closed without an error.
fn closed() -> ConnectionErrorIncoming {
    ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() }
}

fn connection_error(error: connection::Error) -> ConnectionErrorIncoming {
    match error {
        connection::Error::Closed { .. } => closed(),
        connection::Error::Application { error, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: *error }
        }
        connection::Error::IdleTimerExpired { .. } => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn lost(error: connection::Error) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

fn stream_error(error: stream::Error) -> StreamErrorIncoming {
    match error {
        stream::Error::StreamReset { error, .. } => {
            StreamErrorIncoming::StreamTerminated { error_code: *error }
        }
        stream::Error::ConnectionError { error, .. } => lost(error),
        other => StreamErrorIncoming::Unknown(Box::new(other)),
    }
}
