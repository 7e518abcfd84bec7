//! Certificates, and the TLS and transport configurations that use them.

use std::path::Path;
use std::time::Duration;

use clearway::{ClientConfig, ServerConfig, TransportConfig, TransportConfigBuilder};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Outcome;
use crate::options::Mtu;

/// Writes a certificate for this machine, its private key and, if there is an issuing CA, the CA's
/// certificate.
pub(crate) fn write_certificate(
    certificate: &Path,
    key: &Path,
    authority: Option<&Path>,
) -> Outcome {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let (mut parameters, signing_key) = (CertificateParams::new(names)?, KeyPair::generate()?);
    let signed = match authority {
        None => parameters.self_signed(&signing_key)?,
        Some(authority) => {
            parameters.distinguished_name.push(DnType::CommonName, "localhost");
            parameters.use_authority_key_identifier_extension = true;
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let issuer = issuer(authority)?;
            parameters.signed_by(&signing_key, &issuer)?
        }
    };
    std::fs::write(certificate, signed.pem())?;
    std::fs::write(key, signing_key.serialize_pem())?;
    Ok(())
}

/// Creates a CA, and writes the CA's certificate to `file`.
fn issuer(file: &Path) -> Outcome<Issuer<'static, KeyPair>> {
    let (mut parameters, key) = (CertificateParams::new(Vec::new())?, KeyPair::generate()?);
    parameters.distinguished_name.push(DnType::CommonName, "Benchmark test authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    std::fs::write(file, parameters.self_signed(&key)?.pem())?;
    Ok(Issuer::new(parameters, key))
}

/// The library's default idle timeout.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a transport configuration whose flow control windows do not limit a download over
/// loopback, with the same stream limit as the other peers. With a limit of 100, a client with 100
/// requests in flight would wait for MAX_STREAMS whenever half of them have completed.
pub(crate) fn transport(mtu: Mtu, idle_timeout: Duration) -> TransportConfig {
    transport_builder(mtu, idle_timeout).build().unwrap()
}

/// Like [`transport`], but can be changed further.
pub(crate) fn transport_builder(mtu: Mtu, idle_timeout: Duration) -> TransportConfigBuilder {
    let builder = match mtu {
        Mtu::Fixed(size) => {
            TransportConfig::builder().initial_datagram_size(size.into()).discover_path_mtu(false)
        }
        Mtu::Discovered => TransportConfig::builder(),
    };
    builder
        .initial_stream_receive_window(16 << 20)
        .initial_connection_receive_window(24 << 20)
        .max_concurrent_bidirectional_streams(256)
        .max_idle_timeout(Some(idle_timeout))
}

pub(crate) fn server(
    certificate: &Path,
    key: &Path,
    alpn: &str,
    mtu: Mtu,
    idle_timeout: Duration,
) -> Outcome<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let transport = transport(mtu, idle_timeout);
    Ok(ServerConfig::new(chain, key).application_protocols([alpn]).transport(transport))
}

pub(crate) fn client(ca: &Path, alpn: &str, mtu: Mtu) -> Outcome<ClientConfig> {
    let transport = transport(mtu, IDLE_TIMEOUT);
    Ok(ClientConfig::with_roots(roots(ca)?).application_protocols([alpn]).transport(transport))
}

/// Returns the certificates in a PEM file.
pub(crate) fn roots(ca: &Path) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    Ok(roots)
}
