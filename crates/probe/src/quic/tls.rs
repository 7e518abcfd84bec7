//! TLS 1.3 with rustls.

use core::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::quic::{ClientConnection, Connection, ServerConnection};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use super::config::{Config, Trust};
use super::initial::of_tls;

/// Number of servers whose sessions are kept.
const SESSIONS: usize = 8;

/// A server's certificate chain and private key.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// A self-signed certificate in PEM.
    pem: Option<String>,
}

impl Identity {
    /// Uses an existing certificate chain and its key.
    pub fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self { chain, key: Arc::new(key), pem: None }
    }

    /// Creates a self-signed certificate for `names`.
    ///
    /// # Errors
    /// If a name is not a DNS name or IP address.
    pub fn self_signed(names: &[&str]) -> Result<Self, String> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let certified = rcgen::generate_simple_self_signed(names)
            .map_err(|error| format!("cannot create a certificate: {error}"))?;
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let identity = Self::new(vec![certified.cert.der().clone()], key.into());
        Ok(Self { pem: Some(certified.cert.pem()), ..identity })
    }

    /// Returns a self-signed certificate in PEM, for clients that are to trust it.
    pub fn pem(&self) -> Option<&str> {
        self.pem.as_deref()
    }

    /// Returns the certificate chain, the server's own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("chain", &self.chain.len()).finish_non_exhaustive()
    }
}

/// Session tickets of a client, shared by all clones. All connections with a cache trust the same certificates:
/// those that the first one trusts.
#[derive(Clone, Debug, Default)]
pub struct SessionCache(Arc<OnceLock<ClientConfig>>);

/// Returns the cryptographic library, with X25519 first, so that a ClientHello fits in one packet.
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

/// Accepts any certificate, but verifies that the server has its key.
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
