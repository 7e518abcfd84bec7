use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::{Identity, IdentityError};

/// Chooses the certificate that a server presents to a client, for [`ServerConfig::with_resolver`].
///
/// It is asked once in each handshake, in the shard: it must not block. What it has chosen stays with the connection; what
/// it chooses later concerns later connections only. [`Certificates`] is one that chooses by the server's name. Session
/// resumption asks it, too, but a resumed connection shows no certificate.
///
/// If it panics, only that client is refused, as with `None`; it is counted in
/// [`ShardStatistics::panics`](crate::ShardStatistics::panics).
///
/// [`ServerConfig::with_resolver`]: crate::ServerConfig::with_resolver
pub trait CertificateResolver: fmt::Debug + Send + Sync {
    /// The certificate for a client, of which the ClientHello says the
    /// [server name](ClientHello::server_name), if it has sent one (RFC 6066 §3), and the
    /// [signature schemes](ClientHello::signature_schemes) that it understands. `None` refuses the client with the alert
    /// access_denied.
    fn resolve(&self, client_hello: &ClientHello<'_>) -> Option<Identity>;
}

/// A [`CertificateResolver`] for rustls.
#[derive(Debug)]
pub(crate) struct Resolving(pub(crate) Arc<dyn CertificateResolver>);

impl ResolvesServerCert for Resolving {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        const REFUSED: &str = "a certificate resolver panicked: its client is refused";
        let identity = clearway_io::guard(REFUSED, || self.0.resolve(&client_hello)).flatten();
        identity.map(|identity| identity.certified_key())
    }
}

/// Several certificates, of which the server name that a client sends chooses one. They can be replaced while the server
/// runs, without a moment in which there are none.
///
/// A certificate is for the DNS names in its subjectAltName. One that names the server exactly is preferred to one with a
/// wildcard; among several for the same name, the first is chosen whose key the client understands. A client that sends
/// no name, or one that no certificate has, gets the first certificate, unless
/// [`refuse_unknown_names`](Self::refuse_unknown_names) says otherwise.
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

/// What is replaced at once.
struct Table {
    default: Identity,
    all: Vec<Identity>,
    /// By name, in the order in which they were given.
    by_name: BTreeMap<String, Vec<Identity>>,
}

impl Certificates {
    /// The first of `identities` is that of clients whose name has none.
    ///
    /// # Errors
    /// [`IdentityError::NoCertificate`] if there are none.
    pub fn new(identities: impl IntoIterator<Item = Identity>) -> Result<Self, IdentityError> {
        let table = ArcSwap::from_pointee(Table::new(identities)?);
        Ok(Self { table, refuses_unknown_names: false })
    }

    /// Whether clients that send no server name, or one that no certificate has, are refused.
    pub fn refuse_unknown_names(mut self, refused: bool) -> Self {
        self.refuses_unknown_names = refused;
        self
    }

    /// Replaces all certificates: every handshake that begins later chooses among these. Connections that exist, and
    /// handshakes in progress, are not disturbed.
    ///
    /// # Errors
    /// [`IdentityError::NoCertificate`] if there are none; those before then stay.
    pub fn replace(
        &self,
        identities: impl IntoIterator<Item = Identity>,
    ) -> Result<(), IdentityError> {
        self.table.store(Arc::new(Table::new(identities)?));
        Ok(())
    }

    /// Whether one of the certificates of the moment is valid for this DNS name, exactly or by a wildcard (RFC 9525 §6.3).
    /// A server answers a request for another authority with 421 (RFC 9110 §15.5.20, RFC 9114 §3.3).
    pub fn covers(&self, name: &str) -> bool {
        self.table.load().named(name).is_some()
    }

    /// The certificates of the moment, in the order in which they were given.
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
                // If none is usable, TLS says so.
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

    /// The certificates for a name, exactly or by a wildcard, which stands for the first label (RFC 9525 §6.3).
    fn named(&self, name: &str) -> Option<&[Identity]> {
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, rest) = name.split_once('.')?;
            self.by_name.get(&format!("*.{rest}"))
        };
        self.by_name.get(&name).or_else(wildcard).map(Vec::as_slice)
    }
}
