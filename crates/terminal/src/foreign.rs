//! Text of others: of a peer, of a file, or the name of one.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes what would change how a terminal shows the rest of the text: control characters, and the characters that
/// reorder or hide others (Unicode's bidirectional controls, line and paragraph separators, and invisible ones).
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            // Writing to a string does not fail.
            let _ = write!(safe, "{}", character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_reorders_or_hides_text_is_escaped() {
        let attack = "a\u{1b}[2J\nb\u{202e}c\u{2066}d\u{200b}\u{9b}";
        assert_eq!(escaped(attack), r"a\u{1b}[2J\nb\u{202e}c\u{2066}d\u{200b}\u{9b}");
    }

    #[test]
    fn other_text_is_not_changed() {
        for text in ["", "Grüße, 世界 🦀", "\"quoted\" \\ text"] {
            assert!(matches!(escaped(text), std::borrow::Cow::Borrowed(same) if same == text));
        }
    }
}
