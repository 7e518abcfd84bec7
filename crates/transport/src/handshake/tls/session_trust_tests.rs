use std::sync::Arc;

use rustls::RootCertStore;

use super::super::{TlsClientConfig, TlsClientSettings, TlsServerConfig, certified_key};
use super::*;
use crate::handshake::tests;
use crate::handshake::tls::tests::resumes_in_version_1 as resumes;
use crate::{MemorySessionStore, SessionStore};

fn settings(identity: &tests::Identity, verifies: bool) -> TlsClientSettings {
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let trust = match verifies {
        true => ServerTrust::Roots(roots.into()),
        false => ServerTrust::DangerousAnyone,
    };
    TlsClientSettings::new(trust, &[b"h3"])
}

fn client(settings: TlsClientSettings, store: &Arc<MemorySessionStore>) -> TlsClientConfig {
    TlsClientConfig::from_settings(settings).unwrap().session_store(store.clone())
}

fn server(identity: &tests::Identity) -> TlsServerConfig {
    tests::server_config(identity, &[b"h3"])
}

/// Whether a client with the second settings resumes a session of a client with the first.
fn is_shared(identity: &tests::Identity, settings: [TlsClientSettings; 2]) -> bool {
    let store = Arc::new(MemorySessionStore::default());
    let server = server(identity);
    let [first, second] = settings.map(|settings| client(settings, &store));
    assert!(!resumes(&first, &server));
    // The session is read as in another process.
    let session = store.take_session("localhost", clearway_wire::Version::V1).unwrap();
    let session = super::super::SavedSession::decode(&session.encode()).unwrap();
    store.put_session("localhost", session);
    resumes(&second, &server)
}

/// A session is not resumed by a client that verifies certificates if the client that received it
/// did not, even if the server's certificate is valid.
#[test]
fn a_session_without_verification_is_not_used_with_it() {
    let identity = tests::identity();
    for (first, second, expected) in
        [(true, true, true), (true, false, true), (false, false, true), (false, true, false)]
    {
        let settings = [settings(&identity, first), settings(&identity, second)];
        assert_eq!(is_shared(&identity, settings), expected, "{first} {second}");
    }
}

/// A server that resumes a session accepts the client identity with which the session began.
#[test]
fn a_session_belongs_to_the_certificate_of_the_client() {
    let identity = tests::identity();
    let certificates = [None, Some(()), Some(())].map(|it| {
        it.map(|()| {
            let made = tests::identity();
            Arc::new(certified_key(vec![made.certificate], made.key).unwrap())
        })
    });
    for first in 0..3 {
        for second in 0..3 {
            let settings = [first, second].map(|index: usize| {
                let mut settings = settings(&identity, true);
                settings.certificate.clone_from(&certificates[index]);
                settings
            });
            assert_eq!(is_shared(&identity, settings), first == second, "{first} {second}");
        }
    }
}

#[test]
fn a_session_is_used_for_a_week_after_the_server_has_shown_its_certificate() {
    let side = ClientSide { verifies: true, certificate: None };
    let trust = SessionTrust { side, began: 1_000_000 };
    let week = u64::from(MAX_LIFETIME);
    assert!(trust.permits(&side, 1_000_000 + week));
    assert!(!trust.permits(&side, 1_000_001 + week));
    let never = SessionTrust { side, began: u64::MAX };
    assert_eq!(never.expires(), u64::MAX);
}

#[test]
fn what_is_noted_is_read_again() {
    for certificate in [None, Some([7; SHA256_OUTPUT_LEN])] {
        for verifies in [false, true] {
            let trust = SessionTrust { side: ClientSide { verifies, certificate }, began: 5 };
            let encoded = trust.encode();
            assert_eq!(SessionTrust::decode(&encoded), Some(trust));
            for end in (0..encoded.len()).filter(|end| *end != 9) {
                assert_eq!(SessionTrust::decode(&encoded[..end]), None, "cut at {end}");
            }
        }
    }
}
