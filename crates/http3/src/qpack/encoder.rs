use super::static_table::{self, Match};
use super::{FIELD_OVERHEAD, huffman, integer};

/// Builds one encoded field section (RFC 9204 §4.5) from the static table and literals.
#[derive(Debug)]
pub(crate) struct Encoder {
    section: Vec<u8>,
    size: u64,
}

impl Encoder {
    /// An empty section.
    pub(crate) fn new() -> Self {
        // Required Insert Count and Delta Base are zero: nothing refers to the dynamic table.
        Self { section: vec![0, 0], size: 0 }
    }

    /// Adds a field. A `sensitive` one tells intermediaries never to index it (§7.1.3).
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        let length = (name.len() as u64).saturating_add(value.len() as u64);
        self.size = self.size.saturating_add(length).saturating_add(FIELD_OVERHEAD);
        let never_index = u8::from(sensitive);
        match static_table::find(name, value) {
            Match::Field(index) if !sensitive => {
                // Indexed Field Line (§4.5.2): 1 T Index(6+).
                integer::encode(&mut self.section, 0b1100_0000, 6, index);
            }
            Match::Field(index) | Match::Name(index) => {
                // Literal Field Line with Name Reference (§4.5.4): 01 N T Index(4+).
                let flags = 0b0101_0000 | (never_index << 5);
                integer::encode(&mut self.section, flags, 4, index);
                self.string(0, 7, value);
            }
            Match::None => {
                // Literal Field Line with Literal Name (§4.5.6): 001 N H Length(3+).
                self.string(0b0010_0000 | (never_index << 4), 3, name);
                self.string(0, 7, value);
            }
        }
    }

    /// A string literal (§4.1.2): H and the length in `prefix` bits below `flags`.
    fn string(&mut self, flags: u8, prefix: u32, text: &[u8]) {
        let huffman_length = huffman::encoded_len(text);
        if huffman_length < text.len() {
            let huffman = 1u8.wrapping_shl(prefix);
            integer::encode(&mut self.section, flags | huffman, prefix, huffman_length as u64);
            huffman::encode(text, &mut self.section);
        } else {
            integer::encode(&mut self.section, flags, prefix, text.len() as u64);
            self.section.extend_from_slice(text);
        }
    }

    /// The size of the fields as RFC 9114 §4.2.2 counts it.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The encoded section.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.section
    }
}
