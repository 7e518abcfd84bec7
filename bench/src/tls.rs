//! Certificates, and the configurations that use them.

use std::path::Path;

use clearway::{ClientConfig, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Outcome;

pub(crate) fn write_certificate(certificate: &Path, key: &Path) -> Outcome {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names)?;
    std::fs::write(certificate, certified.cert.pem())?;
    std::fs::write(key, certified.signing_key.serialize_pem())?;
    Ok(())
}

/// Windows that do not limit a download over loopback.
fn transport(mtu: u16) -> TransportConfig {
    TransportConfig::builder()
        .max_datagram_size(mtu.into())
        .initial_stream_receive_window(16 << 20)
        .initial_connection_receive_window(24 << 20)
        .build()
        .unwrap()
}

pub(crate) fn server(
    certificate: &Path,
    key: &Path,
    alpn: &str,
    mtu: u16,
) -> Outcome<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    Ok(ServerConfig::new(chain, key).application_protocols([alpn]).transport(transport(mtu)))
}

pub(crate) fn client(ca: &Path, alpn: &str, mtu: u16) -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    Ok(ClientConfig::with_roots(roots).application_protocols([alpn]).transport(transport(mtu)))
}
