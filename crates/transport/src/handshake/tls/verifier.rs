//! A client's verification of server certificates.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::chain;
use super::server_trust::ServerTrust;
use super::signatures::{ValidSignatures, bounded};

/// Verifies server certificates according to `trust`: with roots as rustls's own verifier does (RFC
/// 5280 §6, RFC 9525), except that a certificate signature that was found valid is not verified
/// again. In all cases, a server has to prove that it has its certificate's key.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: ServerTrust,
    algorithms: WebPkiSupportedAlgorithms,
    valid: ValidSignatures,
}

impl Verifier {
    pub(super) fn new(trust: ServerTrust, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust, algorithms, valid: ValidSignatures::default() }
    }

    fn verify_chain(
        &self,
        roots: &RootCertStore,
        certificate: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        bounded(&self.algorithms, &self.valid, |supported| {
            verify_server_cert_signed_by_trust_anchor(
                certificate,
                roots,
                intermediates,
                now,
                supported,
            )
        })?
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        chain::check(intermediates)?;
        if let ServerTrust::Roots(roots) = &self.trust {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            self.verify_chain(roots, &certificate, intermediates, now)?;
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
pub(super) mod tests;
