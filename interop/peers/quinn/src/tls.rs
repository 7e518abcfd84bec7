use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};

/// Returns the server's TLS configuration, with one certificate and one ALPN protocol.
pub fn server(cert: &Path, key: &Path, alpn: &[u8]) -> Result<Arc<QuicServerConfig>> {
    server_with(provider(), cert, key, alpn)
}

/// Like [`server`], with a different cryptographic provider.
pub fn server_with(
    provider: Arc<CryptoProvider>,
    cert: &Path,
    key: &Path,
    alpn: &[u8],
) -> Result<Arc<QuicServerConfig>> {
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("reading {}", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates(cert)?, key)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config.try_into()?))
}

/// Returns the client's TLS configuration, which trusts the certificates in `ca`, or any
/// certificate if `ca` is `None`.
pub fn client(ca: Option<&Path>, alpn: &[u8]) -> Result<Arc<QuicClientConfig>> {
    Ok(Arc::new(client_with(provider(), ca, alpn)?.try_into()?))
}

/// Like [`client`], with a different cryptographic provider.
pub fn client_with(
    provider: Arc<CryptoProvider>,
    ca: Option<&Path>,
    alpn: &[u8],
) -> Result<ClientConfig> {
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = if let Some(ca) = ca {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate)?;
        }
        builder.with_root_certificates(roots)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(algorithms)))
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(config)
}

/// Like [`provider`], with X25519MLKEM768 as the key exchange.
pub fn post_quantum_provider() -> Arc<CryptoProvider> {
    let mut provider = (*provider()).clone();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519MLKEM768, aws_lc_rs::kx_group::X25519];
    Arc::new(provider)
}

/// Like [`provider`], with X25519 as the key exchange.
pub fn x25519_provider() -> Arc<CryptoProvider> {
    let mut provider = (*provider()).clone();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    Arc::new(provider)
}

/// Returns a provider that prefers AES-128-GCM, the fastest cipher suite for the benchmarks and the
/// one that RFC 9001 requires. The cipher suites come from ring, quinn's default, whose AES is
/// faster. The key exchange comes from aws-lc-rs, whose key exchange is faster.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = ring::DEFAULT_CIPHER_SUITES.to_vec();
    let mut provider = CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() };
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .with_context(|| format!("reading {}", path.display()))
}

/// Accepts any certificate, but still requires a signature made with its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
