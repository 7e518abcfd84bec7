//! Field sections without the dynamic table, for tools that have no HTTP/3 connection.

use crate::qpack::{DecodeFailure, Decoded, Decoder, FieldLines, QpackError, encode_static};

/// One field line: its name and its value.
pub type FieldLine = (Vec<u8>, Vec<u8>);

/// Encodes field lines with references to the static table and Huffman coding (RFC 9204 §4.5).
pub fn encode<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut lines = FieldLines::default();
    for (name, value) in fields {
        lines.field(name, value, false);
    }
    encode_static(&lines)
}

/// Decodes a field section that does not reference the dynamic table. Neither names nor values are validated.
///
/// # Errors
/// If the section is malformed or references the dynamic table, or if its fields exceed `limit` bytes, counted as
/// in RFC 9114 §4.2.2 (then `None` is the error).
pub fn decode(section: &[u8], limit: u64) -> Result<Vec<FieldLine>, Option<QpackError>> {
    let mut fields = Vec::new();
    let mut decoder = Decoder::new(0);
    let outcome = decoder.decode(0, section, limit, |field| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
        Ok::<(), core::convert::Infallible>(())
    });
    match outcome {
        Ok(Decoded::Whole) => Ok(fields),
        Ok(Decoded::Blocked { .. }) => Err(Some(QpackError::RequiredInsertCount)),
        Err(DecodeFailure::Invalid(error)) => Err(Some(error)),
        Err(DecodeFailure::TooLarge | DecodeFailure::Refused(_)) => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let fields = [(b":status".as_slice(), b"200".as_slice()), (b"server", b"clearway")];
        let decoded = decode(&encode(fields), 1000).unwrap();
        let decoded: Vec<_> = decoded.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(decoded, fields);
    }

    #[test]
    fn failures() {
        assert_eq!(decode(&encode([(b"name".as_slice(), b"value".as_slice())]), 40), Err(None));
        // The section requires an insertion.
        assert_eq!(decode(&[2, 0, 0x80], 1000), Err(Some(QpackError::RequiredInsertCount)));
        assert_eq!(decode(&[0, 0, 0x5f], 1000), Err(Some(QpackError::SectionTruncated)));
    }
}
