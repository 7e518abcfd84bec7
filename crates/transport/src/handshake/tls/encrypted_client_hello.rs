//! The encrypted ClientHello (ECH, RFC 9849), client side only: rustls does not implement the
//! server side.

use rustls::client::EchMode;

use crate::SessionError;

/// Whether a client encrypts its ClientHello, and with it the server's name (RFC 9849).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EncryptedClientHello {
    /// The ClientHello is not encrypted.
    #[default]
    Off,
    /// Sends an extension with random content that looks like ECH (RFC 9849 §6.2). Servers ignore
    /// it. Sending it keeps the extension common, so that networks do not drop packets that contain
    /// it. Only with the cargo feature `aws-lc-rs`.
    #[cfg(feature = "aws-lc-rs")]
    Grease,
    /// Encrypts the ClientHello with the first configuration of this ECHConfigList (RFC 9849 §4)
    /// that the client supports. Servers publish the list in DNS. A server that cannot decrypt it
    /// completes the handshake under the configuration's public name, and the connection then fails
    /// with
    /// [`EncryptedClientHelloRejected`](crate::TransportErrorCause::EncryptedClientHelloRejected).
    /// Only with the cargo feature `aws-lc-rs`.
    #[cfg(feature = "aws-lc-rs")]
    ConfigList(Vec<u8>),
}

impl EncryptedClientHello {
    /// Returns rustls's mode; `None` if nothing is to be sent.
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

/// The parts that require hybrid public key encryption (HPKE, RFC 9180) from aws-lc-rs; ring does
/// not provide it.
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

    /// The suite that random GREASE values imitate, which is the most common one.
    static GREASE_SUITE: &dyn Hpke = DH_KEM_X25519_HKDF_SHA256_AES_128;
    /// The size of the length prefix of a configuration list.
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

    /// Checks that the length prefix matches the list, because rustls ignores trailing bytes.
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
