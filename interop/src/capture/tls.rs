//! The parts of TLS 1.3 handshake messages in CRYPTO frames (RFC 8446 §4) that the checks need.

use std::collections::BTreeMap;

use super::bytes::Bytes;

/// Reassembles the data of CRYPTO frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct CryptoStream(BTreeMap<u64, Vec<u8>>);

/// The fields of a ClientHello.
#[derive(Clone, Debug)]
pub(crate) struct ClientHello {
    pub(crate) random: Vec<u8>,
    pub(crate) cipher_suites: Vec<u64>,
}

impl CryptoStream {
    pub(crate) fn insert(&mut self, offset: u64, data: &[u8]) {
        let known = self.0.entry(offset).or_default();
        if known.len() < data.len() {
            *known = data.to_vec();
        }
    }

    /// Returns the end offset of the received data.
    pub(crate) fn end(&self) -> u64 {
        self.0.iter().map(|(offset, data)| offset + data.len() as u64).max().unwrap_or(0)
    }

    /// Returns the received data from the beginning up to the first gap.
    fn contiguous(&self) -> Vec<u8> {
        let mut data: Vec<u8> = Vec::new();
        for (offset, piece) in &self.0 {
            let Some(known) = (data.len() as u64).checked_sub(*offset) else { break };
            let known = usize::try_from(known).unwrap_or(usize::MAX);
            data.extend_from_slice(piece.get(known..).unwrap_or_default());
        }
        data
    }

    /// Returns the complete messages, each with its type and content.
    pub(crate) fn messages(&self) -> Vec<(u8, Vec<u8>)> {
        let data = self.contiguous();
        let mut bytes = Bytes::new(&data);
        let mut messages = Vec::new();
        while let Some((kind, content)) = message(&mut bytes) {
            messages.push((kind, content.to_vec()));
        }
        messages
    }

    /// Returns the content of the first message of this type.
    pub(crate) fn message(&self, kind: u8) -> Option<Vec<u8>> {
        self.messages().into_iter().find(|(it, _)| *it == kind).map(|(_, content)| content)
    }

    pub(crate) fn client_hello(&self) -> Option<ClientHello> {
        const CLIENT_HELLO: u8 = 1;
        let content = self.message(CLIENT_HELLO)?;
        let mut bytes = Bytes::new(&content);
        bytes.take(2)?;
        let random = bytes.take(32)?.to_vec();
        bytes.vector(1)?;
        let suites = bytes.vector(2)?.chunks(2);
        let cipher_suites = suites.filter_map(|suite| Bytes::new(suite).number(2)).collect();
        Some(ClientHello { random, cipher_suites })
    }

    /// Returns the cipher suite selected in the ServerHello.
    pub(crate) fn cipher_suite(&self) -> Option<u64> {
        const SERVER_HELLO: u8 = 2;
        let content = self.message(SERVER_HELLO)?;
        let mut bytes = Bytes::new(&content);
        bytes.take(2 + 32)?;
        bytes.vector(1)?;
        bytes.number(2)
    }

    /// Returns the value of an integer transport parameter in the EncryptedExtensions message.
    pub(crate) fn transport_parameter(&self, wanted: u64) -> Option<u64> {
        Bytes::new(&self.transport_parameter_bytes(wanted)?).variable()
    }

    /// Returns the connection ID of the preferred_address transport parameter (RFC 9000 §18.2).
    pub(crate) fn preferred_address_id(&self) -> Option<Vec<u8>> {
        const PREFERRED_ADDRESS: u64 = 0x0d;
        const ADDRESSES: usize = 4 + 2 + 16 + 2;
        let value = self.transport_parameter_bytes(PREFERRED_ADDRESS)?;
        let mut bytes = Bytes::new(&value);
        bytes.take(ADDRESSES)?;
        Some(bytes.vector(1)?.to_vec())
    }

    fn transport_parameter_bytes(&self, wanted: u64) -> Option<Vec<u8>> {
        const ENCRYPTED_EXTENSIONS: u8 = 8;
        const QUIC_TRANSPORT_PARAMETERS: u64 = 0x39;
        let content = self.message(ENCRYPTED_EXTENSIONS)?;
        let mut extensions = Bytes::new(Bytes::new(&content).vector(2)?);
        while !extensions.is_empty() {
            let kind = extensions.number(2)?;
            let mut parameters = Bytes::new(extensions.vector(2)?);
            while kind == QUIC_TRANSPORT_PARAMETERS && !parameters.is_empty() {
                let identifier = parameters.variable()?;
                let value = parameters.counted()?;
                if identifier == wanted {
                    return Some(value.to_vec());
                }
            }
        }
        None
    }

    pub(crate) fn has_certificate(&self) -> bool {
        const CERTIFICATE: u8 = 11;
        self.message(CERTIFICATE).is_some()
    }
}

fn message<'a>(bytes: &mut Bytes<'a>) -> Option<(u8, &'a [u8])> {
    let kind = u8::try_from(bytes.number(1)?).ok()?;
    Some((kind, bytes.vector(3)?))
}

#[cfg(test)]
mod tests {
    use super::CryptoStream;

    #[test]
    fn the_connection_id_of_a_preferred_address_is_found() {
        let mut value = vec![0; 24];
        value.extend([3, 0xa, 0xb, 0xc]);
        value.extend([0; 16]);
        let mut extensions = vec![0, 0x39, 0, 2 + 44 + 3, 0x01, 1, 9, 0x0d, 44];
        extensions.extend(value);
        let mut message = vec![8, 0, 0, 2 + 53, 0, 53];
        message.extend(extensions);
        let mut stream = CryptoStream::default();
        stream.insert(0, &message);
        assert_eq!(stream.preferred_address_id(), Some(vec![0xa, 0xb, 0xc]));
        assert_eq!(stream.transport_parameter(0x01), Some(9));
    }

    #[test]
    fn pieces_in_any_order_become_messages() {
        let mut stream = CryptoStream::default();
        stream.insert(6, &[0xbb, 0xcc]);
        assert!(stream.messages().is_empty());
        stream.insert(0, &[11, 0, 0, 2, 0xaa]);
        stream.insert(4, &[0xaa, 0xbb, 9]);
        assert_eq!(stream.messages(), [(11, vec![0xaa, 0xbb])]);
        assert!(stream.has_certificate());
        assert_eq!(stream.end(), 8);
    }
}
