//! The subset of structured fields (RFC 8941) that Proxy-Status needs: a list of items with
//! parameters.

/// A bare item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// A token or a string.
    Text(String),
    /// A number, a boolean or a byte sequence.
    Other,
}

/// A member of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub(super) value: Value,
    pub(super) parameters: Vec<(String, Value)>,
}

/// Parses a list (RFC 8941 §4.2.1). Inner lists are invalid here.
pub(super) fn members(field: &[u8]) -> Option<Vec<Member>> {
    let mut input = Input(field);
    let mut members = Vec::new();
    input.skip(b" ");
    while !input.0.is_empty() {
        let value = input.bare_item()?;
        members.push(Member { value, parameters: input.parameters()? });
        input.skip(b" \t");
        if input.0.is_empty() {
            return Some(members);
        }
        input.expect(b',')?;
        input.skip(b" \t");
        if input.0.is_empty() {
            // A comma must be followed by a member.
            return None;
        }
    }
    Some(members)
}

/// Returns whether the text is a token (RFC 8941 §3.3.4).
pub(super) fn is_token(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*');
    starts && text.bytes().all(is_token_byte)
}

/// Returns a string (RFC 8941 §3.3.3) with at most `limit` characters of the text.
pub(super) fn string(text: &str, limit: usize) -> String {
    let mut string = String::from("\"");
    for c in text.chars().take(limit) {
        match c {
            '"' | '\\' => string.extend(['\\', c]),
            ' '..='~' => string.push(c),
            _ => string.push('?'),
        }
    }
    string.push('"');
    string
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

/// The unparsed remainder of a field.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn skip(&mut self, bytes: &[u8]) {
        _ = self.take_while(|byte| bytes.contains(&byte));
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn take_while(&mut self, mut is_taken: impl FnMut(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_taken(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at_checked(end).unwrap_or_default();
        self.0 = rest;
        taken
    }

    /// Parses parameters (RFC 8941 §4.2.3.2). A later parameter replaces an earlier one.
    fn parameters(&mut self) -> Option<Vec<(String, Value)>> {
        let mut parameters: Vec<(String, Value)> = Vec::new();
        while self.0.first() == Some(&b';') {
            _ = self.next();
            self.skip(b" ");
            let key = self.key()?;
            let mut value = Value::Other;
            if self.0.first() == Some(&b'=') {
                _ = self.next();
                value = self.bare_item()?;
            }
            parameters.retain(|(earlier, _)| *earlier != key);
            parameters.push((key, value));
        }
        Some(parameters)
    }

    fn key(&mut self) -> Option<String> {
        if !self.0.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*') {
            return None;
        }
        let is_key = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        };
        Some(text(self.take_while(is_key)))
    }

    fn bare_item(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'"' => self.string().map(Value::Text),
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                Some(Value::Text(text(self.take_while(is_token_byte))))
            }
            byte if byte.is_ascii_digit() || byte == b'-' => self.number(),
            b'?' => {
                _ = self.next();
                b"01".contains(&self.next()?).then_some(Value::Other)
            }
            b':' => {
                _ = self.next();
                _ = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.expect(b':')?;
                Some(Value::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        if self.0.first() == Some(&b'-') {
            _ = self.next();
        }
        let digits = self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
        let points = digits.iter().filter(|byte| **byte == b'.').count();
        let is_number = digits.first().is_some_and(u8::is_ascii_digit)
            && digits.last().is_some_and(u8::is_ascii_digit)
            && points <= 1
            && digits.len() <= 16;
        is_number.then_some(Value::Other)
    }

    fn string(&mut self) -> Option<String> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(text(&bytes)),
                b'\\' => match self.next()? {
                    byte @ (b'"' | b'\\') => bytes.push(byte),
                    _ => return None,
                },
                byte @ b' '..=b'~' => bytes.push(byte),
                _ => return None,
            }
        }
    }
}

fn text(ascii: &[u8]) -> String {
    String::from_utf8_lossy(ascii).into_owned()
}
