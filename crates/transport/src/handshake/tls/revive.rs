//! Extracts sessions from rustls and restores them.
//!
//! rustls 0.23 keeps a client's sessions private: they can neither be read nor created. A session's
//! secret is derived with the suite's HKDF, which a provider may replace, so the secret is read
//! there. A stored session is restored by a handshake between a client with the same configuration
//! and a stand-in server in the same process. The stand-in presents the real server's chain, which
//! the client verifies as usual, and then sends the real server's ticket. When the secret would be
//! derived, the stored one is substituted. The stand-in cannot sign with the real server's key.
//! Instead, it has a [key of its own](StandInKey), which never leaves the configuration: only a
//! configuration with a session store has such a key, and only its [verifier](RevivingVerifier)
//! accepts it.

use core::cell::RefCell;
use core::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionStore, Resumption, Tls13ClientSessionValue};
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, hmac};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::quic::{self, ClientConnection, ServerConnection};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, NamedGroup, NoKeyLog, ServerConfig,
    SignatureAlgorithm, SignatureScheme, SupportedCipherSuite, Tls13CipherSuite,
};

use super::super::suites;
use super::saved::SavedSession;
use super::verifier::Verifier;
use crate::crypto::tls::default_provider;

/// The handling of a session secret that is derived on this thread.
#[derive(Default)]
enum Derived {
    /// The secret is ignored.
    #[default]
    Ignored,
    /// The secret is read.
    Read(Option<Vec<u8>>),
    /// The secret is replaced with this one.
    Replaced(Vec<u8>),
}

thread_local! {
    static DERIVED: RefCell<Derived> = const { RefCell::new(Derived::Ignored) };
}

/// Runs `derive` in this mode, and returns its result and the resulting mode.
fn during<T>(mode: Derived, derive: impl FnOnce() -> T) -> (T, Derived) {
    /// Resets the mode even if `derive` panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            DERIVED.set(Derived::Ignored);
        }
    }
    let _reset = Reset;
    DERIVED.set(mode);
    let result = derive();
    (result, DERIVED.take())
}

/// Runs `derive`, and returns its result together with the session secret derived in the process.
pub(super) fn reading_secret<T>(derive: impl FnOnce() -> T) -> (T, Option<Vec<u8>>) {
    match during(Derived::Read(None), derive) {
        (result, Derived::Read(secret)) => (result, secret),
        (result, _) => (result, None),
    }
}

/// The key with which the stand-in for the real server signs its handshake. It is generated at
/// random when first needed.
#[derive(Default)]
pub(super) struct StandInKey(OnceLock<[u8; 32]>);

impl StandInKey {
    /// Signs a message; returns `None` if no random bytes are available.
    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        if self.0.get().is_none() {
            let mut key = [0; 32];
            default_provider().secure_random.fill(&mut key).ok()?;
            // Another thread may have generated a key in the meantime.
            let _ = self.0.set(key);
        }
        self.authenticate(message)
    }

    fn authenticate(&self, message: &[u8]) -> Option<Vec<u8>> {
        let key = OkmBlock::new(self.0.get()?);
        let hkdf = suites::all().first()?.hkdf_provider;
        Some(hkdf.hmac_sign(&key, message).as_ref().to_vec())
    }

    /// Returns whether this key created the signature. Takes constant time for signatures of the
    /// correct length.
    fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.authenticate(message).is_some_and(|own| {
            let differences = own.iter().zip(signature).map(|(own, other)| own ^ other);
            own.len() == signature.len() && differences.fold(0, |all, bits| all | bits) == 0
        })
    }
}

impl fmt::Debug for StandInKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandInKey")
    }
}

/// The verifier of a configuration with a session store. It works like the usual verifier, except
/// that the server that stands in for the real one while a session is revived signs with another
/// key. Certificates are always verified.
#[derive(Debug)]
pub(super) struct RevivingVerifier {
    usual: Arc<Verifier>,
    stand_in: Arc<StandInKey>,
}

impl RevivingVerifier {
    pub(super) fn new(usual: Arc<Verifier>, stand_in: Arc<StandInKey>) -> Self {
        Self { usual, stand_in }
    }
}

