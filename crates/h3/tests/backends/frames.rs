//! Bytes of HTTP/3 streams that h3 does not send.

use clearway_http3::field_section;

/// The fields of a request.
pub(crate) const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];

/// The fields of a trailer section.
pub(crate) const TRAILERS: &[(&str, &str)] = &[("trailer", "some value")];

pub(crate) const CONTROL_STREAM: u8 = 0x00;

/// A frame of a reserved type, which every endpoint ignores (RFC 9114 §7.2.8).
pub(crate) const RESERVED: u8 = 0x21;

/// The bytes of frames, one after another.
#[derive(Clone, Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The beginning of a control stream: its type, and SETTINGS without settings.
    pub(crate) fn control() -> Self {
        Self(vec![CONTROL_STREAM]).frame(0x04, &[])
    }

    pub(crate) fn frame(mut self, kind: u8, payload: &[u8]) -> Self {
        self.0.push(kind);
        match payload.len() {
            length @ ..64 => self.0.push(length as u8),
            length => self.0.extend((length as u16 | 0x4000).to_be_bytes()),
        }
        self.0.extend(payload);
        self
    }

    pub(crate) fn data(self, content: &[u8]) -> Self {
        self.frame(0x00, content)
    }

    pub(crate) fn headers(self, fields: &[(&str, &str)]) -> Self {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.frame(0x01, &field_section::encode(fields))
    }

    pub(crate) fn reserved(self) -> Self {
        self.frame(RESERVED, b"grease")
    }

    pub(crate) fn goaway(self, id: u8) -> Self {
        self.frame(0x07, &[id])
    }

    /// Bytes that are not a complete frame.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.clone()
    }
}
