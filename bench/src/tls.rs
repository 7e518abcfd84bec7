//! Certificates, and the configurations that use them.

use std::path::Path;
use std::time::Duration;

use clearway::{ClientConfig, ServerConfig, TransportConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Outcome;
use crate::options::Mtu;

pub(crate) fn write_certificate(certificate: &Path, key: &Path) -> Outcome {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names)?;
    std::fs::write(certificate, certified.cert.pem())?;
    std::fs::write(key, certified.signing_key.serialize_pem())?;
    Ok(())
}

/// The idle timeout of the library's default settings.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Windows that do not limit a download over loopback, and as many streams as the other peers permit: with a limit of 100, a
/// client with 100 requests in flight waits for MAX_STREAMS after each half of them.
pub(crate) fn transport(mtu: Mtu, idle_timeout: Duration) -> TransportConfig {
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
        .build()
        .unwrap()
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

/// The certificates in a PEM file.
pub(crate) fn roots(ca: &Path) -> Outcome<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    Ok(roots)
}
