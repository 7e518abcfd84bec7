use rustls::RootCertStore;

use super::super::{ServerTrust, TlsClientConfig, TlsClientSettings};
use super::*;
use crate::handshake::tests;
use crate::handshake::tls::tests::resumes_in_version_1 as resumes;
use crate::{MemorySessionStore, SessionStore};

fn settings(identity: &tests::Identity) -> TlsClientSettings {
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    TlsClientSettings::new(ServerTrust::Roots(roots.into()), &[b"h3"])
}

/// Returns a session as stored by another process.
fn stored(identity: &tests::Identity) -> SavedSession {
    let store = Arc::new(MemorySessionStore::default());
    let client = TlsClientConfig::from_settings(settings(identity)).unwrap();
    let client = client.session_store(store.clone());
    assert!(!resumes(&client, &tests::server_config(identity, &[b"h3"])));
    let session = store.take_session("localhost", clearway_wire::Version::V1).unwrap();
    SavedSession::decode(&session.encode()).unwrap()
}

#[test]
fn only_the_key_of_its_own_configuration_revives_a_session() {
    let identity = tests::identity();
    let saved = stored(&identity);
    let name = ServerName::try_from("localhost").unwrap();
    let [own, another] = [(); 2].map(|()| Arc::<StandInKey>::default());
    // An unused key accepts nothing, not even an all-zero signature.
    assert!(!own.has_signed(b"message", &[0; 32]) && !own.has_signed(b"message", b""));
    let (usual, verifier) = settings(&identity).into_config().unwrap();
    let mut reviving = usual.clone();
    let accepts_own = Arc::new(RevivingVerifier::new(verifier, own.clone()));
    reviving.dangerous().set_certificate_verifier(accepts_own);
    for (config, key, expected) in [
        (&reviving, &own, true),
        (&reviving, &another, false),
        (&usual, &own, false),
        (&usual, &another, false),
    ] {
        assert_eq!(revive(config, key, &saved, &name).is_some(), expected);
    }
    let signature = own.sign(b"message").unwrap();
    assert!(own.has_signed(b"message", &signature) && !own.has_signed(b"message!", &signature));
    assert!(!own.has_signed(b"message", &signature[1..]) && !own.has_signed(b"message", b""));
}

/// The chain is verified as usual, regardless of who signs.
#[test]
fn a_session_whose_chain_is_not_acceptable_is_not_revived() {
    let identity = tests::identity();
    let saved = stored(&identity);
    let name = ServerName::try_from("localhost").unwrap();
    let own = Arc::<StandInKey>::default();
    let (mut config, verifier) = settings(&tests::identity()).into_config().unwrap();
    let accepts_own = Arc::new(RevivingVerifier::new(verifier, own.clone()));
    config.dangerous().set_certificate_verifier(accepts_own);
    assert!(revive(&config, &own, &saved, &name).is_none());
}
