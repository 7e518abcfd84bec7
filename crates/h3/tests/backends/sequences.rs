//! Valid and invalid sequences of frames in a request (RFC 9114 §4.1). The cases are those of h3's
//! own tests.

use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::quic::{Connection, StreamErrorIncoming};
use h3::{client, server};

use crate::backend::{Backend, Clearway, LONG, over_each_backend};
use crate::frames::{Frames, POST, TRAILERS};
use crate::raw::{assert_is_close, finish, open_bidi, read_to_end};
use crate::support::{assert_closed_by_peer, assert_closed_here, drive, respond, run};

over_each_backend! {
    valid_sequences
    frames_of_the_control_stream
    content_and_trailers_in_the_wrong_order
}

type Server<B> = server::Connection<<B as Backend>::Connection, Bytes>;

fn head() -> Frames {
    Frames::new().headers(POST)
}

async fn valid_sequences<B: Backend>() {
    let cases = [
        head(),
        head().data(b"data"),
        head().data(b"data").headers(TRAILERS),
        head().data(b"data").data(b"data").data(b"data").headers(TRAILERS),
        head().headers(TRAILERS),
        Frames::new().reserved().headers(POST),
        head().reserved(),
        head().reserved().data(b"data"),
        head().data(b"data").reserved().data(b"data"),
        head().data(b"data").reserved(),
        head().data(b"data").reserved().headers(TRAILERS),
        head().data(b"data").headers(TRAILERS).reserved(),
    ];
    for case in &cases {
        valid::<B>(case).await;
    }
}

/// Frames that only the control stream may have: CANCEL_PUSH, SETTINGS, GOAWAY and MAX_PUSH_ID.
async fn frames_of_the_control_stream<B: Backend>() {
    let beginnings =
        [Frames::new(), head(), head().data(b"data"), head().data(b"data").headers(TRAILERS)];
    let frames: [(u8, &[u8]); 4] = [(0x03, &[0]), (0x04, &[]), (0x07, &[1]), (0x0d, &[1])];
    for beginning in &beginnings {
        for (kind, payload) in frames {
            let case = beginning.clone().frame(kind, payload);
            invalid::<B>(&case, Code::H3_FRAME_UNEXPECTED).await;
        }
    }
}

async fn content_and_trailers_in_the_wrong_order<B: Backend>() {
    let cases = [
        Frames::new().data(b"data"),
        head().headers(TRAILERS).data(b"data"),
        head().data(b"data").headers(TRAILERS).headers(TRAILERS),
    ];
    for case in &cases {
        invalid::<B>(case, Code::H3_FRAME_UNEXPECTED).await;
    }
}

/// Over quinn, h3 may panic if it has read a part of a frame when the stream ends.
#[test]
fn incomplete_frames() {
    let cases = [
        // A byte follows the last frame.
        head().data(b"data").headers(TRAILERS).raw(&[0xff]),
        // The content is shorter than the frame's length, so it includes the next frame's type.
        head().raw(&[0x00, 5]).raw(b"data").headers(TRAILERS),
        // The content is longer than the frame's length.
        head().raw(&[0x00, 3]).raw(b"data"),
    ];
    run(async {
        for case in &cases {
            invalid::<Clearway>(case, Code::H3_FRAME_ERROR).await;
        }
    });
}

/// How an exchange has ended.
struct Outcome {
    /// What the client has read after its request.
    read: Result<(), StreamErrorIncoming>,
    client: ConnectionError,
    request: Result<(), StreamError>,
    server: ConnectionError,
}

/// Sends `frames` as a request, to which a server of h3 responds. The client closes the connection
/// if the request is valid.
async fn exchange<B: Backend>(frames: &Frames, is_valid: bool) -> Outcome {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let mut opener = client.opener();
        let (driver, handle) = client::new(client).await.unwrap();
        let mut handle = Some(handle);
        let request = async {
            let mut stream = open_bidi(&mut opener, frames).await;
            finish(&mut stream).await;
            let read = read_to_end(&mut stream).await;
            if is_valid {
                // The driver then closes the connection.
                handle = None;
            }
            read
        };
        tokio::join!(request, drive(driver))
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let resolver = server.accept().await.unwrap().unwrap();
        let request = async {
            let (_, mut stream) = resolver.resolve_request().await?;
            while stream.recv_data().await?.is_some() {}
            stream.recv_trailers().await?;
            respond(&mut stream).await;
            Ok(())
        };
        tokio::join!(request, async { server.accept().await.err().unwrap() })
    };
    let ((read, client), (request, server)) = tokio::join!(client, server);
    Outcome { read, client, request, server }
}

async fn valid<B: Backend>(frames: &Frames) {
    let outcome = exchange::<B>(frames, true).await;
    outcome.read.unwrap();
    outcome.request.unwrap();
    assert_closed_here(&outcome.client, Code::H3_NO_ERROR);
    assert_closed_by_peer(&outcome.server, Code::H3_NO_ERROR);
}

async fn invalid<B: Backend>(frames: &Frames, code: Code) {
    let outcome = exchange::<B>(frames, false).await;
    // The end of the stream may precede the end of the connection.
    match outcome.read {
        Ok(()) => {}
        Err(StreamErrorIncoming::ConnectionErrorIncoming { connection_error }) => {
            assert_is_close(&connection_error, code);
        }
        Err(error) => panic!("{error:?}"),
    }
    let Err(StreamError::ConnectionError(error)) = outcome.request else {
        panic!("{:?}", outcome.request)
    };
    assert_closed_here(&error, code);
    assert_closed_by_peer(&outcome.client, code);
    assert_closed_here(&outcome.server, code);
}
