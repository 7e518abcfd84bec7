//! Peers that use h3's traits directly, and so can send what h3 does not.

use core::future::poll_fn;

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStreamUnframed,
    StreamErrorIncoming,
};

use crate::frames::Frames;

/// Opens a unidirectional stream and writes to it.
pub(crate) async fn open_uni<C>(connection: &mut C, frames: &Frames) -> C::SendStream
where
    C: Connection<Bytes, SendStream: SendStreamUnframed<Bytes>>,
{
    let opened = poll_fn(|context| connection.poll_open_send(context)).await;
    let mut stream = opened.expect("the connection is open");
    write(&mut stream, frames).await;
    stream
}

/// Opens a bidirectional stream and writes to it.
pub(crate) async fn open_bidi<O>(connection: &mut O, frames: &Frames) -> O::BidiStream
where
    O: OpenStreams<Bytes, BidiStream: SendStreamUnframed<Bytes>>,
{
    let opened = poll_fn(|context| connection.poll_open_bidi(context)).await;
    let mut stream = opened.expect("the connection is open");
    write(&mut stream, frames).await;
    stream
}

pub(crate) async fn write<S: SendStreamUnframed<Bytes>>(stream: &mut S, frames: &Frames) {
    let mut bytes = Bytes::from(frames.bytes());
    while bytes.has_remaining() {
        poll_fn(|context| stream.poll_send(context, &mut bytes)).await.unwrap();
    }
}

pub(crate) async fn finish<S: SendStreamUnframed<Bytes>>(stream: &mut S) {
    poll_fn(|context| stream.poll_finish(context)).await.unwrap();
}

/// Reads and discards the rest of a stream.
pub(crate) async fn read_to_end<S: RecvStream>(stream: &mut S) -> Result<(), StreamErrorIncoming> {
    while poll_fn(|context| stream.poll_data(context)).await?.is_some() {}
    Ok(())
}

/// Waits until the peer closes the connection, and asserts that it does so with `code`.
pub(crate) async fn assert_close<C: Connection<Bytes>>(connection: &mut C, code: Code) {
    let error = loop {
        if let Err(error) = poll_fn(|context| connection.poll_accept_bidi(context)).await {
            break error;
        }
    };
    assert_is_close(&error, code);
}

#[track_caller]
pub(crate) fn assert_is_close(error: &ConnectionErrorIncoming, code: Code) {
    let ConnectionErrorIncoming::ApplicationClose { error_code } = error else {
        panic!("{error:?}")
    };
    assert_eq!(*error_code, code.value());
}
