//! The clients that a server accepts, and consequently the sessions that it may resume.

use core::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::chain;
use super::signatures::{ValidSignatures, bounded};
use crate::SessionError;
use crate::crypto::packets::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

/// Whether a server requests client certificates (RFC 8446 §4.3.2).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum ClientTrust {
    /// No certificate is requested.
    #[default]
    NotAsked,
    /// A certificate is requested. A client without a certificate is accepted, but a client whose
    /// certificate does not chain to these roots is rejected.
    Optional(ClientRoots),
    /// Only clients whose certificate chains end at one of these roots are accepted.
    Required(ClientRoots),
}

/// The roots at which client certificate chains must end. Clones share the roots: a running server
/// applies changes made by [`replace`](Self::replace).
#[derive(Clone)]
pub struct ClientRoots(Arc<ArcSwap<RootCertStore>>);

impl ClientRoots {
    /// Creates a set that trusts `roots` until they are replaced.
    pub fn new(roots: impl Into<Arc<RootCertStore>>) -> Self {
        Self(Arc::new(ArcSwap::new(roots.into())))
    }

    /// Replaces the trusted roots with `roots`. Every connection that starts later is checked
    /// against them, even if its client has a session ticket: sessions that began under other roots
    /// are not resumed, and their clients authenticate again in a full handshake. Existing
    /// connections and handshakes in progress continue.
    ///
    /// # Errors
    /// Returns [`SessionError::NoClientRoots`] if `roots` is empty; the previous roots then stay in
    /// use.
    pub fn replace(&self, roots: impl Into<Arc<RootCertStore>>) -> Result<(), SessionError> {
        let roots = roots.into();
        if roots.is_empty() {
            return Err(SessionError::NoClientRoots);
        }
        self.0.store(roots);
        Ok(())
    }

    /// Returns the current roots.
    pub fn current(&self) -> Arc<RootCertStore> {
        self.0.load_full()
    }
}

impl From<Arc<RootCertStore>> for ClientRoots {
    fn from(roots: Arc<RootCertStore>) -> Self {
        Self::new(roots)
    }
}

impl From<RootCertStore> for ClientRoots {
    fn from(roots: RootCertStore) -> Self {
        Self::new(roots)
    }
}

impl fmt::Debug for ClientRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientRoots").field(&self.0.load().len()).finish()
    }
}

/// A fingerprint that identifies a policy in every process that uses it.
pub(super) type Fingerprint = [u8; SHA256_OUTPUT_LEN];

/// A snapshot of how a server authenticates clients. Sessions are bound to it.
#[derive(Clone, Debug)]
pub(super) struct ClientPolicy {
    kind: ClientTrustKind,
    fingerprint: Fingerprint,
}

#[derive(Clone, Debug)]
enum ClientTrustKind {
    /// The user-provided rustls configuration decides, and does not disclose how.
    Unknown,
    NotAsked,
    Optional(Arc<RootCertStore>, Arc<dyn ClientCertVerifier>),
    Required(Arc<RootCertStore>, Arc<dyn ClientCertVerifier>),
}

