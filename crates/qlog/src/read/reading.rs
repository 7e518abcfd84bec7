use core::fmt;
use std::collections::BTreeMap;

/// Distinct names of unused events that are counted; the rest is counted together.
const MAX_NAMES: usize = 256;

/// Characters of each text of a header that are kept.
const MAX_TEXT: usize = 1000;

/// What is known of a trace besides its events.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reading {
    /// Its title, or that of its file.
    pub title: Option<String>,
    /// Who wrote it, as it calls itself.
    pub writer: Option<String>,
    /// The connection, as the traces of both its ends call it: the client's first Destination Connection
    /// ID in lower-case hexadecimal digits.
    pub connection: Option<String>,
    /// Which end saw the events.
    pub vantage_point: VantagePoint,
    /// The format: the version or the schemas that the file names.
    pub dialect: String,
    /// How many events were read, used or not.
    pub events: u64,
    /// Events and records of which nothing is used, by name.
    pub unused: BTreeMap<String, u64>,
    /// Where the file is damaged, if it is: it was read to there.
    pub damage: Option<Damage>,
}

impl Reading {
    /// Truncates texts that are longer than any header needs: a file may contain many.
    pub(super) fn cut_off(&mut self) {
        let texts = [&mut self.title, &mut self.writer, &mut self.connection];
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

/// Which end a trace was written at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum VantagePoint {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Neither end.
    Network,
    /// The file does not contain it.
    #[default]
    Unknown,
}

impl VantagePoint {
    /// Its name in the drafts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Network => "network",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn of_name(name: &str) -> Self {
        match name {
            "client" => Self::Client,
            "server" => Self::Server,
            "network" => Self::Network,
            _ => Self::Unknown,
        }
    }
}

/// Where and how a file is damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// How many bytes of the decompressed file were read.
    pub offset: u64,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {}", self.why, self.offset)
    }
}
