use std::sync::atomic::{AtomicU64, Ordering};

use clearway_wire::Version;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, RootCertStore};

use super::super::tests::converse;
use super::super::{
    ClientTrust, ServerTrust, TicketKeys, TlsClientConfig, TlsClientSettings, TlsServerConfig,
    TlsServerSettings, TlsSession, certified_key,
};
use super::*;
use crate::TransportErrorCause;
use crate::handshake::ServerSessions;
use crate::handshake::tests::{self, ONE};
use crate::{MemorySessionStore, SavedSession, SessionStore};

const HOUR: u64 = 3600;

/// A clock that the test sets, in seconds since 1970; at 0 it is unavailable.
#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seconds)))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = self.0.load(Ordering::Relaxed);
        (seconds > 0).then(|| UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// The first second of 2030.
const NOW: u64 = 1_893_456_000;

/// A CA, a client with a certificate that is valid until the second day of 2030, and a server.
struct Site {
    server: tests::Identity,
    roots: RootCertStore,
    client: Arc<CertifiedKey>,
}

impl Site {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(parameters.self_signed(&key).unwrap().der().clone()).unwrap();
        let issuer = Issuer::new(parameters, key);
        let mut parameters = CertificateParams::default();
        parameters.not_after = date_time_ymd(2030, 1, 2);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let client = Arc::new(certified_key(vec![certificate], key).unwrap());
        Self { server: tests::identity(), roots, client }
    }

    fn server(&self, trust: ClientTrust, clock: &Arc<Clock>) -> TlsServerConfig {
        let own = certified_key(vec![self.server.certificate.clone()], self.server.key.clone_key());
        let resolver = Arc::new(SingleCertAndKey::from(own.unwrap()));
        let mut settings = TlsServerSettings::new(resolver, &[b"h3"]);
        settings.clients = trust;
        let config = TlsServerConfig::from_settings(settings).unwrap();
        config.changed(|config| config.time_provider = clock.clone())
    }

    /// Returns servers with sessions in a table, with sealed sessions, and with a user-provided
    /// ticketer.
    fn servers(&self, trust: &ClientTrust, clock: &Arc<Clock>) -> [TlsServerConfig; 3] {
        let server = self.server(trust.clone(), clock);
        let ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        let with_ticketer = server.clone().changed(|config| config.ticketer = ticketer);
        [server.clone(), server.ticket_keys(TicketKeys::new(&[1; 32])), with_ticketer]
    }

    fn required(&self) -> ClientTrust {
        ClientTrust::Required(self.roots.clone().into())
    }

    fn client(&self, certificate: Option<&Arc<CertifiedKey>>) -> TlsClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.server.certificate.clone()).unwrap();
        let mut settings = TlsClientSettings::new(ServerTrust::Roots(roots.into()), &[b"h3"]);
        settings.certificate = certificate.cloned();
        TlsClientConfig::from_settings(settings).unwrap()
    }
}

/// Whether the client resumes a session, or why there is no connection.
fn resumes(client: &TlsClientConfig, server: &TlsServerConfig) -> Result<bool, TransportError> {
    let mut client =
        TlsSession::connect(client, Version::V1, &[], "localhost", b"client".to_vec()).unwrap();
    let mut server = Arc::new(server.clone()).accept(ONE, b"server".to_vec()).unwrap();
    converse(&mut client, &mut *server)?;
    Ok(client.connection.handshake_kind() == Some(HandshakeKind::Resumed))
}

/// Each resumption issues a new ticket, but all sessions descend from one full handshake.
#[test]
fn sessions_are_resumed_for_a_day_after_the_full_handshake() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    for server in site.servers(&ClientTrust::NotAsked, &clock) {
        clock.set(NOW);
        let client = site.client(None);
        assert_eq!(resumes(&client, &server), Ok(false));
        for hours in [1, 12, 23, 24] {
            clock.set(NOW + hours * HOUR);
            assert_eq!(resumes(&client, &server), Ok(true), "{hours} hours");
        }
        clock.set(NOW + 24 * HOUR + 1);
        assert_eq!(resumes(&client, &server), Ok(false), "a day and a second");
        clock.set(NOW + 48 * HOUR);
        assert_eq!(resumes(&client, &server), Ok(true), "a day after the second one");
    }
}

