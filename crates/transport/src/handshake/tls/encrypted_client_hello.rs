//! The encrypted ClientHello (ECH, RFC 9849), of which a client here has its side; rustls has no server's.

use rustls::client::EchMode;

use crate::SessionError;

/// Whether a client encrypts its ClientHello, and with it the name of the server (RFC 9849).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EncryptedClientHello {
    /// It does not.
    #[default]
    Off,
    /// It sends an extension with random content, as if it did (RFC 9849 §6.2). Servers ignore it. On a path that drops
    /// what looks unusual this keeps the extension from being unusual. Only with the cargo feature `aws-lc-rs`.
    #[cfg(feature = "aws-lc-rs")]
    Grease,
    /// It does, with the first configuration of this ECHConfigList (RFC 9849 §4) that it supports, which the server
    /// publishes in DNS. A server that cannot decrypt it completes the handshake under the configuration's public name,
    /// and the connection then fails with
    /// [`EncryptedClientHelloRejected`](crate::TransportErrorCause::EncryptedClientHelloRejected). Only with the cargo
    /// feature `aws-lc-rs`.
    #[cfg(feature = "aws-lc-rs")]
    ConfigList(Vec<u8>),
}

impl EncryptedClientHello {
    /// The mode of rustls; `None` if nothing is to be sent.
    pub(super) fn mode(&self) -> Result<Option<EchMode>, SessionError> {
        match self {
            Self::Off => Ok(None),
            #[cfg(feature = "aws-lc-rs")]
            Self::Grease => hpke::grease().map(Some),
            #[cfg(feature = "aws-lc-rs")]
            Self::ConfigList(list) => hpke::encrypting(list).map(Some),
        }
    }

    pub(super) fn has_config(&self) -> bool {
        match self {
            #[cfg(feature = "aws-lc-rs")]
            Self::ConfigList(_) => true,
            _ => false,
        }
    }
}

/// What needs the public-key encryption (HPKE, RFC 9180) of aws-lc-rs; ring has none.
#[cfg(feature = "aws-lc-rs")]
mod hpke {
    use rustls::EncryptedClientHelloError;
    use rustls::client::{EchConfig, EchGreaseConfig, EchMode};
    use rustls::crypto::aws_lc_rs::hpke::{
        ALL_SUPPORTED_SUITES, DH_KEM_X25519_HKDF_SHA256_AES_128,
    };
    use rustls::crypto::hpke::Hpke;
    use rustls::pki_types::EchConfigListBytes;

    use crate::SessionError;

    /// What is random in GREASE has the form of this suite, the most frequent one.
    static GREASE_SUITE: &dyn Hpke = DH_KEM_X25519_HKDF_SHA256_AES_128;
    /// The length of what precedes the configurations of a list: their length.
    const LIST_HEADER: usize = 2;

    pub(super) fn grease() -> Result<EchMode, SessionError> {
        let (public_key, _) = GREASE_SUITE.generate_key_pair()?;
        Ok(EchGreaseConfig::new(GREASE_SUITE, public_key).into())
    }

    pub(super) fn encrypting(list: &[u8]) -> Result<EchMode, SessionError> {
        check_length(list)?;
        let list = EchConfigListBytes::from(list);
        let config = EchConfig::new(list, ALL_SUPPORTED_SUITES).map_err(named)?;
        Ok(config.into())
    }

    /// Whether the list is as long as it says: rustls ignores what follows it.
    fn check_length(list: &[u8]) -> Result<(), SessionError> {
        let stated = list.first_chunk::<LIST_HEADER>().map(|header| u16::from_be_bytes(*header));
        let length = list.len().checked_sub(LIST_HEADER);
        match stated.map(usize::from) == length {
            true => Ok(()),
            false => Err(EncryptedClientHelloError::InvalidConfigList.into()),
        }
    }

    fn named(error: rustls::Error) -> SessionError {
        match error {
            rustls::Error::InvalidEncryptedClientHello(error) => error.into(),
            error => error.into(),
        }
    }
}
