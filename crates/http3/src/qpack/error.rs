use core::fmt;

use crate::Code;

/// An error of the peer's QPACK encoder or decoder (RFC 9204 §6). Each variant belongs to one of
/// QPACK's three error codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QpackError {
    /// QPACK_DECOMPRESSION_FAILED: a field section ends in the middle of a field line (§4.5).
    SectionTruncated,
    /// QPACK_DECOMPRESSION_FAILED: an integer in a field section has more than 62 bits (§4.1.1).
    SectionInteger,
    /// QPACK_DECOMPRESSION_FAILED: a string in a field section is not valid Huffman code (§4.1.2).
    SectionHuffman,
    /// QPACK_DECOMPRESSION_FAILED: no encoder can produce the Encoded Required Insert Count
    /// (§4.5.1.1).
    RequiredInsertCount,
    /// QPACK_DECOMPRESSION_FAILED: the Base is negative (§4.5.1.2).
    NegativeBase,
    /// QPACK_DECOMPRESSION_FAILED: a field line references an entry that is not in the static table
    /// (§3.1).
    SectionStaticIndex,
    /// QPACK_DECOMPRESSION_FAILED: a field line references an entry that its Required Insert Count
    /// does not cover (§2.2.3).
    ReferenceNotCovered,
    /// QPACK_DECOMPRESSION_FAILED: a field line references an evicted entry (§2.2.3).
    ReferenceEvicted,
    /// QPACK_DECOMPRESSION_FAILED: more streams are blocked than allowed (§2.1.2).
    TooManyBlockedStreams,
    /// QPACK_ENCODER_STREAM_ERROR: an integer in an instruction has more than 62 bits (§4.1.1).
    EncoderInteger,
    /// QPACK_ENCODER_STREAM_ERROR: a string in an instruction is not valid Huffman code (§4.1.2).
    EncoderHuffman,
    /// QPACK_ENCODER_STREAM_ERROR: the dynamic table's capacity exceeds the advertised maximum
    /// (§4.3.1).
    CapacityTooLarge,
    /// QPACK_ENCODER_STREAM_ERROR: a new entry is larger than the dynamic table's capacity (§3.2.2).
    EntryTooLarge,
    /// QPACK_ENCODER_STREAM_ERROR: an instruction references an entry that is not in the static
    /// table (§3.1).
    EncoderStaticIndex,
    /// QPACK_ENCODER_STREAM_ERROR: an instruction references an entry that is not in the dynamic
    /// table (§2.2.3).
    EncoderDynamicIndex,
    /// QPACK_DECODER_STREAM_ERROR: an integer in an instruction has more than 62 bits (§4.1.1).
    DecoderInteger,
    /// QPACK_DECODER_STREAM_ERROR: an Insert Count Increment is zero (§4.4.3).
    IncrementZero,
    /// QPACK_DECODER_STREAM_ERROR: more insertions were acknowledged than were made (§4.4.3).
    IncrementTooLarge,
    /// QPACK_DECODER_STREAM_ERROR: a Section Acknowledgment is for a stream without an
    /// unacknowledged section (§4.4.1).
    NothingToAcknowledge,
}

impl QpackError {
    /// Returns the error code with which the connection is closed.
    pub const fn code(self) -> Code {
        match self {
            Self::SectionTruncated
            | Self::SectionInteger
            | Self::SectionHuffman
            | Self::RequiredInsertCount
            | Self::NegativeBase
            | Self::SectionStaticIndex
            | Self::ReferenceNotCovered
            | Self::ReferenceEvicted
            | Self::TooManyBlockedStreams => Code::QPACK_DECOMPRESSION_FAILED,
            Self::EncoderInteger
            | Self::EncoderHuffman
            | Self::CapacityTooLarge
            | Self::EntryTooLarge
            | Self::EncoderStaticIndex
            | Self::EncoderDynamicIndex => Code::QPACK_ENCODER_STREAM_ERROR,
            Self::DecoderInteger
            | Self::IncrementZero
            | Self::IncrementTooLarge
            | Self::NothingToAcknowledge => Code::QPACK_DECODER_STREAM_ERROR,
        }
    }

    /// Returns a description of the error for logs.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SectionTruncated => "a field section is truncated",
            Self::SectionInteger => "a field section has an integer of more than 62 bits",
            Self::SectionHuffman => "a Huffman coded string is invalid",
            Self::RequiredInsertCount => "a field section has an invalid Required Insert Count",
            Self::NegativeBase => "a field section has a negative Base",
            Self::SectionStaticIndex => {
                "a field line refers to an entry that is not in the static table"
            }
            Self::ReferenceNotCovered => {
                "a field line refers to an entry beyond the Required Insert Count"
            }
            Self::ReferenceEvicted => "a field line refers to an evicted entry",
            Self::TooManyBlockedStreams => "more streams are blocked than were allowed",
            Self::EncoderInteger => "an encoder instruction has an integer of more than 62 bits",
            Self::EncoderHuffman => "an encoder instruction has an invalid Huffman coded string",
            Self::CapacityTooLarge => "the dynamic table's capacity exceeds the advertised maximum",
            Self::EntryTooLarge => "an entry is larger than the dynamic table's capacity",
            Self::EncoderStaticIndex => {
                "an encoder instruction refers to an entry that is not in the static table"
            }
            Self::EncoderDynamicIndex => {
                "an encoder instruction refers to an entry that is not in the dynamic table"
            }
            Self::DecoderInteger => "a decoder instruction has an integer of more than 62 bits",
            Self::IncrementZero => "an Insert Count Increment is zero",
            Self::IncrementTooLarge => "more insertions were acknowledged than were made",
            Self::NothingToAcknowledge => {
                "a section was acknowledged on a stream that has no unacknowledged section"
            }
        }
    }
}

impl fmt::Display for QpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl core::error::Error for QpackError {}
