use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{Identity, IdentityError};

/// Chooses the certificate that a server presents to a client, for [`ServerConfig::with_resolver`].
///
/// The resolver is called once per handshake, on the shard's thread, so it must not block. A
/// connection keeps its certificate; later choices affect only later connections. [`Certificates`]
/// is an implementation that chooses by server name. The resolver is called for session resumption
/// too, although a resumed connection presents no certificate.
///
/// If the resolver panics, only that client is rejected, as with `None`; the panic is counted in
/// [`ShardStatistics::panics`](crate::ShardStatistics::panics).
///
/// [`ServerConfig::with_resolver`]: crate::ServerConfig::with_resolver
pub trait CertificateResolver: fmt::Debug + Send + Sync {
    /// Returns the certificate for a client, or `None` to reject the client with the alert
    /// access_denied.
    ///
    /// The ClientHello contains the [server name](ClientHello::server_name), if the client sent one
    /// (RFC 6066 §3), and the client's [signature schemes](ClientHello::signature_schemes).
    fn resolve(&self, client_hello: &ClientHello<'_>) -> Option<Identity>;
}

/// Adapts a [`CertificateResolver`] to rustls.
#[derive(Debug)]
pub(crate) struct Resolving(pub(crate) Arc<dyn CertificateResolver>);

impl ResolvesServerCert for Resolving {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        const REFUSED: &str = "certificate resolver panicked; the client is rejected";
        let identity = clearway_io::guard(REFUSED, || self.0.resolve(&client_hello)).flatten();
        identity.map(|identity| identity.certified_key())
    }
}

/// A set of certificates, from which the client's server name selects one. It can be replaced
/// atomically while the server runs.
///
/// A certificate applies to the DNS names in its subjectAltName. An exact match takes precedence
/// over a wildcard; among several certificates for the same name, the first one whose key the
/// client supports is selected. A client that sends no name, or one that matches no certificate,
/// gets the first certificate, unless [`refuse_unknown_names`](Self::refuse_unknown_names) is set.
///
/// ```
/// use std::sync::Arc;
///
/// use clearway::{Certificates, Identity, ServerConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let make = |name: &str| -> Result<_, rcgen::Error> {
/// #     let made = rcgen::generate_simple_self_signed(vec![name.to_owned()])?;
/// #     Ok((made.cert.pem(), made.signing_key.serialize_pem()))
/// # };
/// # let ((pem, key), (other_pem, other_key)) = (make("example.org")?, make("*.example.net")?);
/// let first = Identity::from_pem(pem.as_bytes(), key.as_bytes())?;
/// let second = Identity::from_pem(other_pem.as_bytes(), other_key.as_bytes())?;
/// let certificates = Arc::new(Certificates::new([first.clone(), second])?);
/// let config = ServerConfig::with_resolver(certificates.clone()).application_protocols(["example"]);
/// // Later, while the server runs:
/// certificates.replace([first])?;
/// # let _ = config;
/// # Ok(())
/// # }
/// ```
pub struct Certificates {
    table: ArcSwap<Table>,
    refuses_unknown_names: bool,
}

/// The part that is replaced atomically.
struct Table {
    default: Identity,
    all: Vec<Identity>,
    /// Certificates by name, in their original order for each name.
    by_name: BTreeMap<String, Vec<Identity>>,
}

impl Certificates {
    /// Creates a set of `identities`, the first of which is the default.
    ///
    /// # Errors
    /// Returns [`IdentityError::NoCertificate`] if `identities` is empty.
    pub fn new(identities: impl IntoIterator<Item = Identity>) -> Result<Self, IdentityError> {
        let table = ArcSwap::from_pointee(Table::new(identities)?);
        Ok(Self { table, refuses_unknown_names: false })
    }

    /// Sets whether to reject clients that send no server name, or one that matches no certificate.
    pub fn refuse_unknown_names(mut self, refused: bool) -> Self {
        self.refuses_unknown_names = refused;
        self
    }

    /// Replaces all certificates for handshakes that begin later. Existing connections and
    /// handshakes in progress are not affected.
    ///
    /// # Errors
    /// Returns [`IdentityError::NoCertificate`] if `identities` is empty; the previous certificates
    /// then remain in use.
    pub fn replace(
        &self,
        identities: impl IntoIterator<Item = Identity>,
    ) -> Result<(), IdentityError> {
        self.table.store(Arc::new(Table::new(identities)?));
        Ok(())
    }

    /// Returns whether one of the current certificates matches this DNS name, exactly or with a
    /// wildcard (RFC 9525 §6.3).
    ///
    /// A server responds to a request for any other authority with 421 (RFC 9110 §15.5.20, RFC 9114
    /// §3.3).
    pub fn covers(&self, name: &str) -> bool {
        self.table.load().named(name).is_some()
    }

    /// Returns the current certificates, in their original order.
    pub fn identities(&self) -> Vec<Identity> {
        self.table.load().all.clone()
    }
}

impl CertificateResolver for Certificates {
    fn resolve(&self, client_hello: &ClientHello<'_>) -> Option<Identity> {
        let table = self.table.load();
        let named = client_hello.server_name().and_then(|name| table.named(name));
        match named {
            Some(identities) => {
                let schemes = client_hello.signature_schemes();
                let usable = identities.iter().find(|identity| identity.can_sign(schemes));
                // If no certificate is usable, TLS reports the error.
                usable.or(identities.first()).cloned()
            }
            None => (!self.refuses_unknown_names).then(|| table.default.clone()),
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("identities", &self.table.load().all)
            .field("refuses_unknown_names", &self.refuses_unknown_names)
            .finish()
    }
}

impl Table {
    fn new(identities: impl IntoIterator<Item = Identity>) -> Result<Self, IdentityError> {
        let all: Vec<_> = identities.into_iter().collect();
        let default = all.first().cloned().ok_or(IdentityError::NoCertificate)?;
        let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for identity in &all {
            for name in identity.names() {
                by_name.entry(name.clone()).or_default().push(identity.clone());
            }
        }
        Ok(Self { default, all, by_name })
    }

    /// Returns the certificates that match a name, exactly or with a wildcard for the first label
    /// (RFC 9525 §6.3).
    fn named(&self, name: &str) -> Option<&[Identity]> {
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, rest) = name.split_once('.')?;
            self.by_name.get(&format!("*.{rest}"))
        };
        self.by_name.get(&name).or_else(wildcard).map(Vec::as_slice)
    }
}
