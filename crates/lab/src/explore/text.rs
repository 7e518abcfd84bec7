//! Reads a `Debug` text.

/// What decides how numbers are told apart: of `structure` the `field`.
type UnitOf<U> = fn(structure: &str, field: &str) -> U;

/// What holds a single number, or several that are of a kind.
const WRAPPERS: [&str; 4] = ["Timestamp", "ReleaseTime", "SendIndex", "Rate"];
/// As many digits after a point are read.
const DIGITS: u32 = 6;

/// Something that is said in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// A name, but not of a field.
    Word(&'a str),
    /// A whole number in one of the [`WRAPPERS`].
    Wrapped(&'static str, u64),
    Number(u64),
    /// A number with a decimal point, in millionths.
    Millionths(u64),
    /// Nanoseconds.
    Duration(u64),
}

/// Where in a text the reader is.
pub(super) struct Text<'a, U> {
    text: &'a str,
    at: usize,
    unit_of: UnitOf<U>,
    /// The unit of the field at hand.
    unit: U,
    /// The unit whose fields are not read.
    left_out: U,
    /// The last word, which a bracket belongs to.
    word: &'a str,
    /// The structures that are open.
    structures: Vec<&'a str>,
    wrapper: Option<&'static str>,
}

impl<'a, U: Copy + PartialEq> Text<'a, U> {
    /// At the beginning of `text`, whose fields have units by `unit_of`, and `standard` without one.
    pub(super) fn new(text: &'a str, unit_of: UnitOf<U>, standard: U, left_out: U) -> Self {
        let structures = Vec::with_capacity(8);
        Self { text, at: 0, unit_of, unit: standard, left_out, word: "", structures, wrapper: None }
    }

    /// The byte at hand; zero at the end.
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// What follows as long as the bytes are such.
    fn run(&mut self, is_such: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let begin = self.at;
        self.at += rest.iter().position(|byte| !is_such(*byte)).unwrap_or(rest.len());
        &self.text[begin..self.at]
    }

    /// A whole number, and by which power of ten it is too large.
    fn digits(&mut self, most: u32) -> (u64, u32) {
        let (mut number, mut count) = (0_u64, 0);
        while self.byte().is_ascii_digit() {
            if count < most {
                number = number.wrapping_mul(10).wrapping_add(u64::from(self.byte() - b'0'));
                count += 1;
            }
            self.at += 1;
        }
        (number, count)
    }

    fn number(&mut self) -> Value<'a> {
        let (whole, _) = self.digits(u32::MAX);
        let mut fraction = None;
        if self.byte() == b'.' {
            self.at += 1;
            // Durations are written to the nanosecond.
            let (digits, count) = self.digits(9);
            fraction = Some(digits * 10_u64.pow(9 - count));
        }
        let suffix = self.run(is_of_word);
        let part = |unit: u64| {
            let part = u128::from(fraction.unwrap_or(0)) * u128::from(unit) / 1_000_000_000;
            whole.wrapping_mul(unit).wrapping_add(part as u64)
        };
        match (nanoseconds(suffix), fraction, self.wrapper) {
            (Some(unit), _, _) => Value::Duration(part(unit)),
            (None, Some(_), _) => Value::Millionths(part(10_u64.pow(DIGITS))),
            (None, None, Some(wrapper)) => Value::Wrapped(wrapper, whole),
            (None, None, None) => Value::Number(whole),
        }
    }

    /// Goes on to the end of a field that is left out.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.byte() {
                b'(' | b'[' | b'{' => depth += 1,
                b',' | b')' | b']' | b'}' | 0 if depth == 0 => return,
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn punctuation(&mut self, sign: u8) {
        self.at += 1;
        match sign {
            b'(' => self.wrapper = WRAPPERS.into_iter().find(|wrapper| *wrapper == self.word),
            b'{' => self.structures.push(self.word),
            b')' => self.wrapper = None,
            b'}' => {
                self.structures.pop();
            }
            _ => {}
        }
        if sign != b' ' {
            self.word = "";
        }
    }
}

impl<'a, U: Copy + PartialEq> Iterator for Text<'a, U> {
    type Item = (U, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let first = self.byte();
            match first {
                0 => return None,
                b'0'..=b'9' => {
                    let number = self.number();
                    return Some((self.unit, number));
                }
                _ if is_of_word(first) => {
                    self.word = self.run(is_of_word);
                    if self.byte() != b':' {
                        return Some((self.unit, Value::Word(self.word)));
                    }
                    let structure = self.structures.last().copied().unwrap_or("");
                    self.unit = (self.unit_of)(structure, self.word);
                    if self.unit == self.left_out {
                        self.skip();
                    }
                }
                sign => self.punctuation(sign),
            }
        }
    }
}

/// How `Debug` writes the unit of a duration.
fn nanoseconds(suffix: &str) -> Option<u64> {
    match suffix {
        "ns" => Some(1),
        "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        _ => None,
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests;
