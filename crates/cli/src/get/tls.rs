//! TLS options of the client: its certificate, and Encrypted ClientHello.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use clearway::ClientConfig;

use crate::certificate::read_identity;
use crate::failure::Failure;
use crate::key_exchange::KeyExchangeOptions;

/// The options for TLS.
#[derive(Args, Debug)]
pub(super) struct TlsOptions {
    /// PEM file with this client's certificate, for servers that request one.
    ///
    /// The intermediate certificates follow it in the file.
    #[arg(long = "cert", value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// PEM file with the unencrypted private key of this client's certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Encrypt the ClientHello, including the server's name (ECH, RFC 9849).
    ///
    /// The file has the ECH configurations: the ech parameter of the server's HTTPS record in DNS,
    /// binary, in base64 or as PEM. A server whose keys have changed sends the new ones, and the
    /// connection is retried with those. The value grease sends a GREASE extension instead.
    #[arg(long, value_name = "FILE|grease")]
    ech: Option<PathBuf>,
    #[command(flatten)]
    key_exchange: KeyExchangeOptions,
}

impl TlsOptions {
    /// Adds these TLS settings to `config`.
    pub(super) fn configure(&self, config: ClientConfig) -> Result<ClientConfig, Failure> {
        let mut config = config;
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            config = config.client_certificate(read_identity(certificate, key)?);
        }
        if let Some(groups) = self.key_exchange.groups() {
            config = config.key_exchange_groups(groups);
        }
        Ok(match self.ech.as_deref() {
            None => config,
            Some(word) if word == Path::new("grease") => config.grease_encrypted_client_hello(),
            Some(file) => config.encrypted_client_hello(read_list(file)?),
        })
    }
}

/// Reads an ECHConfigList. Input that is not text and does not begin with its length is passed to
/// the TLS library, which reports the error.
fn read_list(file: &Path) -> Result<Vec<u8>, Failure> {
    let content = std::fs::read(file).map_err(|error| {
        let file = file.display();
        Failure::new(format!("cannot read the ECH configurations in {file}: {error}"))
            .advise("check the path; to send a GREASE extension, use --ech grease")
    })?;
    let stated = content.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
    let is_binary = stated == content.len().checked_sub(2);
    let text = std::str::from_utf8(&content).ok().filter(|_| !is_binary);
    Ok(text.and_then(from_text).unwrap_or(content))
}

/// Decodes an ECHConfigList in base64, either alone or in the ECHCONFIG section of a PEM file.
fn from_text(text: &str) -> Option<Vec<u8>> {
    const BEGIN: &str = "-----BEGIN ECHCONFIG-----";
    const END: &str = "-----END ECHCONFIG-----";
    let digits = match text.split_once(BEGIN) {
        Some((_, rest)) => rest.split_once(END)?.0,
        None => text,
    };
    let digits: String = digits.split_whitespace().collect();
    STANDARD.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::from_text;

    #[test]
    fn lists_are_read_as_base64_and_as_pem() {
        assert_eq!(from_text(" AAL+\nDQ==\n"), Some(vec![0, 2, 0xfe, 0x0d]));
        let pem = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n\
                   -----BEGIN ECHCONFIG-----\nAAL+\nDQ==\n-----END ECHCONFIG-----\n";
        assert_eq!(from_text(pem), Some(vec![0, 2, 0xfe, 0x0d]));
        assert_eq!(from_text("no base64!"), None);
        assert_eq!(from_text("-----BEGIN ECHCONFIG-----\nAAL+"), None);
    }
}