impl ServerCertVerifier for RevivingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.stand_in.has_signed(message, signature.signature()) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// A suite's HKDF whose session secrets can be read and replaced.
struct Observed(&'static dyn Hkdf);

struct ObservedExpander(Box<dyn HkdfExpander>);

/// The position of the label in rustls's input to HKDF-Expand (RFC 8446 §7.1), and the label of a
/// session's secret (§4.6.1).
const LABEL_PLACE: usize = 3;
const SESSION_LABEL: &[u8] = b"resumption";

impl Hkdf for Observed {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.0.extract_from_zero_ikm(salt)
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        self.0.extract_from_secret(salt, secret)
    }

    fn extract_from_kx_shared_secret(
        &self,
        salt: Option<&[u8]>,
        kx: Box<dyn ActiveKeyExchange>,
        peer_pub_key: &[u8],
    ) -> Result<Box<dyn HkdfExpander>, rustls::Error> {
        self.0.extract_from_kx_shared_secret(salt, kx, peer_pub_key)
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(ObservedExpander(self.0.expander_for_okm(okm)))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> hmac::Tag {
        self.0.hmac_sign(key, message)
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

impl HkdfExpander for ObservedExpander {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        self.0.expand_slice(info, output)
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        let block = self.0.expand_block(info);
        if info.get(LABEL_PLACE) != Some(&SESSION_LABEL) {
            return block;
        }
        DERIVED.with_borrow_mut(|mode| match mode {
            Derived::Ignored => block,
            Derived::Read(secret) => {
                *secret = Some(block.as_ref().to_vec());
                block
            }
            Derived::Replaced(secret) => OkmBlock::new(secret),
        })
    }

    fn hash_len(&self) -> usize {
        self.0.hash_len()
    }
}

/// QUIC's cipher suites with the observed HKDF.
static SUITES: LazyLock<Vec<Tls13CipherSuite>> =
    LazyLock::new(|| suites::all().iter().map(observe).collect());

fn observe(suite: &'static Tls13CipherSuite) -> Tls13CipherSuite {
    let common = rustls::crypto::CipherSuiteCommon {
        suite: suite.common.suite,
        hash_provider: suite.common.hash_provider,
        confidentiality_limit: suite.common.confidentiality_limit,
    };
    // Leaks one HKDF per suite, for the life of the process.
    let hkdf_provider = Box::leak(Box::new(Observed(suite.hkdf_provider)));
    Tls13CipherSuite { common, hkdf_provider, aead_alg: suite.aead_alg, quic: suite.quic }
}

fn find(suite: CipherSuite) -> Option<&'static Tls13CipherSuite> {
    SUITES.iter().find(|observed| observed.common.suite == suite)
}

/// Returns the same suites with the observed HKDF, so that their sessions can be stored.
pub(super) fn observed(suites: Vec<SupportedCipherSuite>) -> Vec<SupportedCipherSuite> {
    let known = |suite: SupportedCipherSuite| {
        find(suite.suite()).map_or(suite, SupportedCipherSuite::Tls13)
    };
    suites.into_iter().map(known).collect()
}

/// Returns the session in rustls's form, for connections with this configuration, whose verifier
/// accepts `stand_in`. `None` if the session's certificates are not, or no longer, acceptable, or
/// if the session does not match the configuration.
pub(super) fn revive(
    config: &ClientConfig,
    stand_in: &Arc<StandInKey>,
    saved: &SavedSession,
    server_name: &ServerName<'static>,
) -> Option<Tls13ClientSessionValue> {
    let suite = find(CipherSuite::from(saved.suite))?;
    if suite.common.hash_provider.output_len() != saved.secret.len() {
        return None;
    }
    let caught = Arc::new(Caught::default());
    let clock = Arc::new(Clock { now: config.time_provider.clone(), issued: Mutex::new(None) });
    let mut client = config.clone();
    client.resumption = Resumption::store(caught.clone());
    client.key_log = Arc::new(NoKeyLog);
    client.time_provider = clock.clone();
    client.enable_early_data = false;
    let server = server(saved, suite, stand_in)?;
    let secret = Derived::Replaced(saved.secret.clone());
    let (exchanged, _) = during(secret, || exchange(client, server, saved, server_name, &clock));
    exchanged?;
    caught.0.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn exchange(
    client: ClientConfig,
    server: ServerConfig,
    saved: &SavedSession,
    server_name: &ServerName<'static>,
    clock: &Clock,
) -> Option<()> {
    let version = quic::Version::V1;
    let mut client =
        ClientConnection::new(Arc::new(client), version, server_name.clone(), Vec::new()).ok()?;
    let mut server =
        ServerConnection::new(Arc::new(server), version, saved.parameters.clone()).ok()?;
    let mut flight = Vec::new();
    while client.write_hs(&mut flight).is_some() {}
    server.read_hs(&flight).ok()?;
    // The server sends the ServerHello, and then the other messages.
    loop {
        flight.clear();
        let goes_on = server.write_hs(&mut flight).is_some();
        client.read_hs(&flight).ok()?;
        if !goes_on {
            break;
        }
    }
    if client.is_handshaking() || client.alpn_protocol() != Some(&saved.application_protocol) {
        return None;
    }
    *clock.issued.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved.issued);
    client.read_hs(&ticket_message(saved)?).ok()
}

/// Returns the server's NewSessionTicket (RFC 8446 §4.6.1), except for its nonce.
fn ticket_message(saved: &SavedSession) -> Option<Vec<u8>> {
    const NEW_SESSION_TICKET: u8 = 4;
    const EARLY_DATA: [u8; 8] = [0, 42, 0, 4, 0xff, 0xff, 0xff, 0xff];
    let mut body = saved.lifetime.to_be_bytes().to_vec();
    body.extend_from_slice(&saved.age_add.to_be_bytes());
    body.extend_from_slice(&[1, 0]);
    body.extend_from_slice(&u16::try_from(saved.ticket.len()).ok()?.to_be_bytes());
    body.extend_from_slice(&saved.ticket);
    let extensions: &[u8] = if saved.permits_early_data { &EARLY_DATA } else { &[] };
    body.extend_from_slice(&u16::try_from(extensions.len()).ok()?.to_be_bytes());
    body.extend_from_slice(extensions);
    let [_, length @ ..] = u32::try_from(body.len()).ok()?.to_be_bytes();
    let mut message = vec![NEW_SESSION_TICKET];
    message.extend_from_slice(&length);
    message.append(&mut body);
    Some(message)
}

/// Returns the configuration of the server that stands in for the real one.
fn server(
    saved: &SavedSession,
    suite: &'static Tls13CipherSuite,
    key: &Arc<StandInKey>,
) -> Option<ServerConfig> {
    let provider = CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls13(suite)],
        ..default_provider()
    };
    let certified = Arc::new(CertifiedKey::new(saved.chain(), Arc::new(Key(key.clone()))));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Chain(certified)));
    config.alpn_protocols = vec![saved.application_protocol.clone()];
    config.send_tls13_tickets = 0;
    Some(config)
}

