//! A sequence of arrays of little-endian numbers.

use super::header::{ColumnPlace, ColumnType};

/// Every array's offset is a multiple of this, so that a browser can use the array in place.
const ALIGNMENT: usize = 8;

#[derive(Default, Debug)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    pub(super) fn f64(&mut self, values: impl IntoIterator<Item = f64>) -> ColumnPlace {
        self.write(ColumnType::F64, values.into_iter().map(f64::to_le_bytes))
    }

    pub(super) fn u32(&mut self, values: impl IntoIterator<Item = u32>) -> ColumnPlace {
        self.write(ColumnType::U32, values.into_iter().map(u32::to_le_bytes))
    }

    pub(super) fn u16(&mut self, values: impl IntoIterator<Item = u16>) -> ColumnPlace {
        self.write(ColumnType::U16, values.into_iter().map(u16::to_le_bytes))
    }

    pub(super) fn u8(&mut self, values: impl IntoIterator<Item = u8>) -> ColumnPlace {
        self.write(ColumnType::U8, values.into_iter().map(u8::to_le_bytes))
    }

    pub(super) fn text(&mut self, text: &str) -> ColumnPlace {
        let offset = self.align();
        self.bytes.extend_from_slice(text.as_bytes());
        ColumnPlace { offset, length: text.len(), kind: ColumnType::U8 }
    }

    /// Appends an array, and returns its location for the header.
    fn write<const N: usize>(
        &mut self,
        kind: ColumnType,
        values: impl Iterator<Item = [u8; N]>,
    ) -> ColumnPlace {
        let offset = self.align();
        let mut length = 0_usize;
        self.bytes.reserve(values.size_hint().0.saturating_mul(N));
        for value in values {
            self.bytes.extend_from_slice(&value);
            length = length.saturating_add(1);
        }
        ColumnPlace { offset, length, kind }
    }

    /// Adds padding, and returns the offset at which the next array begins.
    fn align(&mut self) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes.len()
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.align();
        self.bytes
    }
}
