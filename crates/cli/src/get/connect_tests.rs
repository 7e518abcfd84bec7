use std::cell::RefCell;
use std::net::SocketAddr;

use clearway::ConfigError;
use clearway::transport::{SessionError, TransportError};

use super::*;

fn attempt() -> Attempt {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    Attempt {
        server: Server { name: "a.example:9".to_owned(), address },
        host: "a.example".to_owned(),
        config: ClientConfig::dangerous_without_certificate_verification(),
        early: Vec::new(),
        http09: false,
        http3: Config::default(),
        priority: None,
    }
}

fn rejected(retry_configs: Option<Vec<u8>>) -> ConnectionError {
    let mut error = TransportError::internal("");
    error.cause = TransportErrorCause::EncryptedClientHelloRejected { retry_configs };
    ConnectionError::TransportError(error)
}

/// Returns whether a connection of this attempt would use a malformed ECHConfigList.
fn uses_malformed_list(attempt: &Attempt) -> bool {
    let endpoint = Endpoint::client(any(attempt.server.address)).unwrap();
    let connecting = endpoint.connect_with(&attempt.config, attempt.server.address, &attempt.host);
    matches!(connecting, Err(ConfigError::Tls(SessionError::EncryptedClientHello(_))))
}

/// A client retries once with the ECH keys that the server sends; the second outcome is final.
#[tokio::test]
async fn other_ech_keys_are_tried_once() {
    let list = || Some(b"malformed".to_vec());
    for (lists, expected) in [
        (vec![None], Err("failure 1")),
        (vec![list(), None], Err("failure 2")),
        (vec![list(), list()], Err("failure 2")),
        (vec![list()], Ok(2)),
        (vec![], Ok(1)),
    ] {
        let attempts = RefCell::new(Vec::new());
        let connect = |attempt: Attempt| {
            attempts.borrow_mut().push(uses_malformed_list(&attempt));
            let number = attempts.borrow().len();
            let list = lists.get(number - 1).cloned();
            async move {
                let Some(ech_configs) = list else { return Ok(number) };
                Err(Unconnected { failure: Failure::new(format!("failure {number}")), ech_configs })
            }
        };
        let outcome = at_most_twice(attempt(), connect).await;
        let outcome = outcome.map_err(|unconnected| unconnected.failure.to_string());
        assert_eq!(outcome.as_ref().map_err(String::as_str), expected.as_ref().map_err(|it| *it));
        let attempts = attempts.into_inner();
        assert_eq!(attempts, [false, true][..attempts.len()], "only the second has the new keys");
    }
}

#[test]
fn other_ech_keys_are_found_in_the_error() {
    let of = |error: ConnectionError| other_ech_configs(&error);
    assert_eq!(of(rejected(Some(vec![1, 2]))), Some(vec![1, 2]));
    assert_eq!(of(rejected(None)), None);
    assert_eq!(of(ConnectionError::TimedOut), None);
    let wrapped = clearway::http3::Error::Connection(rejected(Some(vec![3])));
    assert_eq!(other_ech_configs(&wrapped), Some(vec![3]));
    assert_eq!(other_ech_configs(&clearway::http3::Error::WrongProtocol), None);
}
