//! A server's QUIC-LB configuration file:
//!
//! ```toml
//! config-id = 1            # 0 to 6
//! server-id = "00a1"       # or server-id-base64
//! nonce-length = 7
//! key = "8f95f09245765f80256934e50c66207f"   # without a key everyone can read the server ID
//! encodes-length = false
//! ```

use std::ops::Range;
use std::path::Path;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use clearway::QuicLb;
use clearway::wire::quic_lb::{ConfigError, ConfigId, ServerId};
use serde::Deserialize;
use toml::Spanned;

use crate::failure::Failure;
use crate::file_fault::Fault;
use crate::get::bytes_of;

/// Default nonce length.
const DEFAULT_NONCE_LEN: usize = 7;

/// Base64 decoder that accepts input with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes a server ID from hexadecimal, with or without `0x`.
pub(crate) fn octets_of_hex(digits: &str, place: Range<usize>) -> Result<Vec<u8>, Fault> {
    bytes_of(digits.strip_prefix("0x").unwrap_or(digits)).ok_or_else(|| {
        let message =
            format!("{digits:?} is not a server ID; write two hexadecimal digits for each octet");
        Fault::new(place, message)
    })
}

/// Decodes a server ID from base64, in either alphabet and with or without padding: all variants
/// are in use.
pub(crate) fn octets_of_base64(text: &Spanned<String>) -> Result<Vec<u8>, Fault> {
    let standard = text.get_ref().replace('-', "+").replace('_', "/");
    BASE64.decode(standard).map_err(|_| {
        let message = format!(
            "{:?} is not base64; copy it unchanged, or write hexadecimal digits as server-id",
            text.get_ref()
        );
        Fault::new(text.span(), message)
    })
}

/// Creates a server ID from these octets.
pub(crate) fn server_id(octets: &[u8], place: Range<usize>) -> Result<ServerId, Fault> {
    let error = || ConfigError::ServerIdLength(octets.len()).to_string();
    ServerId::new(octets).ok_or_else(|| Fault::new(place, error()))
}

/// Decodes the key that encrypts server IDs and nonces.
pub(crate) fn key(digits: &Spanned<String>) -> Result<[u8; 16], Fault> {
    let key = bytes_of(digits.get_ref()).and_then(|octets| octets.try_into().ok());
    // The digits are secret, so the error must not contain them.
    key.ok_or_else(|| {
        let count = digits.get_ref().chars().count();
        let message = format!(
            "a key must have 32 hexadecimal digits, but this one has {count} characters; generate one: openssl rand -hex 16"
        );
        Fault::new(digits.span(), message)
    })
}

/// Parses the number of a configuration.
fn config_id(number: &Spanned<i64>) -> Result<ConfigId, Fault> {
    let config = u8::try_from(*number.get_ref()).ok().and_then(ConfigId::new);
    config.ok_or_else(|| Fault::new(number.span(), "config-id must be 0 to 6"))
}

/// Parses a length in octets. Its validity is checked elsewhere.
fn length(number: &Spanned<i64>) -> Result<usize, Fault> {
    let length = usize::try_from(*number.get_ref());
    length.map_err(|_| Fault::new(number.span(), "a length must be a number of octets"))
}

/// The syntax of the configuration file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    config_id: Spanned<i64>,
    server_id: Option<Spanned<String>>,
    server_id_base64: Option<Spanned<String>>,
    nonce_length: Option<Spanned<i64>>,
    key: Option<Spanned<String>>,
    #[serde(default)]
    encodes_length: bool,
}

/// Reads a server's configuration from `file`.
///
/// # Errors
/// Returns an error if the file cannot be read or is invalid.
pub(crate) fn read(file: &Path) -> Result<QuicLb, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::new(format!("cannot read the QUIC-LB configuration in {file}: {error}"))
            .advise("check the path and the permissions of the file")
    })?;
    parse(&text).map_err(|fault| fault.in_file(file, &text))
}

