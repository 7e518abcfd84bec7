//! The options that describe the probe's peer and its certificates.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::pem::PemObject;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use clearway_probe::quic::{Identity, Trust};
use clearway_probe::run::{Listener, Target};
use http::Uri;

use super::USAGE;
use crate::address::resolve_one;
use crate::certificate::read_roots;
use crate::failure::Failure;

/// The default port of https URLs.
const HTTPS: u16 = 443;

/// The options for a probe that is a client.
#[derive(Args, Debug)]
pub(super) struct ClientOptions {
    /// PEM file with the certificates to trust, in place of the system's.
    #[arg(long, value_name = "FILE", conflicts_with = "listen", help_heading = "Certificates")]
    ca: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(long, conflicts_with_all = ["ca", "listen"], help_heading = "Certificates")]
    insecure: bool,
    /// Connect to this server instead of the one in the URL.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "listen")]
    connect: Option<String>,
}

/// The options for a probe that is a server.
#[derive(Args, Debug)]
pub(super) struct ServerOptions {
    /// PEM file with the server's certificate chain.
    #[arg(long, value_name = "FILE", requires_all = ["key", "listen"], help_heading = "Certificates")]
    cert: Option<PathBuf>,
    /// PEM file with the unencrypted private key.
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Certificates")]
    key: Option<PathBuf>,
    /// Write the generated certificate to this file.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "cert",
        requires = "listen",
        help_heading = "Certificates"
    )]
    save_cert: Option<PathBuf>,
}

impl ClientOptions {
    /// Returns the server that a URL names.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is not an https URL, its host cannot be resolved, or the certificates to trust
    /// cannot be read.
    pub(super) async fn target(&self, url: &str) -> Result<Target, Failure> {
        let invalid = || {
            Failure::new(format!("{url:?} is not a URL of a server"))
                .advise("give a URL such as https://localhost:4433")
                .with_exit_status(USAGE)
        };
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority =
            uri.authority().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(invalid)?;
        let host = authority.host();
        let port = authority.port_u16().unwrap_or(HTTPS);
        let to = self.connect.clone().unwrap_or_else(|| format!("{host}:{port}"));
        Ok(Target {
            address: resolve_one(&to, None).await?,
            server_name: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            authority: authority.to_string(),
            trust: self.trust()?,
        })
    }

    fn trust(&self) -> Result<Trust, Failure> {
        if self.insecure {
            return Ok(Trust::Anyone);
        }
        if let Some(file) = &self.ca {
            return Ok(Trust::Roots(Arc::new(read_roots(file)?)));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Ok(Trust::Roots(Arc::new(roots)))
    }
}

impl ServerOptions {
    /// Opens the socket of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be read or saved, or the address is in use.
    pub(super) fn listen(&self, address: SocketAddr) -> Result<Listener, Failure> {
        let identity = match (&self.cert, &self.key) {
            (Some(certificates), Some(key)) => {
                let unreadable = |file: &PathBuf, error: &dyn std::fmt::Display| {
                    Failure::new(format!("cannot read {}: {error}", file.display()))
                        .with_exit_status(USAGE)
                };
                let chain = CertificateDer::pem_file_iter(certificates)
                    .and_then(Iterator::collect)
                    .map_err(|error| unreadable(certificates, &error))?;
                let private =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
                Identity::new(chain, private)
            }
            _ => Identity::self_signed(&["localhost", "127.0.0.1", "::1"]).map_err(Failure::new)?,
        };
        if let (Some(file), Some(pem)) = (&self.save_cert, identity.pem()) {
            fs::write(file, pem).map_err(|error| {
                Failure::new(format!("cannot write {}: {error}", file.display()))
                    .advise("choose another place with --save-cert")
            })?;
        }
        Listener::bind(address, identity).map_err(|error| super::failure(&error))
    }
}

/// Returns the path of a URL.
pub(super) fn path(url: &str) -> &str {
    let server = url.find("://").map_or(0, |scheme| scheme + 3);
    let rest = url.get(server..).unwrap_or_default();
    rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("/")
}
