//! Handling of foreign text, that is, text from a peer, a file, another process or the environment.
//!
//! Such text can contain characters that change what a terminal, a log or a page shows: control
//! characters, characters that reorder text, and invisible characters. [`Foreign`] prints text
//! without them, on one line of bounded length. [`escaped`] and [`escaped_lines`] do the same
//! without limiting the length. All output of Clearway's programs passes through one of these
//! three.
//!
//! Harmful characters are replaced by JSON escape sequences (RFC 8259 §7), so that JSON remains
//! valid and keeps its meaning.
//!
//! ```
//! use clearway_units::foreign::Foreign;
//!
//! let name = "evil\u{1b}[2J\nname";
//! assert_eq!(format!("process {}", Foreign(name)), r"process evil\u001b[2J\nname");
//! ```

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// The maximum length of escaped [`Foreign`] text in bytes.
pub const MAX_LENGTH: usize = 1024;

/// Foreign text, displayed on one line: harmful characters are escaped, and text beyond
/// [`MAX_LENGTH`] bytes is cut off and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign<T>(pub T);

impl<T: Display> Foreign<T> {
    /// Limits the text to `bytes` bytes.
    pub fn within(self, bytes: usize) -> Limited<T> {
        Limited { text: self.0, bytes, is_quoted: false }
    }

    /// Puts the text in quotation marks. Quotation marks and backslashes in the text are escaped,
    /// so that its end is unambiguous.
    pub fn quoted(self) -> Limited<T> {
        Limited { text: self.0, bytes: MAX_LENGTH, is_quoted: true }
    }
}

impl<T: Display> Display for Foreign<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Foreign(&self.0).within(MAX_LENGTH).fmt(formatter)
    }
}

/// [`Foreign`] text with a custom length limit, or in quotation marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limited<T> {
    text: T,
    bytes: usize,
    is_quoted: bool,
}

impl<T: Display> Display for Limited<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.is_quoted { "\"" } else { "" };
        formatter.write_str(quote)?;
        let mut cutter =
            Cutter { output: formatter, left: self.bytes, missing: 0, is_quoted: self.is_quoted };
        write!(cutter, "{}", self.text)?;
        let missing = cutter.missing;
        if missing > 0 {
            write!(formatter, "… ({missing} more bytes)")?;
        }
        formatter.write_str(quote)
    }
}

/// Writes escaped text until its limit is reached, and counts the rest.
struct Cutter<'a, 'b> {
    output: &'a mut fmt::Formatter<'b>,
    left: usize,
    missing: usize,
    is_quoted: bool,
}

impl Write for Cutter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (at, character) in text.char_indices() {
            if self.missing == 0 {
                let piece = Piece::of(character, self.is_quoted, false);
                if let Some(left) = self.left.checked_sub(piece.as_str().len()) {
                    self.left = left;
                    self.output.write_str(piece.as_str())?;
                    continue;
                }
            }
            self.missing = self.missing.saturating_add(text.len().saturating_sub(at));
            break;
        }
        Ok(())
    }
}

/// Escapes everything that would change how a terminal shows the rest of the text: control
/// characters (including line feeds), and characters that reorder or hide other characters
/// (Unicode's bidirectional controls, line and paragraph separators, and invisible characters).
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// Like [`escaped`], but keeps line feeds and tabs, for text with intentional line breaks.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, true)
}

fn escape(text: &str, has_lines: bool) -> Cow<'_, str> {
    if !text.chars().any(|character| is_harmful(character, has_lines)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        safe.push_str(Piece::of(character, false, has_lines).as_str());
    }
    Cow::Owned(safe)
}

/// A character in its printed form.
struct Piece {
    bytes: [u8; 12],
    length: usize,
}

impl Piece {
    fn of(character: char, is_quoted: bool, has_lines: bool) -> Self {
        let mut piece = Self { bytes: [0; 12], length: 0 };
        match character {
            '"' | '\\' if is_quoted => piece.push_all(&[b'\\', character as u8]),
            _ if !is_harmful(character, has_lines) => {
                piece.push_all(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            '\n' => piece.push_all(b"\\n"),
            '\r' => piece.push_all(b"\\r"),
            '\t' => piece.push_all(b"\\t"),
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| piece.push_unit(*unit)),
        }
        piece
    }

    fn push_all(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Appends the escape sequence for a UTF-16 code unit, which takes six bytes; a character has
    /// at most two code units.
    fn push_unit(&mut self, unit: u16) {
        self.push_all(b"\\u");
        for shift in [12, 8, 4, 0] {
            let digit = char::from_digit(u32::from(unit >> shift) & 0xf, 16).unwrap_or('0');
            self.push_all(&[digit as u8]);
        }
    }

    fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

fn is_harmful(character: char, has_lines: bool) -> bool {
    if has_lines && matches!(character, '\n' | '\t') {
        return false;
    }
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::{Foreign, MAX_LENGTH, escaped, escaped_lines};

    const ATTACK: &str = "a\u{1b}[2J\nb\u{202e}c\u{2066}d\u{200b}\u{9b}\u{7f}\u{e0041}\u{2028}";
    const SAFE: &str = r"a\u001b[2J\nb\u202ec\u2066d\u200b\u009b\u007f\udb40\udc41\u2028";

    #[test]
    fn what_reorders_or_hides_text_is_escaped() {
        assert_eq!(escaped(ATTACK), SAFE);
        assert_eq!(escaped_lines(ATTACK), SAFE.replace("\\n", "\n"));
        assert_eq!(Foreign(ATTACK).to_string(), SAFE);
    }

    #[test]
    fn other_text_is_not_changed() {
        for text in ["", "Grüße, 世界 🦀", "\"quoted\" \\ text"] {
            assert!(matches!(escaped(text), std::borrow::Cow::Borrowed(same) if same == text));
            assert_eq!(Foreign(text).to_string(), text);
        }
    }

    #[test]
    fn quoted_text_cannot_end_its_quotation() {
        assert_eq!(Foreign("a\" 200 \\ü\n").quoted().to_string(), r#""a\" 200 \\ü\n""#);
    }

    #[test]
    fn text_is_cut_after_it_is_escaped() {
        let all = "x".repeat(MAX_LENGTH);
        assert_eq!(Foreign(&all).to_string(), all);
        assert_eq!(Foreign(format!("{all}\nyz")).to_string(), format!("{all}… (3 more bytes)"));
        let escapes = Foreign("\u{1b}".repeat(100_000)).to_string();
        assert!(escapes.len() < MAX_LENGTH + 30, "{}", escapes.len());
        assert_eq!(Foreign("abcdef").within(3).to_string(), "abc… (3 more bytes)");
        // The limit also applies to text that is formatted in several parts.
        let parts = Foreign(format_args!("{}{}{}", "ab", "cd", "ef")).within(3).to_string();
        assert_eq!(parts, "abc… (3 more bytes)");
    }

    /// The escape sequences are those of JSON, so an escaped JSON object has the same meaning.
    #[test]
    fn json_keeps_its_meaning() {
        let json = "{\"name\":\"\u{9b}\u{7f}\u{202e}\u{e0041}\"}";
        let safe = escaped(json);
        assert_eq!(safe, r#"{"name":"\u009b\u007f\u202e\udb40\udc41"}"#);
    }
}
