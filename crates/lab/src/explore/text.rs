//! Reads a `Debug` text while it is written, in whatever pieces it comes.

/// What decides how numbers are told apart: of `structure` the `field`.
type UnitOf<U> = fn(structure: &str, field: &str) -> U;

/// What holds a single number, or several that are of a kind.
const WRAPPERS: [&str; 4] = ["Timestamp", "ReleaseTime", "SendIndex", "Rate"];

/// Something that is said in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// A name, of whatever it is.
    Word(&'a str),
    /// A whole number in one of the [`WRAPPERS`].
    Wrapped(&'static str, u64),
    Number(u64),
    /// A number with a decimal point, in tenths.
    Tenths(u64),
    /// Nanoseconds.
    Duration(u64),
}

/// Where in a text the reader is.
pub(super) struct Text<U> {
    unit_of: UnitOf<U>,
    /// The unit of the field at hand.
    unit: U,
    /// The unit whose fields are not read.
    left_out: U,
    /// If such a field is at hand, how deep it is.
    skipped_at: Option<usize>,
    /// What the last word would be, according to what follows it: a field, a structure, or a wrapper.
    as_field: U,
    last_word: Word,
    /// The structures that are open.
    structures: Vec<Word>,
    /// How many brackets are open.
    depth: usize,
    wrapper: Option<&'static str>,
    number: Option<Number>,
}

/// The beginning of a name: enough to know it again.
#[derive(Clone, Copy)]
struct Word {
    bytes: [u8; Self::LONGEST],
    length: usize,
}

#[derive(Clone, Copy)]
struct Number {
    whole: u64,
    /// The digits after the point, and how many; none without a point.
    fraction: Option<(u64, u32)>,
}

impl<U: Copy + PartialEq> Text<U> {
    /// At the beginning of a text whose fields have units by `unit_of`, and `standard` without one.
    pub(super) fn new(unit_of: UnitOf<U>, standard: U, left_out: U) -> Self {
        Self {
            unit_of,
            unit: standard,
            left_out,
            skipped_at: None,
            as_field: standard,
            last_word: Word::of(""),
            structures: Vec::with_capacity(8),
            depth: 0,
            wrapper: None,
            number: None,
        }
    }

    /// Reads a part of `piece`, which is not empty. Gives what is complete with it, and what is left of the piece.
    pub(super) fn take<'a>(&mut self, piece: &'a str) -> (Option<(U, Value<'a>)>, &'a str) {
        let (value, rest) = self.read(piece);
        let value = value.filter(|_| self.skipped_at.is_none());
        (value.map(|value| (self.unit, value)), rest)
    }

    fn read<'a>(&mut self, piece: &'a str) -> (Option<Value<'a>>, &'a str) {
        let first = piece.as_bytes()[0];
        if first.is_ascii_digit() {
            let (digits, rest) = run(piece, |byte| byte.is_ascii_digit());
            self.digits(digits);
            return (None, rest);
        }
        if let Some(number) = self.number {
            if first == b'.' && number.fraction.is_none() {
                self.number = Some(Number { fraction: Some((0, 0)), ..number });
                return (None, &piece[1..]);
            }
            self.number = None;
            let (suffix, rest) = run(piece, is_of_word);
            return match nanoseconds(suffix) {
                Some(unit) => (Some(Value::Duration(number.times(unit))), rest),
                None => (Some(self.plain(number)), piece),
            };
        }
        if is_of_word(first) {
            let (word, rest) = run(piece, is_of_word);
            self.word(word);
            return (Some(Value::Word(word)), rest);
        }
        // Not part of a word, hence a character of a single byte.
        self.punctuation(first);
        (None, &piece[1..])
    }

    fn digits(&mut self, digits: &str) {
        let number = self.number.get_or_insert(Number { whole: 0, fraction: None });
        for digit in digits.bytes().map(|byte| u64::from(byte - b'0')) {
            match &mut number.fraction {
                None => number.whole = number.whole.wrapping_mul(10).wrapping_add(digit),
                // As fine as nanoseconds.
                Some((fraction, count)) if *count < 9 => {
                    *fraction = *fraction * 10 + digit;
                    *count += 1;
                }
                Some(_) => {}
            }
        }
    }

    fn plain(&self, number: Number) -> Value<'static> {
        match (number.fraction, self.wrapper) {
            (Some(_), _) => Value::Tenths(number.times(10)),
            (None, Some(wrapper)) => Value::Wrapped(wrapper, number.whole),
            (None, None) => Value::Number(number.whole),
        }
    }

    fn word(&mut self, word: &str) {
        if self.skipped_at.is_some() {
            return;
        }
        if word.as_bytes()[0].is_ascii_lowercase() {
            let structure = self.structures.last().map_or("", Word::text);
            self.as_field = (self.unit_of)(structure, word);
        }
        self.last_word = Word::of(word);
    }

    fn punctuation(&mut self, sign: u8) {
        match sign {
            b'(' | b'[' | b'{' => {
                self.depth += 1;
                if self.skipped_at.is_some() {
                    return;
                }
                let word = self.last_word.text();
                match sign {
                    b'(' => self.wrapper = WRAPPERS.into_iter().find(|wrapper| *wrapper == word),
                    b'{' => self.structures.push(self.last_word),
                    _ => {}
                }
                self.last_word = Word::of("");
            }
            b')' | b']' | b'}' => {
                self.depth = self.depth.saturating_sub(1);
                self.wrapper = None;
                if self.skipped_at.is_some_and(|depth| self.depth < depth) {
                    self.skipped_at = None;
                }
                if self.skipped_at.is_none() && sign == b'}' {
                    self.structures.pop();
                }
            }
            b',' if self.skipped_at == Some(self.depth) => self.skipped_at = None,
            b':' if self.skipped_at.is_none() => {
                self.unit = self.as_field;
                if self.unit == self.left_out {
                    self.skipped_at = Some(self.depth);
                }
            }
            _ => {}
        }
    }
}

impl Word {
    const LONGEST: usize = 31;

    fn of(word: &str) -> Self {
        let mut bytes = [0; Self::LONGEST];
        let length = word.len().min(Self::LONGEST);
        bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
        Self { bytes, length }
    }

    /// Names of types are ASCII; anything else is nobody's name.
    fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }
}

impl Number {
    /// In parts of which `unit` make one.
    fn times(self, unit: u64) -> u64 {
        let (fraction, digits) = self.fraction.unwrap_or((0, 0));
        let part = u128::from(fraction) * u128::from(unit) / 10_u128.pow(digits);
        self.whole.wrapping_mul(unit).wrapping_add(part as u64)
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

/// The beginning of `text` whose bytes are such, and the rest.
fn run(text: &str, is_such: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !is_such(byte)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests;