#[derive(Debug)]
struct Chain(Arc<CertifiedKey>);

impl ResolvesServerCert for Chain {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// Stands in for the key that only the real server has.
#[derive(Debug)]
struct Key(Arc<StandInKey>);

#[derive(Debug)]
struct KeySigner {
    key: Arc<StandInKey>,
    /// The claimed signature scheme.
    scheme: SignatureScheme,
}

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *offered.first()?;
        Some(Box::new(KeySigner { key: self.0.clone(), scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for KeySigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.key.sign(message).ok_or(rustls::Error::FailedToGetRandomBytes)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// A clock that shows the current time while certificates are verified, and then the ticket's time
/// of issue.
#[derive(Debug)]
struct Clock {
    now: Arc<dyn TimeProvider>,
    issued: Mutex<Option<u64>>,
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let issued = *self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        match issued {
            Some(seconds) => {
                Some(UnixTime::since_unix_epoch(core::time::Duration::from_secs(seconds)))
            }
            None => self.now.current_time(),
        }
    }
}

/// Receives the revived session.
#[derive(Debug, Default)]
struct Caught(Mutex<Option<Tls13ClientSessionValue>>);

impl ClientSessionStore for Caught {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(
        &self,
        _: ServerName<'static>,
        _: rustls::client::Tls12ClientSessionValue,
    ) {
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<rustls::client::Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        None
    }
}

#[cfg(test)]
#[path = "revive_tests.rs"]
mod tests;