#[test]
fn the_age_of_sessions_can_be_set_up_to_a_week() {
    const WEEK: u64 = 7 * 24 * HOUR;
    let site = Site::new();
    let clock = Clock::at(NOW);
    let [table, ..] = site.servers(&ClientTrust::NotAsked, &clock);
    for (set, age) in [(0, 0), (HOUR, HOUR), (100 * WEEK, WEEK)] {
        let server = table.clone().max_session_age(Duration::from_secs(set));
        for (passed, is_resumed) in [(age, true), (age + 1, false)] {
            clock.set(NOW);
            let client = site.client(None);
            assert_eq!(resumes(&client, &server), Ok(false));
            clock.set(NOW + passed);
            assert_eq!(resumes(&client, &server), Ok(is_resumed), "{set}: {passed}");
        }
    }
}

/// A client that returns three times between two key rotations always resumes. A ticket cannot be
/// used after the second rotation.
#[test]
fn a_regular_client_always_resumes_while_keys_are_rotated() {
    const VISITS: u64 = 3;
    let site = Site::new();
    let (clock, keys) = (Clock::at(NOW), TicketKeys::new(&[0; 32]));
    let server = site.server(ClientTrust::NotAsked, &clock).ticket_keys(keys.clone());
    let [store, of_another] = [(); 2].map(|()| Arc::new(MemorySessionStore::default()));
    let client = site.client(None).session_store(store.clone());
    // This client has kept another client's sessions.
    let another = site.client(None).session_store(of_another.clone());
    let mut kept = Vec::new();
    for visit in 0..VISITS * 20 {
        let rotation = visit / VISITS;
        clock.set(NOW + visit * HOUR / VISITS);
        keys.rotate(&[rotation as u8; 32]);
        for (issued, session) in &kept {
            while of_another.take_session("localhost", Version::V1).is_some() {}
            of_another.put_session("localhost", SavedSession::clone(session));
            let is_accepted = rotation - issued <= 1;
            assert_eq!(resumes(&another, &server), Ok(is_accepted), "visit {visit}: of {issued}");
        }
        kept.retain(|(issued, _)| rotation - issued <= 3);
        assert_eq!(resumes(&client, &server), Ok(visit > 0), "visit {visit}");
        let session = store.take_session("localhost", Version::V1).expect("a ticket");
        store.put_session("localhost", session.clone());
        kept.push((rotation, session));
    }
}

/// A ticket's stated lifetime ends when the session expires, even if the ticket's key lasts longer.
#[test]
fn tickets_have_no_longer_a_lifetime_than_their_session_has_left() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    for server in site.servers(&ClientTrust::NotAsked, &clock) {
        let store = Arc::new(MemorySessionStore::default());
        let client = site.client(None).session_store(store.clone());
        for (hours, most) in [(0, 24), (20, 4), (23, 1), (24, 0)] {
            clock.set(NOW + hours * HOUR);
            assert_eq!(resumes(&client, &server), Ok(hours > 0), "{hours}");
            let session = store.take_session("localhost", Version::V1).unwrap();
            let lifetime = u64::from(session.lifetime);
            // rustls's ticketer keeps its keys for 12 hours.
            assert!([12 * HOUR, most * HOUR].contains(&lifetime), "{hours}: {lifetime}");
            assert!(lifetime <= most * HOUR, "{hours}: {lifetime}");
            store.put_session("localhost", session);
        }
        let short = server.max_session_age(Duration::from_secs(60));
        clock.set(NOW + 48 * HOUR);
        assert_eq!(resumes(&client, &short), Ok(false));
        assert_eq!(store.take_session("localhost", Version::V1).unwrap().lifetime, 60);
    }
}

/// The issuing server's clock was ahead, or this server's clock was set back.
#[test]
fn a_session_from_the_future_is_not_resumed() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    for (back, is_resumed) in [(60, true), (61, false), (1_000_000, false)] {
        for server in site.servers(&ClientTrust::NotAsked, &clock) {
            clock.set(NOW);
            let client = site.client(None);
            assert_eq!(resumes(&client, &server), Ok(false));
            clock.set(NOW - back);
            assert_eq!(resumes(&client, &server), Ok(is_resumed), "{back} s");
        }
    }
}

/// The chain in a session is verified again, at the current time.
#[test]
fn a_certificate_that_has_expired_since_resumes_nothing() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    for trust in [ClientTrust::Optional(site.roots.clone().into()), site.required()] {
        for server in site.servers(&trust, &clock) {
            clock.set(NOW + 20 * HOUR);
            let client = site.client(Some(&site.client));
            assert_eq!(resumes(&client, &server), Ok(false));
            clock.set(NOW + 24 * HOUR);
            assert_eq!(resumes(&client, &server), Ok(true));
            // The session is four hours old, and the certificate has expired.
            clock.set(NOW + 24 * HOUR + 1);
            let error = resumes(&client, &server).unwrap_err();
            let TransportErrorCause::Tls(error) = &error.cause else { panic!("{error:?}") };
            let is_right = matches!(
                **error,
                Error::InvalidCertificate(CertificateError::ExpiredContext { .. })
            );
            assert!(is_right, "{error:?}");
        }
    }
}

