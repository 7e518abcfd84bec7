//! Finds the ECH configurations in a server's EncryptedExtensions (RFC 8446 §4.3.1, RFC 9849 §5).
//!
//! A server that rejects an encrypted ClientHello sends in that message the configurations with
//! which the client may retry. rustls parses them, but returns them in a form that only it can
//! encode.

use clearway_wire::Reader;

use super::client_hello::prefixed_by_two;

/// The handshake type of EncryptedExtensions.
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The type of the encrypted_client_hello extension.
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
/// The maximum length of the message in bytes, with type and length. Longer messages are not
/// buffered; rustls has the same limit.
pub(super) const MAX_LENGTH: usize = 4 + 0xffff;

/// Returns the ECHConfigList in the message at the start of `received`; `None` if there is none, or
/// the message is incomplete.
pub(super) fn retry_configs(received: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(received);
    if reader.u8(NAME).ok()? != ENCRYPTED_EXTENSIONS {
        return None;
    }
    let [high, middle, low] = reader.array(NAME).ok()?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).ok()?;
    let mut message = Reader::new(reader.bytes(length, NAME).ok()?);
    let mut extensions = Reader::new(prefixed_by_two(&mut message)?);
    while !extensions.is_empty() {
        let extension_type = u16::from_be_bytes(extensions.array(NAME).ok()?);
        let data = prefixed_by_two(&mut extensions)?;
        if extension_type == ENCRYPTED_CLIENT_HELLO {
            return Some(data);
        }
    }
    None
}

/// The message name used in errors, which are never shown.
const NAME: &str = "EncryptedExtensions";

/// Checks that configurations are only found within the received bytes, and that more bytes do not
/// change the result.
///
/// # Panics
/// If a property does not hold.
#[cfg(fuzzing)]
pub fn check_encrypted_extensions(received: &[u8]) {
    let whole = retry_configs(received);
    for end in [0, received.len() / 2, received.len().saturating_sub(1)] {
        let part = retry_configs(received.get(..end).unwrap_or_default());
        assert!(part.is_none() || part == whole);
    }
    assert!(whole.is_none_or(|configs| configs.len() < received.len()));
}

#[cfg(test)]
mod tests {
    use super::retry_configs;

    /// Returns an EncryptedExtensions message with these extensions.
    fn message(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut content = Vec::new();
        for (extension_type, data) in extensions {
            content.extend(extension_type.to_be_bytes());
            content.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            content.extend(*data);
        }
        let length = u16::try_from(content.len()).unwrap();
        let mut message = vec![8, 0];
        message.extend((length + 2).to_be_bytes());
        message.extend(length.to_be_bytes());
        message.extend(content);
        message
    }

    #[test]
    fn configurations_are_found_among_other_extensions() {
        let mut message = message(&[(0x39, b"parameters"), (0xfe0d, b"configurations"), (16, b"")]);
        assert_eq!(retry_configs(&message), Some(&b"configurations"[..]));
        for end in 0..message.len() {
            assert_eq!(retry_configs(&message[..end]), None, "{end}");
        }
        message.extend_from_slice(b"the next message");
        assert_eq!(retry_configs(&message), Some(&b"configurations"[..]));
    }

    #[test]
    fn what_has_no_configurations_or_wrong_lengths_gives_none() {
        assert_eq!(retry_configs(&message(&[(0x39, b"parameters")])), None);
        assert_eq!(retry_configs(&message(&[])), None);
        let mut of_another_type = message(&[(0xfe0d, b"configurations")]);
        of_another_type[0] = 2;
        assert_eq!(retry_configs(&of_another_type), None);
        let mut too_long = message(&[(0xfe0d, b"configurations")]);
        too_long[9] += 1;
        assert_eq!(retry_configs(&too_long), None);
    }
}
