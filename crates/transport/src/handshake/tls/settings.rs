//! The settings from which the TLS configurations of clients and servers are created.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig, SupportedCipherSuite};

use super::super::suites;
use super::client_trust::{ClientPolicy, ClientTrust};
use super::encrypted_client_hello::EncryptedClientHello;
use super::revive::observed;
use super::server_trust::ServerTrust;
use super::verifier::Verifier;
use crate::SessionError;
use crate::crypto::tls::{default_provider, kx_group};

/// Returns the TLS 1.3 cipher suites, the preferred one first.
pub(super) fn default_cipher_suites() -> Vec<SupportedCipherSuite> {
    suites::in_order([
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ])
}

/// Returns the key exchange groups, the preferred one first. X25519MLKEM768 protects traffic that
/// is recorded today against future quantum computers. A client also sends an X25519 share, so that
/// a server that supports only that group needs no additional round trip. ring does not support it.
pub(super) fn default_groups() -> Vec<&'static dyn SupportedKxGroup> {
    vec![
        #[cfg(feature = "aws-lc-rs")]
        kx_group::X25519MLKEM768,
        kx_group::X25519,
        kx_group::SECP256R1,
        kx_group::SECP384R1,
    ]
}

/// Returns the provider that this crate is built with. rustls's process-wide default depends on
/// which part of a program ran first, and a library must not rely on that.
fn provider(
    cipher_suites: Vec<SupportedCipherSuite>,
    kx_groups: Vec<&'static dyn SupportedKxGroup>,
) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..default_provider() })
}

/// The settings of a [`TlsClientConfig`](super::TlsClientConfig).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsClientSettings {
    /// The servers to accept.
    pub trust: ServerTrust,
    /// The application protocols to offer, the preferred one first (RFC 7301).
    pub application_protocols: Vec<Vec<u8>>,
    /// The cipher suites to offer, the preferred one first. Initial packets do not depend on these
    /// suites (RFC 9001 §5.2).
    pub cipher_suites: Vec<SupportedCipherSuite>,
    /// The key exchange groups to offer, the preferred one first. The ClientHello has a key share
    /// for the first group and, if that is a hybrid that contains another offered group, also for
    /// the other group.
    pub key_exchange_groups: Vec<&'static dyn SupportedKxGroup>,
    /// The client's certificate chain and key, for servers that request one.
    pub certificate: Option<Arc<CertifiedKey>>,
    /// Whether the ClientHello is encrypted (RFC 9849).
    pub encrypted_client_hello: EncryptedClientHello,
}

impl TlsClientSettings {
    /// Returns the default settings: all TLS 1.3 cipher suites, X25519MLKEM768 preferred (with the
    /// cargo feature `aws-lc-rs`), no certificate, no encrypted ClientHello.
    pub fn new(trust: ServerTrust, application_protocols: &[&[u8]]) -> Self {
        Self {
            trust,
            application_protocols: super::owned(application_protocols),
            cipher_suites: default_cipher_suites(),
            key_exchange_groups: default_groups(),
            certificate: None,
            encrypted_client_hello: EncryptedClientHello::Off,
        }
    }

    /// Returns the configuration and its certificate verifier.
    pub(super) fn into_config(self) -> Result<(ClientConfig, Arc<Verifier>), SessionError> {
        let provider = provider(observed(self.cipher_suites), self.key_exchange_groups);
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = match self.encrypted_client_hello.mode()? {
            Some(mode) => builder.with_ech(mode)?,
            None => builder.with_protocol_versions(&[&TLS13])?,
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Verifier::new(self.trust, algorithms));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier.clone());
        let mut config = match self.certificate {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.application_protocols;
        Ok((config, verifier))
    }
}

/// The number of session tickets that a server sends on each connection. An HTTP/3 client has one
/// connection to a server at a time, and gets a new ticket on each.
const TICKETS: usize = 1;

/// The settings of a [`TlsServerConfig`](super::TlsServerConfig).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TlsServerSettings {
    /// Chooses the certificate for each client. Called once per handshake, on the connection's
    /// thread.
    pub certificates: Arc<dyn ResolvesServerCert>,
    /// The application protocols to accept, the preferred one first (RFC 7301).
    pub application_protocols: Vec<Vec<u8>>,
    /// The key exchange groups to accept. The client's preference decides; if it has not sent a key
    /// share of that group, a HelloRetryRequest requests one (RFC 8446 §4.1.4), which costs a round
    /// trip.
    pub key_exchange_groups: Vec<&'static dyn SupportedKxGroup>,
    /// Whether client certificates are requested.
    pub clients: ClientTrust,
}

impl TlsServerSettings {
    /// Returns the default settings: X25519MLKEM768 (with the cargo feature `aws-lc-rs`) and the
    /// elliptic curve groups, and no client certificates.
    pub fn new(certificates: Arc<dyn ResolvesServerCert>, application_protocols: &[&[u8]]) -> Self {
        Self {
            certificates,
            application_protocols: super::owned(application_protocols),
            key_exchange_groups: default_groups(),
            clients: ClientTrust::NotAsked,
        }
    }

    pub(super) fn into_config(self) -> Result<(ServerConfig, ClientPolicy), SessionError> {
        let provider = provider(default_cipher_suites(), self.key_exchange_groups);
        let policy = ClientPolicy::of(&self.clients, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(policy.verifier())
            .with_cert_resolver(self.certificates);
        config.alpn_protocols = self.application_protocols;
        config.send_tls13_tickets = TICKETS;
        Ok((config, policy))
    }
}

/// Combines a certificate chain, with the end-entity certificate first, and its private key.
///
/// # Errors
/// Returns an error if the key cannot be used, or does not belong to the certificate.
pub fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(chain, key, &default_provider())
}
