//! Parsing of structured fields (RFC 8941): dictionaries and items. Only integers and booleans are
//! returned. All other values are validated and skipped, since one error makes the entire field
//! invalid (§4.2).

/// The value of a dictionary member or an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Integer(i64),
    Boolean(bool),
    /// A decimal, string, token, byte sequence or inner list.
    Other,
}

/// The field cannot be parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Invalid;

/// Parses a dictionary (§4.2.2), and calls `member` for each member, in order. A later member
/// replaces an earlier one with the same key.
pub(crate) fn dictionary(
    field: &[u8],
    mut member: impl FnMut(&[u8], Value),
) -> Result<(), Invalid> {
    let mut input = Input(field);
    input.skip(b" ");
    while !input.is_empty() {
        let key = input.key()?;
        let value =
            if input.take(b'=') { input.item_or_inner_list()? } else { Value::Boolean(true) };
        input.parameters()?;
        member(key, value);
        input.skip(b" \t");
        if input.is_empty() {
            return Ok(());
        }
        if !input.take(b',') {
            return Err(Invalid);
        }
        input.skip(b" \t");
        if input.is_empty() {
            // A comma must be followed by a member.
            return Err(Invalid);
        }
    }
    Ok(())
}

/// Parses an item (§4.2.3); its parameters are validated and ignored.
pub(crate) fn item(field: &[u8]) -> Result<Value, Invalid> {
    let mut input = Input(field);
    input.skip(b" ");
    let value = input.bare_item()?;
    input.parameters()?;
    input.skip(b" ");
    if input.is_empty() { Ok(value) } else { Err(Invalid) }
}

/// The unparsed remainder of a field.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Consumes the next byte if it is `byte`. Returns whether it was.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.next();
        }
        is_next
    }

    /// Consumes and returns bytes while `is_part` returns true.
    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_part(*byte)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at_checked(end).unwrap_or((self.0, &[]));
        self.0 = rest;
        part
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    /// Parses a key (§4.2.3.3).
    fn key(&mut self) -> Result<&'a [u8], Invalid> {
        match self.peek() {
            Some(b'a'..=b'z' | b'*') => Ok(self.take_while(
                |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
            )),
            _ => Err(Invalid),
        }
    }

    /// Parses parameters (§4.2.3.2).
    fn parameters(&mut self) -> Result<(), Invalid> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Ok(())
    }

    /// Parses an item, without its parameters, or an inner list (§4.2.1.2).
    fn item_or_inner_list(&mut self) -> Result<Value, Invalid> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Ok(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(Invalid);
            }
        }
    }

    /// Parses a bare item (§4.2.3.1).
    fn bare_item(&mut self) -> Result<Value, Invalid> {
        match self.peek().ok_or(Invalid)? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                // A token consists of tchar, ":" and "/" (§4.2.6).
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Ok(Value::Other)
            }
            b':' => self.byte_sequence(),
            b'?' => {
                self.next();
                match self.next() {
                    Some(b'1') => Ok(Value::Boolean(true)),
                    Some(b'0') => Ok(Value::Boolean(false)),
                    _ => Err(Invalid),
                }
            }
            _ => Err(Invalid),
        }
    }

    /// Parses an integer of up to 15 digits, or a decimal of up to 12 digits, a point and up to 3
    /// digits (§4.2.4).
    fn number(&mut self) -> Result<Value, Invalid> {
        let is_negative = self.take(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return Err(Invalid);
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let is_valid = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return if is_valid { Ok(Value::Other) } else { Err(Invalid) };
        }
        if digits.len() > 15 {
            return Err(Invalid);
        }
        let number = digits.iter().fold(0i64, |number, digit| {
            number.saturating_mul(10).saturating_add(i64::from(digit.wrapping_sub(b'0')))
        });
        Ok(Value::Integer(if is_negative { number.saturating_neg() } else { number }))
    }

    /// Parses a string (§4.2.5).
    fn string(&mut self) -> Result<Value, Invalid> {
        self.next();
        loop {
            match self.next().ok_or(Invalid)? {
                b'"' => return Ok(Value::Other),
                b'\\' if matches!(self.next(), Some(b'"' | b'\\')) => {}
                b'\\' => return Err(Invalid),
                b' '..=b'~' => {}
                _ => return Err(Invalid),
            }
        }
    }

    /// Parses a byte sequence (§4.2.7).
    fn byte_sequence(&mut self) -> Result<Value, Invalid> {
        self.next();
        self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        if self.take(b':') { Ok(Value::Other) } else { Err(Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(field: &str) -> Option<Vec<(String, Value)>> {
        let mut members = Vec::new();
        dictionary(field.as_bytes(), |key, value| {
            members.push((String::from_utf8(key.to_vec()).unwrap(), value));
        })
        .ok()?;
        Some(members)
    }

    #[test]
    fn valid_dictionaries() {
        use Value::{Boolean, Integer, Other};
        for (field, expected) in [
            ("", &[][..]),
            ("  ", &[]),
            ("u=5, i", &[("u", Integer(5)), ("i", Boolean(true))]),
            ("  u=-5 \t,\t i=?0  ", &[("u", Integer(-5)), ("i", Boolean(false))]),
            ("a;x=1;y;*z=\"q\", b=(1 2;p \"x\")", &[("a", Boolean(true)), ("b", Other)]),
            (
                "a=1.5,b=tok/en:x,c=:YQ==:,d=\"\\\"\\\\\"",
                &[("a", Other), ("b", Other), ("c", Other), ("d", Other)],
            ),
            ("a=( ),b=999999999999999", &[("a", Other), ("b", Integer(999_999_999_999_999))]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
            assert_eq!(members(field), Some(expected), "{field}");
        }
    }

    #[test]
    fn invalid_dictionaries() {
        for field in [
            "u=",
            "u=5,",
            ",",
            "u=5 i",
            "U=5",
            "5",
            "u=5;",
            "u=5;;a",
            "u=?2",
            "u=?",
            "u=--1",
            "u=1.",
            "u=1.2345",
            "u=1234567890123.1",
            "u=1234567890123456",
            "u=\"",
            "u=\"\\x\"",
            "u=\"\u{e9}\"",
            "u=:a",
            "u=:!:",
            "u=(1",
            "u=(1\"x\")",
            "u=)",
            "\tu=5",
            "u =5",
            "-",
            "u=-",
        ] {
            assert_eq!(members(field), None, "{field}");
        }
    }

    #[test]
    fn items() {
        assert_eq!(item(b" ?1;a=b "), Ok(Value::Boolean(true)));
        assert_eq!(item(b"?1, ?1"), Err(Invalid));
        assert_eq!(item(b""), Err(Invalid));
        assert_eq!(item(b"x"), Ok(Value::Other));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = dictionary(&bytes, |_, _| {});
            let _ = item(&bytes);
        }

        #[test]
        fn likely_bytes_end(text in "[a-z0-9=,; ()\"?:.\\\\*-]{0,40}") {
            let _ = dictionary(text.as_bytes(), |_, _| {});
        }
    }
}
