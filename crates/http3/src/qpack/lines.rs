use super::FIELD_OVERHEAD;

/// One field line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether the field must never be indexed (RFC 9204 §7.1.3).
    pub(crate) sensitive: bool,
}

/// The field lines of one section, in order, before they are encoded.
#[derive(Debug, Default)]
pub(crate) struct FieldLines {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    size: u64,
}

/// The position of a line in the shared bytes.
#[derive(Clone, Copy, Debug)]
struct Line {
    name_end: usize,
    end: usize,
    sensitive: bool,
}

impl FieldLines {
    /// Removes all fields, but keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.size = 0;
    }

    /// Adds a field. Intermediaries must never index a `sensitive` field (RFC 9204 §7.1.3).
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], sensitive: bool) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.lines.push(Line { name_end, end: self.bytes.len(), sensitive });
        let length = (name.len() as u64).saturating_add(value.len() as u64);
        self.size = self.size.saturating_add(length).saturating_add(FIELD_OVERHEAD);
    }

    /// Returns the size of the fields, counted as in RFC 9114 §4.2.2.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let mut begin = 0;
        self.lines.iter().map(move |line| {
            let name = self.bytes.get(begin..line.name_end).unwrap_or_default();
            let value = self.bytes.get(line.name_end..line.end).unwrap_or_default();
            begin = line.end;
            Field { name, value, sensitive: line.sensitive }
        })
    }
}
