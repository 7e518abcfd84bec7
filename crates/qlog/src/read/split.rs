use super::contained::Contained;
use super::lines::{Lines, RECORD_SEPARATOR};
use super::part::Part;
use super::reading::Damage;
use super::source::{OpenError, Source};
use super::window::Window;

/// Splits a qlog file into its parts.
#[derive(Debug)]
pub(super) enum Splitter {
    Lines(Lines),
    Contained(Box<Contained>),
}

impl Splitter {
    pub(super) fn new(source: Source) -> Result<Self, OpenError> {
        // No more data is read than necessary, because a file that is still being written may not
        // grow for a while.
        let mut window = Window::new(source);
        window.skip_byte_order_mark();
        let start = window.fill_until(|bytes| bytes.iter().position(|byte| !is_space(*byte)));
        let Some(first) = start.and_then(|start| window.bytes().get(start)).copied() else {
            return match window.take_failure() {
                Some(failure) => Err(OpenError::Io { path: None, source: failure }),
                None => Err(OpenError::Empty),
            };
        };
        window.skip(start.unwrap_or_default());
        match first {
            RECORD_SEPARATOR => Ok(Self::Lines(Lines::separated(window))),
            b'{' if first_line_is_a_record(&mut window) => Ok(Self::Lines(Lines::of_lines(window))),
            b'{' => Ok(Self::Contained(Box::new(Contained::new(window)))),
            _ => Err(OpenError::NotQlog {
                why: "the data starts with neither a JSON object nor a record separator".to_owned(),
            }),
        }
    }

    /// Returns the next part, or `None` at the end and after damage.
    pub(super) fn next(&mut self) -> Result<Option<Part<'_>>, Damage> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Contained(contained) => contained.next(),
        }
    }

    /// Returns whether the file has an array of traces or of events, as every contained qlog file
    /// does.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self, Self::Contained(contained) if contained.is_inside())
    }

    /// Returns the offset in the (decompressed) file at which the last part began, in bytes.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Lines(lines) => lines.offset(),
            Self::Contained(contained) => contained.offset(),
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Returns whether the first line is complete JSON, and not a contained file written in one line.
fn first_line_is_a_record(window: &mut Window) -> bool {
    #[derive(serde::Deserialize)]
    struct Line {
        traces: Option<serde::de::IgnoredAny>,
        /// The members of version 0.1.
        connections: Option<serde::de::IgnoredAny>,
        events: Option<serde::de::IgnoredAny>,
    }
    let Some(end) = window.fill_until(|bytes| memchr::memchr(b'\n', bytes)) else { return false };
    let line = window.bytes().get(..end).unwrap_or_default();
    serde_json::from_slice::<Line>(line).is_ok_and(|line| {
        line.traces.is_none() && line.connections.is_none() && line.events.is_none()
    })
}
