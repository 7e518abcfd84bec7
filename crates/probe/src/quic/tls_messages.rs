//! Changes to TLS messages (RFC 8446 §4) before they are sent.

use clearway_wire::{DecodeError, Reader};

use super::config::TlsEdits;

const CLIENT_HELLO: u8 = 1;
const ENCRYPTED_EXTENSIONS: u8 = 8;

/// Applies `edits` to the first message if it is a ClientHello or EncryptedExtensions, and appends
/// the additional messages. Messages that cannot be parsed are left unchanged.
pub(super) fn edit(messages: &mut Vec<u8>, edits: &TlsEdits) {
    if let Ok(edited) = edited(messages, edits) {
        *messages = edited;
    }
    if let Some(extra) = &edits.append {
        messages.extend_from_slice(extra.bytes());
    }
}

fn edited(messages: &[u8], edits: &TlsEdits) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader::new(messages);
    let kind = reader.u8("HandshakeType")?;
    let length = u24(&mut reader)?;
    let mut body = Reader::new(reader.bytes(length, "Handshake")?);
    let mut output = Vec::new();
    match kind {
        CLIENT_HELLO => {
            output.extend_from_slice(body.bytes(34, "ClientHello")?);
            let session_id = sized_u8(&mut body)?;
            let session_id = edits.legacy_session_id.as_ref().map_or(session_id, |id| id.bytes());
            output.push(session_id.len() as u8);
            output.extend_from_slice(session_id);
            let suites = sized_u16(&mut body)?;
            put_u16(&mut output, suites);
            let compression = sized_u8(&mut body)?;
            output.push(compression.len() as u8);
            output.extend_from_slice(compression);
        }
        ENCRYPTED_EXTENSIONS => {}
        _ => return Ok(messages.to_vec()),
    }
    let extensions = sized_u16(&mut body)?;
    put_u16(&mut output, &without(extensions, &edits.remove_extensions)?);
    let length = (output.len() as u32).to_be_bytes();
    let mut whole = vec![kind];
    whole.extend_from_slice(length.get(1..).unwrap_or_default());
    whole.extend_from_slice(&output);
    whole.extend_from_slice(reader.rest());
    Ok(whole)
}

fn without(extensions: &[u8], removed: &[u16]) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader::new(extensions);
    let mut output = Vec::new();
    while !reader.is_empty() {
        let kind = u16::from_be_bytes(reader.array("ExtensionType")?);
        let data = sized_u16(&mut reader)?;
        if !removed.contains(&kind) {
            output.extend_from_slice(&kind.to_be_bytes());
            put_u16(&mut output, data);
        }
    }
    Ok(output)
}

fn u24(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    let [a, b, c] = reader.array("length")?;
    Ok(u32::from_be_bytes([0, a, b, c]) as usize)
}

fn sized_u8<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = usize::from(reader.u8("length")?);
    reader.bytes(length, "vector")
}

fn sized_u16<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = usize::from(u16::from_be_bytes(reader.array("length")?));
    reader.bytes(length, "vector")
}

fn put_u16(output: &mut Vec<u8>, data: &[u8]) {
    output.extend_from_slice(&(data.len() as u16).to_be_bytes());
    output.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Data;

    fn client_hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, data) in extensions {
            list.extend_from_slice(&kind.to_be_bytes());
            put_u16(&mut list, data);
        }
        let mut body = [0; 34].to_vec();
        body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
        put_u16(&mut body, &list);
        let mut message = vec![CLIENT_HELLO, 0];
        message.extend_from_slice(&(body.len() as u16).to_be_bytes());
        message.extend_from_slice(&body);
        message
    }

    #[test]
    fn extensions_can_be_removed() {
        let mut message = client_hello(&[(57, b"parameters"), (16, b"alpn")]);
        let edits = TlsEdits { remove_extensions: vec![57], ..TlsEdits::default() };
        edit(&mut message, &edits);
        assert_eq!(message, client_hello(&[(16, b"alpn")]));
    }

    #[test]
    fn a_session_id_and_messages_can_be_added() {
        let mut message = client_hello(&[]);
        let before = message.len();
        let edits = TlsEdits {
            legacy_session_id: Some(Data::zeros(32)),
            append: Some(b"\x05\0\0\0".into()),
            ..TlsEdits::default()
        };
        edit(&mut message, &edits);
        assert_eq!(message.len(), before + 32 + 4);
        assert_eq!(message[38], 32);
    }

    #[test]
    fn what_cannot_be_read_stays() {
        for mut message in [vec![], vec![1, 0, 0], vec![1, 0, 0, 200, 3], vec![20, 0, 0, 0]] {
            let before = message.clone();
            edit(&mut message, &TlsEdits::default());
            assert_eq!(message, before);
        }
    }
}
