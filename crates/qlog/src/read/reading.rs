use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

/// The maximum number of distinct names of unused events that are counted; all others are counted
/// together.
const MAX_NAMES: usize = 256;

/// The maximum number of characters that are kept of each string in a header.
const MAX_TEXT: usize = 1000;

/// The information about a trace apart from its events.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// The title of the trace or of the file.
    pub title: Option<String>,
    /// The name that the writer of the trace gives itself.
    pub writer: Option<String>,
    /// The name of the connection in the trace (`group_id`), as written.
    pub group: Option<String>,
    /// The client's first Destination Connection ID as written, if the trace names it separately
    /// from the group (`ODCID`).
    pub original_destination_id: Option<String>,
    /// A name for the connection that is the same in the traces of both endpoints: the client's
    /// first Destination Connection ID in lowercase hexadecimal digits.
    pub connection: Option<String>,
    /// The endpoint that logged the events.
    pub vantage_point: VantagePoint,
    /// The format: the version or the schemas that the file names.
    pub dialect: String,
    /// The time of the first event since the Unix epoch, if the times or the reference time
    /// determine it.
    pub began: Option<Duration>,
    /// The number of events that were read, whether used or not.
    pub events: u64,
    /// The number of unused events and records, by name.
    pub unused: BTreeMap<String, u64>,
    /// The damage, if the file is damaged. The file was read up to that point.
    pub damage: Option<Damage>,
}

impl Reading {
    /// Truncates strings that are longer than any header needs, because a file may contain many
    /// headers.
    pub(super) fn cut_off(&mut self) {
        let texts = [
            &mut self.title,
            &mut self.writer,
            &mut self.group,
            &mut self.original_destination_id,
            &mut self.connection,
        ];
        let texts = texts.into_iter().flatten().chain([&mut self.dialect]);
        for text in texts {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
                text.shrink_to_fit();
            }
        }
    }

    pub(crate) fn count_unused(&mut self, name: &str) {
        if let Some(count) = self.unused.get_mut(name) {
            *count = count.saturating_add(1);
        } else if self.unused.len() < MAX_NAMES {
            self.unused.insert(name.chars().take(100).collect(), 1);
        } else {
            let others = self.unused.entry("(other names)".to_owned()).or_default();
            *others = others.saturating_add(1);
        }
    }
}

/// Where a trace was written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum VantagePoint {
    /// The trace was written at the client.
    Client,
    /// The trace was written at the server.
    Server,
    /// The trace was written in the network, between the endpoints.
    Network,
    /// The file does not state where the trace was written.
    #[default]
    Unknown,
}

impl VantagePoint {
    /// Returns the vantage point's name in the drafts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Network => "network",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        // Early drafts write the vantage point in upper case.
        match name.to_ascii_lowercase().as_str() {
            "client" => Self::Client,
            "server" => Self::Server,
            "network" => Self::Network,
            _ => Self::Unknown,
        }
    }
}

/// The location and kind of damage in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The number of bytes that were read, after decompression.
    pub offset: u64,
    /// A description of the damage.
    pub why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {}", self.why, self.offset)
    }
}
