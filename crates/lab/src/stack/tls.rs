//! Real TLS between the two endpoints, with the same certificates for all runs.

mod chain;
mod signing;

use std::sync::Arc;

use clearway_transport::{SessionError, TlsClientConfig, TlsServerConfig};
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite};

use crate::setup::{KeyExchange, TlsSetup};

/// The name of every simulated server.
pub(super) const SERVER_NAME: &str = "lab.example";
/// The application protocol of all runs.
const PROTOCOL: &[u8] = b"h3";

/// An error: TLS could not be set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LabCertificateError(Arc<dyn core::error::Error + Send + Sync>);

impl core::fmt::Display for LabCertificateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot create a certificate for the simulated server: {}", self.0)
    }
}

impl core::error::Error for LabCertificateError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl From<rcgen::Error> for LabCertificateError {
    fn from(error: rcgen::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<rustls::Error> for LabCertificateError {
    fn from(error: rustls::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<SessionError> for LabCertificateError {
    fn from(error: SessionError) -> Self {
        Self(Arc::new(error))
    }
}

/// Returns the key exchange groups that an endpoint supports; all of them are always included. A
/// client sends a key share for the first group and, if that is a hybrid, also for X25519.
fn groups(key_exchange: KeyExchange) -> Vec<&'static dyn SupportedKxGroup> {
    let classic = [kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    let hybrid = [kx_group::X25519MLKEM768];
    match key_exchange {
        KeyExchange::X25519 => [&classic[..], &hybrid].concat(),
        KeyExchange::X25519MlKem768 => [&hybrid, &classic[..]].concat(),
    }
}

/// Returns the cipher suites that Clearway offers, in order.
fn clearway_suites() -> Vec<SupportedCipherSuite> {
    vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256]
}

fn provider(setup: TlsSetup, cipher_suites: Vec<SupportedCipherSuite>) -> Arc<CryptoProvider> {
    let kx_groups = groups(setup.key_exchange);
    Arc::new(CryptoProvider { cipher_suites, kx_groups, ..default_provider() })
}

/// Returns a server's configuration for any stack, with the cipher suites of that stack.
pub(super) fn server_config(
    setup: TlsSetup,
    cipher_suites: Vec<SupportedCipherSuite>,
) -> Result<ServerConfig, LabCertificateError> {
    let mut config = ServerConfig::builder_with_provider(provider(setup, cipher_suites))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(chain::resolver(setup.certificate_chain)?);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// Returns a client's configuration for any stack, with the cipher suites of that stack, and
/// without a session to resume.
pub(super) fn client_config(
    setup: TlsSetup,
    cipher_suites: Vec<SupportedCipherSuite>,
) -> Result<ClientConfig, LabCertificateError> {
    let mut config = ClientConfig::builder_with_provider(provider(setup, cipher_suites))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(chain::roots(setup.certificate_chain)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}

/// Returns the TLS configuration of a Clearway server.
pub(super) fn server(setup: TlsSetup) -> Result<Arc<TlsServerConfig>, LabCertificateError> {
    let config = server_config(setup, clearway_suites())?;
    Ok(Arc::new(TlsServerConfig::new(Arc::new(config))?))
}

/// Returns the TLS configuration of a Clearway client, without a session to resume.
pub(super) fn client(setup: TlsSetup) -> Result<Arc<TlsClientConfig>, LabCertificateError> {
    let config = client_config(setup, clearway_suites())?;
    Ok(Arc::new(TlsClientConfig::new(Arc::new(config))?))
}
