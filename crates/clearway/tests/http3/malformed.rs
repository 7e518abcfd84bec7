//! Tests of peers that violate the protocol: the result is an error, never a hang.

use clearway::http3::{Code, Error};
use clearway::{ConnectionError, Endpoint, VarInt};
use http::Response;

use crate::support::{Pair, configs, get, loopback, run};

/// A control stream with empty SETTINGS (RFC 9114 §6.2.1).
const CONTROL: &[u8] = &[0x00, 0x04, 0x00];

fn code(code: Code) -> VarInt {
    VarInt::from_u32(u32::try_from(code.get()).unwrap())
}

#[test]
fn a_client_without_settings_is_closed() {
    run(async {
        let pair = Pair::new();
        let client = pair.raw_client().await;
        let mut control = client.open_uni().await.unwrap();
        // DATA where SETTINGS is required (§6.2.1).
        control.write_all(&[0x00, 0x00, 0x00]).await.unwrap();
        let error = client.closed().await;
        let ConnectionError::ApplicationClosed { error_code, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(error_code, code(Code::MISSING_SETTINGS));
    });
}

#[test]
fn a_malformed_request_is_never_passed_to_the_application() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move {
            assert_eq!(request.uri().path(), "/good");
            Response::new("fine")
        });
        let client = pair.raw_client().await;
        let mut control = client.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        // HEADERS with an empty field section: no pseudo-header fields (§4.3.1).
        send.write_all(&[0x01, 0x02, 0x00, 0x00]).await.unwrap();
        send.finish().unwrap();
        let error = recv.read_to_end(1000).await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains(&format!("{}", Code::MESSAGE_ERROR.get())), "{text}");
        let client = pair.client().await;
        assert_eq!(client.send(get("/good")).await.unwrap().status(), 200);
    });
}

/// Returns the client's error when a server sends the bytes `response` on the first request stream,
/// and ends the stream if `is_ended`.
async fn answered_with(response: &'static [u8], is_ended: bool) -> Error {
    let (server, config) = configs(Default::default());
    let server = Endpoint::server(loopback(), server).unwrap();
    let address = server.local_address();
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.unwrap().await.unwrap();
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        let (mut send, _recv) = connection.accept_bi().await.unwrap();
        send.write_all(response).await.unwrap();
        if is_ended {
            send.finish().unwrap();
        }
        connection.closed().await;
        drop(send);
    });
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = clearway::http3::Client::connect(&endpoint, &config, address, "localhost");
    let client = client.await.unwrap();
    let error = match client.send(get("/")).await {
        Err(error) => error,
        Ok(mut response) => response.body_mut().bytes(1000).await.unwrap_err(),
    };
    client.close(Code::NO_ERROR);
    serving.await.unwrap();
    error
}

#[test]
fn malformed_responses_are_errors() {
    run(async {
        // DATA precedes HEADERS (§4.1).
        let error = answered_with(&[0x00, 0x01, 0x61], false).await;
        let is_unexpected =
            matches!(&error, Error::Protocol(why) if why.code == Code::FRAME_UNEXPECTED);
        assert!(is_unexpected, "{error}");
        // There is no final response (§4.1).
        let error = answered_with(&[], true).await;
        assert!(matches!(error, Error::Malformed(_)), "{error}");
        // The field section references an entry that the Required Insert Count does not cover (RFC
        // 9204 §2.2.3).
        let error = answered_with(&[0x01, 0x03, 0x00, 0x00, 0x80], false).await;
        let is_qpack =
            matches!(&error, Error::Protocol(why) if why.code == Code::QPACK_DECOMPRESSION_FAILED);
        assert!(is_qpack, "{error}");
    });
}

#[test]
fn less_content_than_announced_is_an_error() {
    run(async {
        // :status 200 (static 25), content-length (static name 4) "3", then two bytes (§4.1.2).
        let response = &[0x01, 0x06, 0x00, 0x00, 0xd9, 0x54, 0x01, 0x33, 0x00, 0x02, 0x61, 0x62];
        let error = answered_with(response, true).await;
        assert!(matches!(error, Error::Malformed(_)), "{error}");
    });
}

#[test]
fn a_frame_cut_off_is_an_error() {
    run(async {
        // :status 200, then DATA of 9 bytes of which 2 arrive (§7.1).
        let response = &[0x01, 0x03, 0x00, 0x00, 0xd9, 0x00, 0x09, 0x61, 0x62];
        let error = answered_with(response, true).await;
        let is_frame = matches!(&error, Error::Protocol(why) if why.code == Code::FRAME_ERROR);
        assert!(is_frame, "{error}");
    });
}
