//! The certificates of the server and of its clients.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use clearway::{Certificates, ClientCertificates, ClientRoots, ServerConfig};

use super::reload::{Reloading, ReloadingRoots};
use crate::certificate::{self, Development};
use crate::failure::Failure;
use crate::output;

/// The options for certificates.
#[derive(Args, Debug)]
pub(crate) struct CertificateOptions {
    /// PEM file with the server's certificate and the intermediate certificates.
    ///
    /// The server's certificate comes first. May be repeated, each with its own --key: the
    /// certificate is selected by the name that the client requests (SNI), including wildcards; the
    /// first one is used for all other names. The files are reloaded when one changes and on
    /// SIGHUP; if they are invalid, the current certificates stay in use. Connections are not
    /// interrupted.
    #[arg(long = "cert", value_name = "FILE", requires = "keys")]
    certificates: Vec<PathBuf>,
    /// PEM file with the unencrypted private key; one per --cert, in the same order.
    #[arg(long = "key", value_name = "FILE", requires = "certificates")]
    keys: Vec<PathBuf>,
    /// Write the generated certificate to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "certificates")]
    save_cert: Option<PathBuf>,
    /// Request client certificates, and accept only chains that end in this PEM file.
    ///
    /// The file is reloaded when it changes and on SIGHUP, and then applies to all new connections;
    /// if it is invalid, the current certificates stay in use. Sessions that began under other
    /// certificates are not resumed.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Whether clients must have a certificate.
    #[arg(
        long,
        value_enum,
        value_name = "MODE",
        default_value = "required",
        requires = "client_ca"
    )]
    client_certificate: Need,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Need {
    /// Accept clients without a certificate, too.
    Optional,
    /// Reject clients without a certificate.
    Required,
}

impl From<Need> for ClientCertificates {
    fn from(need: Need) -> Self {
        match need {
            Need::Optional => Self::Optional,
            Need::Required => Self::Required,
        }
    }
}

/// The server's certificates.
pub(crate) struct Presented {
    pub(crate) certificates: Arc<Certificates>,
    /// The generated certificate, in PEM.
    development: Option<String>,
    /// Reloads the files when they change.
    pub(crate) reloading: Option<Reloading>,
    /// The trusted roots of client certificates, if the server requests client certificates.
    client_roots: Option<ClientRoots>,
    /// Reloads the file with the roots of client certificates when it changes.
    pub(crate) reloading_roots: Option<ReloadingRoots>,
}

impl CertificateOptions {
    /// Reads the server's certificates, or generates one.
    pub(crate) fn present(&self) -> Result<Presented, Failure> {
        let reloading_roots = match &self.client_ca {
            Some(file) => Some(ReloadingRoots::start(file.clone())?),
            None => None,
        };
        let client_roots = reloading_roots.as_ref().map(ReloadingRoots::roots);
        Ok(Presented { client_roots, reloading_roots, ..self.present_own()? })
    }

    fn present_own(&self) -> Result<Presented, Failure> {
        let (given, keys) = (self.certificates.len(), self.keys.len());
        if given != keys {
            return Err(Failure::new(format!(
                "--cert is given {given} times and --key {keys} times"
            ))
            .advise("pass a --key for each --cert, in the same order"));
        }
        if given == 0 {
            let Development { identity, pem } = Development::generate()?;
            let certificates = Certificates::new([identity]);
            let certificates = certificates.map_err(|error| Failure::new(error.to_string()))?;
            let certificates = Arc::new(certificates);
            let development = Some(pem);
            return Ok(Presented {
                certificates,
                development,
                reloading: None,
                client_roots: None,
                reloading_roots: None,
            });
        }
        let files = self.certificates.iter().cloned().zip(self.keys.iter().cloned()).collect();
        let reloading = Reloading::start(files)?;
        let certificates = reloading.certificates();
        let reloading = Some(reloading);
        Ok(Presented {
            certificates,
            development: None,
            reloading,
            client_roots: None,
            reloading_roots: None,
        })
    }

    /// Returns whether only clients with a certificate from a known CA are accepted.
    pub(crate) fn requires_client_certificate(&self) -> bool {
        self.client_ca.is_some() && matches!(self.client_certificate, Need::Required)
    }

    /// Requests client certificates, if configured.
    pub(crate) fn configure(&self, presented: &Presented) -> ServerConfig {
        let config = ServerConfig::with_resolver(presented.certificates.clone());
        match &presented.client_roots {
            Some(roots) => {
                config.client_certificates(self.client_certificate.into(), roots.clone())
            }
            None => config,
        }
    }

    /// Describes how clients can trust a generated certificate, and writes it to a file for them.
    pub(crate) fn announce(&self, presented: &Presented) -> Result<(), Failure> {
        match (&self.save_cert, &presented.development) {
            (Some(file), Some(pem)) => {
                certificate::save(pem, file)?;
                let file = file.display();
                output::status(&format!("clients can trust this server with --ca {file}"));
            }
            (None, Some(_)) => output::status(
                "generated a self-signed certificate; to let clients trust it, save it with --save-cert FILE",
            ),
            (_, None) => {}
        }
        Ok(())
    }
}
