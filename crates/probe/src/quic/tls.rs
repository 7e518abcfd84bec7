//! TLS 1.3 with rustls.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::quic::{ClientConnection, Connection, ServerConnection};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use super::config::{Config, Trust};
use super::initial::of_tls;

/// Number of servers for which sessions are kept.
const SESSIONS: usize = 8;

/// Returns the cryptographic provider, with X25519 preferred, so that a ClientHello fits in one
/// packet.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![
        aws_lc_rs::kx_group::X25519,
        aws_lc_rs::kx_group::SECP256R1,
        aws_lc_rs::kx_group::SECP384R1,
    ];
    Arc::new(provider)
}

fn protocols(config: &Config) -> Vec<Vec<u8>> {
    config.alpn.iter().map(|protocol| protocol.bytes().to_vec()).collect()
}

fn client_config(trust: &Trust) -> Result<ClientConfig, Error> {
    let provider = provider();
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
    let mut tls = match trust {
        Trust::Roots(roots) => builder.with_root_certificates(roots.clone()).with_no_client_auth(),
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
    };
    tls.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(SESSIONS)));
    Ok(tls)
}

/// Starts a client's handshake with these encoded transport parameters.
pub(super) fn client(config: &Config, parameters: Vec<u8>) -> Result<Connection, Error> {
    // rustls resumes only sessions whose certificate verifier is the same object.
    let mut tls = match config.sessions.0.get() {
        Some(first) => first.clone(),
        None => {
            let new = client_config(&config.trust)?;
            config.sessions.0.get_or_init(|| new).clone()
        }
    };
    tls.alpn_protocols = protocols(config);
    tls.enable_early_data = config.early_data;
    let name = ServerName::try_from(config.server_name.clone())
        .map_err(|_| Error::General(format!("{:?} is not a host name", config.server_name)))?;
    let version = of_tls(config.version);
    Ok(ClientConnection::new(Arc::new(tls), version, name, parameters)?.into())
}

/// Starts a server's handshake with these encoded transport parameters.
pub(super) fn server(config: &Config, parameters: Vec<u8>) -> Result<Connection, Error> {
    let identity = config
        .identity
        .as_ref()
        .ok_or_else(|| Error::General("a server needs a certificate".to_owned()))?;
    let mut tls = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = protocols(config);
    let version = of_tls(config.version);
    Ok(ServerConnection::new(Arc::new(tls), version, parameters)?.into())
}

/// Accepts any certificate, but verifies that the server has its private key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC does not use TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
