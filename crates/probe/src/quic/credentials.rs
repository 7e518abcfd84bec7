//! Servers' certificates, and clients' session tickets.

use core::fmt;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A server's certificate chain and private key.
#[derive(Clone)]
pub struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: Arc<PrivateKeyDer<'static>>,
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

    /// Returns the self-signed certificate in PEM, for clients that should trust it; `None` if the
    /// certificate was not created by [`self_signed`](Self::self_signed).
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

/// A client's session tickets, shared by all clones. All connections with the same cache trust the
/// certificates that the first connection trusts.
#[derive(Clone, Debug, Default)]
pub struct SessionCache(pub(super) Arc<OnceLock<ClientConfig>>);