fn parse(text: &str) -> Result<QuicLb, Fault> {
    let settings: Settings = toml::from_str(text).map_err(|error| Fault::of_toml(&error))?;
    let (octets, server_id_span) = match (&settings.server_id, &settings.server_id_base64) {
        (Some(digits), None) => (octets_of_hex(digits.get_ref(), digits.span())?, digits.span()),
        (None, Some(text)) => (octets_of_base64(text)?, text.span()),
        (Some(_), Some(second)) => {
            return Err(Fault::new(
                second.span(),
                "server-id and server-id-base64 are mutually exclusive; remove one of them",
            ));
        }
        (None, None) => {
            return Err(Fault::new(
                0..0,
                "the key server-id or server-id-base64 is missing; add it",
            ));
        }
    };
    let server_id = server_id(&octets, server_id_span.clone())?;
    let nonce_len = settings.nonce_length.as_ref().map(length).transpose()?;
    let key = settings.key.as_ref().map(key).transpose()?;
    let config = config_id(&settings.config_id)?;
    let quic_lb = QuicLb::new(config, server_id, nonce_len.unwrap_or(DEFAULT_NONCE_LEN), key);
    let quic_lb = quic_lb.map_err(|error| match &settings.nonce_length {
        Some(nonce_length) => Fault::new(nonce_length.span(), error.to_string()),
        None => Fault::new(server_id_span, error.to_string()),
    })?;
    Ok(quic_lb.stating_length(settings.encodes_length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let fault = parse(text).err().unwrap_or_else(|| panic!("{text}"));
        fault.in_file(Path::new("lb.toml"), text).to_string()
    }

    #[test]
    fn a_file_may_have_a_key_or_none() {
        let plain = parse("config-id = 6\nserver-id = \"0x00a1\"\n").unwrap();
        assert_eq!((plain.config().number(), plain.id_len()), (6, 1 + 2 + 7));
        assert_eq!(plain.server_id().as_bytes(), [0, 0xa1]);
        assert!(!plain.is_encrypted());
        let text = "config-id = 0\nserver-id-base64 = \"AKE=\"\nnonce-length = 4\n\
             key = \"8f95f09245765f80256934e50c66207F\"\nencodes-length = true\n";
        let encrypted = parse(text).unwrap();
        assert_eq!((encrypted.config().number(), encrypted.id_len()), (0, 1 + 2 + 4 + 1));
        assert_eq!(encrypted.server_id(), plain.server_id());
        assert!(encrypted.is_encrypted());
        assert_ne!(encrypted, encrypted.clone().stating_length(false));
    }

    #[test]
    fn what_is_wrong_is_found_at_its_place() {
        for (text, expected) in [
            ("server-id = \"01\"\n", "lb.toml:1:1: the key config-id is missing"),
            ("config-id = 1\n", "lb.toml:1:1: the key server-id or server-id-base64 is missing"),
            ("config-id = 7\nserver-id = \"01\"", "lb.toml:1:13: config-id must be 0 to 6"),
            ("config-id = -1\nserver-id = \"01\"", "lb.toml:1:13: config-id must be 0 to 6"),
            (
                "config-id = 1\nserver-id = \"012\"",
                "lb.toml:2:13: \"012\" is not a server ID; write two",
            ),
            (
                "config-id = 1\nserver-id = \"\"",
                "lb.toml:2:13: invalid server ID length 0: expected 1 to 15 octets",
            ),
            ("config-id = 1\nserver-id-base64 = \"?\"", "lb.toml:2:20: \"?\" is not base64"),
            (
                "config-id = 1\nserver-id = \"01\"\nserver-id-base64 = \"AQ==\"",
                "lb.toml:3:20: server-id and server-id-base64 are mutually",
            ),
            (
                "config-id = 1\nserver-id = \"01\"\n nonce-length = 3",
                "lb.toml:3:17: invalid nonce length 3: expected at least 4 octets",
            ),
            (
                "config-id = 1\nserver-id = \"01\"\nnonce-length = -3",
                "lb.toml:3:16: a length must be a number of octets",
            ),
            (
                "config-id = 1\nserver-id = \"000000000000000000000000000001\"",
                "lb.toml:2:13: server ID and nonce have 22 octets in total",
            ),
            (
                "config-id = 1\nserver-id = \"01\"\nkey = \"0102\"",
                "lb.toml:3:7: a key must have 32",
            ),
            ("config-id = 1\nserver-id = \"01\"\nkeys = \"\"", "lb.toml:3:1: unknown key keys"),
            ("config-id = 1\nserver-id = 1\n", "lb.toml:2:13: invalid type: integer `1`"),
            ("config-id = 1\n\nserver-id", "lb.toml:3:"),
        ] {
            let fault = fault(text);
            assert!(fault.starts_with(expected), "{fault}, and not {expected}");
        }
    }
}
