//! Writes JSON directly into a buffer, without intermediate values or allocations other than the
//! buffer itself.

use core::time::Duration;

use clearway_units::foreign::escaped;

/// The largest integer that every JSON reader represents exactly (RFC 7493 §2.2).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// An object that is being written. Names must be plain ASCII, lowercase and distinct.
#[derive(Debug)]
pub(super) struct Object<'a> {
    output: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    /// Writes an object with the members that `fill` adds.
    pub(super) fn write(output: &'a mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
        output.push(b'{');
        fill(&mut Object { output, is_empty: true });
        output.push(b'}');
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.output.push(b',');
        }
        self.is_empty = false;
        self.output.push(b'"');
        self.output.extend_from_slice(name.as_bytes());
        self.output.extend_from_slice(b"\":");
        self.output
    }

    /// Writes an unsigned integer, as a string if it is above 2^53 - 1.
    pub(super) fn number(&mut self, name: &str, value: impl Into<u64>) {
        write_number(self.name(name), value.into());
    }

    /// Writes a length or a count that is a `usize`.
    pub(super) fn count(&mut self, name: &str, value: usize) {
        self.number(name, value as u64);
    }

    /// Writes a duration in milliseconds, exact to the nanosecond.
    pub(super) fn milliseconds(&mut self, name: &str, value: Duration) {
        write_milliseconds(self.name(name), value);
    }

    /// Writes a floating-point number. Infinity and NaN are omitted.
    pub(super) fn float(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            // `Display` writes the shortest form that parses back to the same number.
            self.name(name).extend_from_slice(value.to_string().as_bytes());
        }
    }

    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        self.name(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes `null`, for a value that no longer exists.
    pub(super) fn null(&mut self, name: &str) {
        self.name(name).extend_from_slice(b"null");
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        write_text(self.name(name), value);
    }

    /// Writes bytes as lowercase hexadecimal digits.
    pub(super) fn hex(&mut self, name: &str, bytes: &[u8]) {
        write_hex(self.name(name), bytes);
    }

    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.name(name), fill);
    }

    pub(super) fn array(&mut self, name: &str, fill: impl FnOnce(&mut Array<'_>)) {
        Array::write(self.name(name), fill);
    }
}

/// An array that is being written.
#[derive(Debug)]
pub(super) struct Array<'a> {
    output: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Array<'a> {
    fn write(output: &'a mut Vec<u8>, fill: impl FnOnce(&mut Array<'_>)) {
        output.push(b'[');
        fill(&mut Array { output, is_empty: true });
        output.push(b']');
    }

    fn element(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.output.push(b',');
        }
        self.is_empty = false;
        self.output
    }

    pub(super) fn number(&mut self, value: u64) {
        write_number(self.element(), value);
    }

    pub(super) fn text(&mut self, value: &str) {
        write_text(self.element(), value);
    }

    pub(super) fn hex(&mut self, bytes: &[u8]) {
        write_hex(self.element(), bytes);
    }

    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.element(), fill);
    }

    pub(super) fn array(&mut self, fill: impl FnOnce(&mut Array<'_>)) {
        Array::write(self.element(), fill);
    }
}

fn write_number(output: &mut Vec<u8>, value: u64) {
    if value > MAX_SAFE_INTEGER {
        output.push(b'"');
        write_digits(output, value, 1);
        output.push(b'"');
    } else {
        write_digits(output, value, 1);
    }
}

/// Writes decimal digits, padded with leading zeros to `minimum` digits (20 at most).
fn write_digits(output: &mut Vec<u8>, value: u64, minimum: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = value;
    let mut length: usize = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' | (rest % 10) as u8;
        rest /= 10;
        length = length.saturating_add(1);
        if rest == 0 {
            break;
        }
    }
    let start = digits.len().saturating_sub(length.max(minimum));
    output.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Writes milliseconds with as many decimals as the nanoseconds need.
fn write_milliseconds(output: &mut Vec<u8>, value: Duration) {
    const NANOSECONDS_PER_MILLISECOND: u32 = 1_000_000;
    let milliseconds = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
    let fraction = value.subsec_nanos() % NANOSECONDS_PER_MILLISECOND;
    write_digits(output, milliseconds, 1);
    if fraction != 0 {
        output.push(b'.');
        write_digits(output, u64::from(fraction), 6);
        while output.last() == Some(&b'0') {
            output.pop();
        }
    }
}

fn write_hex(output: &mut Vec<u8>, bytes: &[u8]) {
    output.push(b'"');
    for byte in bytes {
        output.push(hex_digit(byte >> 4));
        output.push(hex_digit(byte & 0x0f));
    }
    output.push(b'"');
}

fn hex_digit(value: u8) -> u8 {
    HEX_DIGITS.get(usize::from(value)).copied().unwrap_or(b'0')
}

/// Writes a string, escaped as RFC 8259 §7 requires. A record never contains a line break or the
/// record separator, because control characters are escaped. Other characters that could change how
/// a terminal shows the log are escaped, too.
fn write_text(output: &mut Vec<u8>, text: &str) {
    if !text.is_ascii() || text.contains('\u{7f}') {
        let mut quoted = Vec::with_capacity(text.len().saturating_add(2));
        write_bytes(&mut quoted, text);
        // Only ASCII characters were added, so the text is still valid UTF-8.
        let quoted = String::from_utf8(quoted).unwrap_or_default();
        output.extend_from_slice(escaped(&quoted).as_bytes());
    } else {
        write_bytes(output, text);
    }
}

fn write_bytes(output: &mut Vec<u8>, text: &str) {
    output.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => output.extend_from_slice(b"\\\""),
            b'\\' => output.extend_from_slice(b"\\\\"),
            b'\n' => output.extend_from_slice(b"\\n"),
            b'\r' => output.extend_from_slice(b"\\r"),
            b'\t' => output.extend_from_slice(b"\\t"),
            0..=0x1f => {
                output.extend_from_slice(b"\\u00");
                output.push(hex_digit(byte >> 4));
                output.push(hex_digit(byte & 0x0f));
            }
            _ => output.push(byte),
        }
    }
    output.push(b'"');
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