/// Without a clock, the lifetime of a session is unknown, so none is issued or resumed.
#[test]
fn without_a_clock_no_session_is_issued() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let policy = Arc::new(ClientPolicy::of(&site.required(), &provider).unwrap());
    let binding = SessionBinding::new(policy, DEFAULT_AGE, clock.clone());
    let session = session(&site);
    let mut noted = session.clone();
    assert_eq!(binding.note(&mut noted), Some(()));
    assert_eq!(binding.accept(noted.clone()), Some(session.clone()));
    clock.set(0);
    assert_eq!(binding.accept(noted), None);
    let without = SessionBinding { resumed: Mutex::new(None), ..binding };
    assert_eq!(without.note(&mut session.clone()), None);
}

/// Returns a session as rustls encodes it, with a chain of two certificates.
fn session(site: &Site) -> Vec<u8> {
    let chain = [&site.client.cert[0], &site.server.certificate];
    let prefixed = |bytes: &[u8]| {
        let [_, length @ ..] = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    let list = chain.map(|certificate| prefixed(certificate)).concat();
    let name = b"\x01\x09localhost";
    let suite = [3, 4, 0x13, 1];
    let secret = [&[32], &[7; 32][..]].concat();
    let protocol = b"\x01\x02h3";
    let rest = [0; 2 + 8 + 4];
    [name, &suite[..], &secret, &[0, 1], &prefixed(&list), protocol, &rest].concat()
}

#[test]
fn the_chain_in_a_session_is_found() {
    let site = Site::new();
    let session = session(&site);
    let chain = client_chain(&session).unwrap().unwrap();
    assert_eq!(chain, [site.client.cert[0].clone(), site.server.certificate.clone()]);
    for end in 0..session.len() {
        assert!(client_chain(&session[..end]).is_none(), "cut at {end}");
    }
    assert!(client_chain(&[&session[..], &[0]].concat()).is_none());
    for place in 0..session.len() {
        for value in [0, 1, 0xff] {
            // Anything that is found must be within the session.
            let mut changed = session.clone();
            changed[place] = value;
            let found = client_chain(&changed).flatten().unwrap_or_default();
            assert!(found.iter().map(|it| it.len()).sum::<usize>() < session.len());
        }
    }
}

/// The session of a client with a large chain would be equally large.
#[test]
fn a_client_with_a_chain_of_16_kilobytes_gets_no_ticket() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    for (padding, is_resumed) in [(8_000, true), (16 * 1024, false)] {
        for server in site.servers(&site.required(), &clock) {
            let mut chain = site.client.cert.clone();
            chain.push(CertificateDer::from(vec![0x30; padding]));
            let certified = Arc::new(CertifiedKey::new(chain, site.client.key.clone()));
            let client = site.client(Some(&certified));
            let store = Arc::new(crate::MemorySessionStore::default());
            let client = client.session_store(store.clone());
            assert_eq!(resumes(&client, &server), Ok(false));
            let got = store.contents().iter().any(|(_, sessions, _)| !sessions.is_empty());
            // With a table, the ticket is only a name; a ticket that contains the session would be
            // too long for this client.
            let is_table =
                server.ticket_keys.is_none() && !server.current.load().config.ticketer.enabled();
            assert_eq!(got, is_resumed && is_table, "{padding}");
            assert_eq!(resumes(&client, &server), Ok(is_resumed && is_table), "{padding}");
        }
    }
}

/// A user-provided configuration does not disclose how it verifies clients, so other configurations
/// do not resume its sessions.
#[test]
fn the_sessions_of_a_user_s_own_configuration_stay_its_own() {
    let site = Site::new();
    let clock = Clock::at(NOW);
    let keys = TicketKeys::new(&[1; 32]);
    let config = site.server(ClientTrust::NotAsked, &clock).current.load().config.clone();
    let own = || TlsServerConfig::new(config.clone()).unwrap().ticket_keys(keys.clone());
    let (first, other) = (own(), own());
    let client = site.client(None);
    assert_eq!(resumes(&client, &first), Ok(false));
    assert_eq!(resumes(&client, &first.clone().early_data(false)), Ok(true));
    assert_eq!(resumes(&client, &other), Ok(false));
    let (first, other) = (first.session_policy(b"none"), other.session_policy(b"none"));
    assert_eq!(resumes(&client, &first), Ok(false));
    assert_eq!(resumes(&client, &other), Ok(true));
    let known = site.server(ClientTrust::NotAsked, &clock).ticket_keys(keys);
    assert_eq!(resumes(&client, &known), Ok(false));
}
