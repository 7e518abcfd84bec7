use core::fmt;
use core::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error_codes;

macro_rules! bases {
    ($($(#[$documentation:meta])* $variant:ident = $name:literal;)*) => {
        /// A value that only exists while there is a connection.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Base {
            $($(#[$documentation])* $variant,)*
        }

        impl Base {
            /// Returns the value's name in scripts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            fn find(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

bases! {
    /// The peer's current connection-level flow control limit (MAX_DATA): the total number of bytes
    /// that this endpoint may send.
    MaxData = "max_data";
    /// The peer's `initial_max_stream_data_bidi_local`, the limit on bidirectional streams that the
    /// peer opens.
    StreamDataBidiLocal = "max_stream_data_bidi_local";
    /// The peer's `initial_max_stream_data_bidi_remote`, the limit on bidirectional streams that
    /// this endpoint opens.
    StreamDataBidiRemote = "max_stream_data_bidi_remote";
    /// The peer's `initial_max_stream_data_uni`, the limit on unidirectional streams that this
    /// endpoint opens.
    StreamDataUni = "max_stream_data_uni";
    /// The ID of the first bidirectional stream that exceeds the peer's stream limit.
    BeyondBidi = "beyond_bidi";
    /// The ID of the first unidirectional stream that exceeds the peer's stream limit.
    BeyondUni = "beyond_uni";
    /// The peer's `active_connection_id_limit`.
    ActiveConnectionIdLimit = "active_connection_id_limit";
    /// The peer's `max_datagram_frame_size`.
    MaxDatagramFrameSize = "max_datagram_frame_size";
    /// The offset of this endpoint's next CRYPTO data at the packet's encryption level.
    CryptoOffset = "crypto_offset";
    /// The next packet number in the packet's packet number space.
    NextPacketNumber = "next_packet_number";
    /// The largest sequence number of the connection IDs that the peer has issued: their number
    /// minus one.
    LargestPeerSequence = "largest_peer_sequence";
    /// The sequence number for this endpoint's next NEW_CONNECTION_ID frame.
    NextSequence = "next_sequence";
}

/// A number in a script: a constant, or a value of the connection plus or minus a constant.
///
/// As text: `7`, `"0x1f"`, `"H3_NO_ERROR"`, `"max_data+1"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quantity {
    base: Option<Base>,
    /// Whether `number` is subtracted from the base.
    is_negative: bool,
    number: u64,
}

impl Quantity {
    /// The largest number that a QUIC variable-length integer can represent, 2^62 - 1.
    pub const MAX: Self = Self::new((1 << 62) - 1);

    /// Creates a constant.
    pub const fn new(number: u64) -> Self {
        Self { base: None, is_negative: false, number }
    }

    /// Creates a number relative to a value of the connection: `base` plus `number`.
    pub const fn beyond(base: Base, number: u64) -> Self {
        Self { base: Some(base), is_negative: false, number }
    }

    /// Returns the number, given a function that returns the values of the connection.
    pub fn resolve(self, values: &dyn Fn(Base) -> u64) -> u64 {
        let base = self.base.map_or(0, values);
        match self.is_negative {
            true => base.saturating_sub(self.number),
            false => base.saturating_add(self.number),
        }
    }

    /// Returns the number if it is a constant.
    pub const fn constant(self) -> Option<u64> {
        match self.base {
            None => Some(self.number),
            Some(_) => None,
        }
    }
}

impl From<u64> for Quantity {
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

impl FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(number) = error_codes::number(text) {
            return Ok(Self::new(number));
        }
        let (name, is_negative, rest) = match text.split_once(['+', '-']) {
            Some((name, rest)) => (name.trim(), text.contains('-'), rest.trim()),
            None => (text, false, "0"),
        };
        let unknown = || {
            format!(
                "{text:?} is neither a number, nor an error code, nor a value of the connection such as max_data+1"
            )
        };
        let base = Base::find(name).ok_or_else(unknown)?;
        let number = error_codes::number(rest).ok_or_else(unknown)?;
        Ok(Self { base: Some(base), is_negative, number })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.number) {
            (None, number) => write!(f, "{number}"),
            (Some(base), 0) => f.write_str(base.name()),
            (Some(base), number) => {
                write!(f, "{}{}{number}", base.name(), if self.is_negative { '-' } else { '+' })
            }
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.constant().map(i64::try_from) {
            Some(Ok(number)) => serializer.serialize_i64(number),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a string such as \"max_data+1\"")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::new(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                let number = u64::try_from(number);
                number.map(Quantity::new).map_err(|_| E::custom("a number must not be negative"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_quantities() {
        let values = |base| if base == Base::MaxData { 100 } else { 0 };
        let resolve = |text: &str| text.parse::<Quantity>().unwrap().resolve(&values);
        assert_eq!([resolve("7"), resolve("0x10"), resolve("H3_NO_ERROR")], [7, 16, 256]);
        assert_eq!(
            [resolve("max_data"), resolve("max_data + 2"), resolve("max_data-1")],
            [100, 102, 99]
        );
        assert!(
            "window+1".parse::<Quantity>().is_err() && "max_data+x".parse::<Quantity>().is_err()
        );
        for text in ["max_data+1", "max_data-1", "beyond_uni", "5"] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
        }
    }
}
