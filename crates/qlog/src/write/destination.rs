use core::fmt;
use std::io::{self, Write};

use super::admission::Room;
use super::writing_thread::{Handed, QueuedLog};

/// The destination of a log's records.
pub(super) enum Destination {
    /// The records are held in memory until it is decided whether the connection gets a log.
    Held(Room),
    /// The records are written synchronously, within the connection's calls.
    Direct(Box<dyn Write + Send>),
    /// A separate thread writes the records.
    Queued(QueuedLog),
}

impl Destination {
    /// Passes on `count` complete records, either all or none of them. With `must`, they are
    /// accepted even if there is no room.
    ///
    /// # Errors
    /// Returns the operating system's error, if the records are written synchronously.
    pub(super) fn hand_over(
        &mut self,
        records: &[u8],
        count: u64,
        must: bool,
    ) -> io::Result<Handed> {
        match self {
            Self::Direct(writer) => {
                writer.write_all(records).and_then(|()| writer.flush())?;
                Ok(Handed::Over)
            }
            Self::Queued(log) => Ok(log.hand_over(records, count, must)),
            Self::Held(_) => Ok(Handed::Dropped),
        }
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held(_) => "Held",
            Self::Direct(_) => "Direct",
            Self::Queued(_) => "Queued",
        })
    }
}
