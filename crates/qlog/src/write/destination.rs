use core::fmt;
use std::io::{self, Write};

use super::admission::Room;
use super::writing_thread::{Handed, QueuedLog};

/// Where the records of a log go.
pub(super) enum Destination {
    /// Nowhere yet: they are held until it is decided whether the connection gets a log.
    Held(Room),
    /// They are written within the connection's calls.
    Direct(Box<dyn Write + Send>),
    /// A thread writes them.
    Queued(QueuedLog),
}

impl Destination {
    /// Passes on `count` whole records, all or none. With `must`, they are always accepted.
    ///
    /// # Errors
    /// Those of the operating system, if records are written at once.
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
