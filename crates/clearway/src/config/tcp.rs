//! TLS over TCP, for servers that also support HTTP/1.1 and HTTP/2.

use std::sync::Arc;

use clearway_transport::{ClientRoots, ClientTrust, SessionError};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};

use super::{ServerConfig, owned};
use crate::error::ConfigError;

impl ServerConfig {
    /// Returns a TLS configuration for a TCP server beside this one, with these application
    /// protocols (ALPN) in order of preference, for example `h2` and `http/1.1`.
    ///
    /// It has the same certificates, also after they are
    /// [replaced](crate::Certificates::replace), the same key exchange groups, and the same
    /// requirements for client certificates. [Replaced](ClientRoots::replace) roots of client
    /// certificates apply only to configurations that are created later. Sessions are not shared
    /// with QUIC, and there is no early data. TLS 1.2 is accepted if the program enables the feature
    /// `tls12` of rustls.
    ///
    /// # Errors
    /// Fails if the certificate cannot be used, or the configuration has [TLS sessions of its
    /// own](Self::with_sessions).
    pub fn tls_over_tcp(
        &self,
        protocols: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<Arc<rustls::ServerConfig>, ConfigError> {
        let mut provider = provider();
        if let Some(groups) = &self.key_exchange_groups {
            provider.kx_groups.clone_from(groups);
        }
        let provider = Arc::new(provider);
        let verifier = verifier(&self.clients, &provider)?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(SessionError::Tls)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.presented.resolver()?);
        config.alpn_protocols = owned(protocols);
        Ok(Arc::new(config))
    }
}

/// Returns the cryptographic library that QUIC uses, too.
fn provider() -> CryptoProvider {
    #[cfg(feature = "aws-lc-rs")]
    return rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(feature = "aws-lc-rs"))]
    return rustls::crypto::ring::default_provider();
}

fn verifier(
    clients: &ClientTrust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ConfigError> {
    let builder = |roots: &ClientRoots| {
        WebPkiClientVerifier::builder_with_provider(roots.current(), provider.clone())
    };
    let built = match clients {
        ClientTrust::Optional(roots) => builder(roots).allow_unauthenticated().build(),
        ClientTrust::Required(roots) => builder(roots).build(),
        ClientTrust::NotAsked => return Ok(Arc::new(NoClientAuth)),
        // A new kind of trust must not become none.
        _ => return Err(SessionError::NoClientRoots.into()),
    };
    built.map_err(|_| SessionError::NoClientRoots.into())
}
