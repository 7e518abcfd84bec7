use core::fmt;
use core::str::FromStr;

use clearway_units::foreign::escaped;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of `zeros:COUNT`, in bytes.
const MAX_ZEROS: usize = 16 << 20;

/// Bytes of a frame, a field or a datagram.
///
/// As text, in scripts and reports: `hex:00ff` for arbitrary bytes, `zeros:1000` for repeated zero bytes, and
/// anything else stands for itself.
#[derive(Clone, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Data {
    bytes: Vec<u8>,
    /// Number of additional bytes that were not kept.
    omitted: usize,
}

impl Data {
    /// Creates data from `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), omitted: 0 }
    }

    /// Creates `length` zero bytes, at most 16 MiB.
    pub fn zeros(length: usize) -> Self {
        Self::new(vec![0; length.min(MAX_ZEROS)])
    }

    /// Keeps the first `limit` bytes of `bytes`, and counts the others.
    pub(crate) fn clipped(bytes: &[u8], limit: usize) -> Self {
        let kept = bytes.get(..limit).unwrap_or(bytes);
        Self { bytes: kept.to_vec(), omitted: bytes.len().saturating_sub(kept.len()) }
    }

    /// Returns the bytes that were kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bytes, including those that were not kept.
    pub fn len(&self) -> usize {
        self.bytes.len().saturating_add(self.omitted)
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&str> for Data {
    /// Uses the bytes of `text` literally, without interpreting prefixes.
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Data {
    fn from(bytes: &[u8; N]) -> Self {
        Self::new(bytes.as_slice())
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl FromStr for Data {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(digits) = text.strip_prefix("hex:") {
            return from_hex(digits).map(Self::new);
        }
        if let Some(count) = text.strip_prefix("zeros:") {
            let count: usize =
                count.parse().map_err(|_| format!("{text:?} has no number after zeros:"))?;
            if count > MAX_ZEROS {
                return Err(format!("{text:?} exceeds {MAX_ZEROS} bytes"));
            }
            return Ok(Self::zeros(count));
        }
        Ok(Self::from(text))
    }
}

/// Decodes hexadecimal digits; spaces between bytes are ignored.
fn from_hex(digits: &str) -> Result<Vec<u8>, String> {
    let invalid = || format!("{digits:?} is not an even number of hexadecimal digits");
    let digits: Vec<u32> = digits
        .chars()
        .filter(|letter| *letter != ' ')
        .map(|letter| letter.to_digit(16).ok_or_else(invalid))
        .collect::<Result<_, _>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid());
    }
    Ok(pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect())
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |text: &&str| {
            let is_reserved = text.starts_with("hex:") || text.starts_with("zeros:");
            !is_reserved && text.chars().all(|letter| !letter.is_control())
        };
        match core::str::from_utf8(&self.bytes).ok().filter(is_plain) {
            Some(text) => f.write_str(text)?,
            None if self.bytes.len() > 32 && self.bytes.iter().all(|byte| *byte == 0) => {
                write!(f, "zeros:{}", self.bytes.len())?;
            }
            None => {
                f.write_str("hex:")?;
                self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
        }
        if self.omitted > 0 {
            write!(f, "… (and {} more bytes)", self.omitted)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.to_string()))
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_data() {
        assert_eq!("hex:00 ff".parse(), Ok(Data::new([0, 255])));
        assert_eq!("zeros:3".parse(), Ok(Data::zeros(3)));
        assert_eq!("plain".parse(), Ok(Data::from("plain")));
        assert!("hex:0".parse::<Data>().is_err() && "hex:xy".parse::<Data>().is_err());
        assert!("zeros:99999999999".parse::<Data>().is_err());
        assert_eq!(Data::clipped(b"abcdef", 2).to_string(), "ab… (and 4 more bytes)");
    }

    proptest! {
        #[test]
        fn round_trip(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let data = Data::new(bytes);
            prop_assert_eq!(data.to_string().parse(), Ok(data));
        }
    }
}