/// A client's identity at the end of the handshake.
#[derive(Clone, Debug)]
pub(super) enum ClientIdentity {
    /// The client was not asked for a certificate, or did not present an optional one.
    Anonymous,
    /// The verified chain, the client's own certificate first.
    Verified(Box<[CertificateDer<'static>]>),
}

impl ClientIdentity {
    pub(super) fn chain(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Self::Anonymous => None,
            Self::Verified(chain) => Some(chain),
        }
    }
}

impl ClientPolicy {
    /// Returns the policy that `trust` currently specifies.
    pub(super) fn of(
        trust: &ClientTrust,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SessionError> {
        let kind = match trust {
            ClientTrust::NotAsked => ClientTrustKind::NotAsked,
            ClientTrust::Optional(roots) => {
                let roots = roots.current();
                let verifier = verifier(&roots, provider, true)?;
                ClientTrustKind::Optional(roots, verifier)
            }
            ClientTrust::Required(roots) => {
                let roots = roots.current();
                let verifier = verifier(&roots, provider, false)?;
                ClientTrustKind::Required(roots, verifier)
            }
        };
        let fingerprint = kind.fingerprint();
        Ok(Self { kind, fingerprint })
    }

    /// Creates a policy that is different from every other policy.
    pub(super) fn unknown(random: &dyn SecureRandom) -> Result<Self, SessionError> {
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        random.fill(&mut fingerprint).map_err(rustls::Error::from)?;
        Ok(Self { kind: ClientTrustKind::Unknown, fingerprint })
    }

    /// Returns the same policy with a name. The name alone identifies a user-provided policy.
    pub(super) fn named(&self, name: &[u8]) -> Self {
        let mut hash = Context::new(&SHA256);
        match self.kind {
            ClientTrustKind::Unknown => hash.update(b"clearway named client policy"),
            _ => hash.update(&self.fingerprint),
        }
        hash.update(name);
        Self { kind: self.kind.clone(), fingerprint: finish(hash) }
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        match &self.kind {
            ClientTrustKind::Unknown | ClientTrustKind::NotAsked => Arc::new(NoClientAuth),
            ClientTrustKind::Optional(_, verifier) | ClientTrustKind::Required(_, verifier) => {
                verifier.clone()
            }
        }
    }

    /// Returns whether these are the roots of the policy.
    pub(super) fn has_roots(&self, roots: &Arc<RootCertStore>) -> bool {
        match &self.kind {
            ClientTrustKind::Unknown | ClientTrustKind::NotAsked => false,
            ClientTrustKind::Optional(own, _) | ClientTrustKind::Required(own, _) => {
                Arc::ptr_eq(own, roots)
            }
        }
    }

    pub(super) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    pub(super) fn requires_certificate(&self) -> bool {
        matches!(self.kind, ClientTrustKind::Required(..))
    }

    /// Returns whether a session with this chain may be resumed at `now`: the chain is verified as
    /// in a full handshake, but the client does not prove possession of the key again.
    pub(super) fn accepts(&self, chain: Option<&[CertificateDer<'_>]>, now: UnixTime) -> bool {
        match (&self.kind, chain) {
            // The fingerprint proves that the same configuration accepted the client.
            (ClientTrustKind::Unknown, _)
            | (ClientTrustKind::NotAsked | ClientTrustKind::Optional(..), None) => true,
            (ClientTrustKind::NotAsked, Some(_)) | (ClientTrustKind::Required(..), None) => false,
            (
                ClientTrustKind::Optional(_, verifier) | ClientTrustKind::Required(_, verifier),
                Some(chain),
            ) => chain.split_first().is_some_and(|(own, intermediates)| {
                verifier.verify_client_cert(own, intermediates, now).is_ok()
            }),
        }
    }

    /// Returns the identity of a client with this verified chain; `None` if a certificate is
    /// required but missing.
    pub(super) fn identity(
        &self,
        chain: Option<&[CertificateDer<'static>]>,
    ) -> Option<ClientIdentity> {
        match (&self.kind, chain) {
            (_, Some(chain @ [_, ..])) => Some(ClientIdentity::Verified(chain.into())),
            (ClientTrustKind::Required(..), _) => None,
            (_, _) => Some(ClientIdentity::Anonymous),
        }
    }
}

impl ClientTrustKind {
    /// Returns the same value for equal policies: the order of the roots, and duplicates, do not
    /// matter.
    fn fingerprint(&self) -> Fingerprint {
        let (kind, roots) = match self {
            Self::Unknown | Self::NotAsked => (b"none", None),
            Self::Optional(roots, _) => (b"may ", Some(roots)),
            Self::Required(roots, _) => (b"must", Some(roots)),
        };
        let mut anchors: Vec<[&[u8]; 3]> = Vec::new();
        for root in roots.iter().flat_map(|roots| &roots.roots) {
            let constraints = root.name_constraints.as_ref();
            anchors.push([
                &root.subject,
                &root.subject_public_key_info,
                constraints.map(AsRef::as_ref).unwrap_or_default(),
            ]);
        }
        anchors.sort_unstable();
        anchors.dedup();
        let mut hash = Context::new(&SHA256);
        hash.update(b"clearway client policy 1");
        hash.update(kind);
        for part in anchors.iter().flatten() {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        finish(hash)
    }
}

fn finish(hash: Context) -> Fingerprint {
    let mut fingerprint = [0; SHA256_OUTPUT_LEN];
    fingerprint.copy_from_slice(hash.finish().as_ref());
    fingerprint
}

fn verifier(
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
    is_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, SessionError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
    let inner = builder.build().map_err(|_| SessionError::NoClientRoots)?;
    let algorithms = provider.signature_verification_algorithms;
    Ok(Arc::new(Limited { inner, roots: roots.clone(), algorithms }))
}

/// Limits client certificate chains: rejects a chain with too many certificates before verifying
/// it, and one whose path search exceeds the limit on signature verifications.
#[derive(Debug)]
struct Limited {
    inner: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Limited {
    /// Checks that there is a path to a root (RFC 5280 §6).
    ///
    /// # Errors
    /// Returns an error if the search for a path takes too many signature verifications.
    fn has_path(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<bool, rustls::Error> {
        let Ok(certificate) = EndEntityCert::try_from(end_entity) else { return Ok(false) };
        let found = bounded(&self.algorithms, &ValidSignatures::default(), |supported| {
            certificate
                .verify_for_usage(
                    supported,
                    &self.roots.roots,
                    intermediates,
                    now,
                    KeyUsage::client_auth(),
                    None,
                    None,
                )
                .map(drop)
        })?;
        Ok(found.is_ok())
    }
}

impl ClientCertVerifier for Limited {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        chain::check(intermediates)?;
        if self.has_path(end_entity, intermediates, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        // This also fails, after the same search, with rustls's own error.
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
#[path = "client_trust_tests.rs"]
mod tests;
