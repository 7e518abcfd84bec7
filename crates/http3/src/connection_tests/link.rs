//! Two connected in-memory transports.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes};

use crate::{Code, DatagramError, ReadEnd, Role, Transport, WriteError};

/// The maximum datagram size of the link, in bytes.
pub(super) const LARGEST_DATAGRAM: usize = 1000;

/// One direction of one stream.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) data: VecDeque<Bytes>,
    pub(super) finished: bool,
    pub(super) reset: Option<u64>,
    pub(super) stopped: Option<u64>,
    /// Whether the reader has seen the end or the reset.
    pub(super) end_is_known: bool,
    /// Whether the last write accepted less data than it was given.
    pub(super) is_blocked: bool,
}

impl Half {
    pub(super) fn waiting(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}

/// The state that both endpoints share. Streams are keyed by their ID and their sender.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) halves: BTreeMap<(u64, bool), Half>,
    opened: [u64; 4],
    accepted: [u64; 4],
    /// Number of additional streams of each kind that may be opened.
    pub(super) allowed: [u64; 4],
    pub(super) closed: Option<(u64, String)>,
    /// The stream priorities that were set, by stream and sender.
    pub(super) priorities: BTreeMap<(u64, bool), (i32, bool)>,
    /// DATAGRAM frames in transit, keyed by whether the server sent them.
    pub(super) datagrams: BTreeMap<bool, VecDeque<Bytes>>,
    /// Set for tests of the HTTP/3 layer: panics if it uses a part of a stream that it has ended,
    /// and records the error code of every reset and stop that it requests, even if they have no
    /// effect.
    pub(super) is_strict: bool,
    /// The maximum sizes of successive reads and writes, used in turn.
    pub(super) sizes: Vec<usize>,
    turn: usize,
    /// The maximum number of unread bytes per half.
    pub(super) window: usize,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            halves: BTreeMap::new(),
            opened: [0; 4],
            accepted: [0; 4],
            allowed: [1 << 30; 4],
            closed: None,
            priorities: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            is_strict: true,
            sizes: vec![usize::MAX],
            turn: 0,
            window: 1 << 20,
        }
    }
}

impl Link {
    /// Creates a link that splits data into `sizes` and holds `window` bytes per direction.
    pub(super) fn narrow(sizes: Vec<usize>, window: usize) -> Self {
        Self { sizes, window, ..Self::default() }
    }

    pub(super) fn end(&mut self, role: Role) -> End<'_> {
        End { link: self, is_server: role == Role::Server }
    }

    fn size(&mut self) -> usize {
        self.turn += 1;
        self.sizes[self.turn % self.sizes.len()]
    }

    /// Returns the streams that exist.
    pub(super) fn streams(&self) -> Vec<u64> {
        let mut streams: Vec<u64> = self.halves.keys().map(|key| key.0).collect();
        streams.dedup();
        streams
    }

    pub(super) fn half(&mut self, stream: u64, is_server: bool) -> &mut Half {
        self.halves.entry((stream, is_server)).or_default()
    }

    /// Returns how many streams of each kind exist.
    pub(super) fn opened(&self) -> [u64; 4] {
        self.opened
    }

    /// Records that the reader of a half has seen the half's end. When both halves have ended, the
    /// peer may open another stream.
    fn end_is_known(&mut self, stream: u64, is_server: bool) {
        let half = self.half(stream, is_server);
        if !core::mem::replace(&mut half.end_is_known, true) {
            let halves = self.halves.range((stream, false)..=(stream, true));
            if halves.into_iter().all(|(_, half)| half.end_is_known) {
                self.allowed[(stream % 4) as usize] += 1;
            }
        }
    }
}

/// One side of a [`Link`].
pub(super) struct End<'a> {
    pub(super) link: &'a mut Link,
    is_server: bool,
}

/// The result of reading a stream that does not exist.
const GONE: ReadEnd = ReadEnd::Reset(Code::REQUEST_CANCELLED.get());

impl End<'_> {
    /// Returns the sending part of a stream that accepts data.
    fn sending(&mut self, stream: u64) -> Result<&mut Half, WriteError> {
        if self.link.closed.is_some() {
            return Err(WriteError::Closed);
        }
        let half = self.link.halves.get_mut(&(stream, self.is_server)).ok_or(WriteError::Closed)?;
        match (half.stopped, half.reset) {
            (Some(code), _) => Err(WriteError::Stopped(code)),
            (None, Some(_)) => Err(WriteError::Closed),
            (None, None) => Ok(half),
        }
    }

    fn open(&mut self, kind: u64) -> Option<u64> {
        if self.link.closed.is_some() { None } else { self.create(kind) }
    }

    /// Opens a stream of the kind given by the last two bits of the ID, even if the connection is
    /// closed.
    pub(super) fn create(&mut self, kind: u64) -> Option<u64> {
        let place = kind as usize;
        self.link.allowed[place] = self.link.allowed[place].checked_sub(1)?;
        let stream = self.link.opened[place] * 4 + kind;
        self.link.opened[place] += 1;
        self.link.half(stream, self.is_server);
        if kind < 2 {
            self.link.half(stream, !self.is_server);
        }
        Some(stream)
    }

    fn accept(&mut self, kind: u64) -> Option<u64> {
        let place = kind as usize;
        if self.link.accepted[place] == self.link.opened[place] {
            return None;
        }
        self.link.accepted[place] += 1;
        Some((self.link.accepted[place] - 1) * 4 + kind)
    }
}

impl Transport for End<'_> {
    fn open_bidirectional(&mut self) -> Option<u64> {
        self.open(u64::from(self.is_server))
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.open(2 + u64::from(self.is_server))
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.accept(u64::from(!self.is_server))
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.accept(2 + u64::from(!self.is_server))
    }

    fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError> {
        let limit = self.link.size();
        let (window, is_strict) = (self.link.window, self.link.is_strict);
        let half = self.sending(stream)?;
        assert!(!is_strict || !half.finished, "written after its end");
        if half.finished {
            return Err(WriteError::Closed);
        }
        let taken = data.len().min(limit).min(window.saturating_sub(half.waiting()));
        half.is_blocked |= taken < data.len();
        if taken > 0 {
            half.data.push_back(data.slice(..taken));
        }
        Ok(taken)
    }

    fn finish(&mut self, stream: u64) -> Result<(), WriteError> {
        let is_strict = self.link.is_strict;
        let half = self.sending(stream)?;
        assert!(!is_strict || !half.finished, "finished twice");
        if core::mem::replace(&mut half.finished, true) {
            return Err(WriteError::Closed);
        }
        Ok(())
    }

    fn reset(&mut self, stream: u64, code: u64) {
        let is_strict = self.link.is_strict;
        let Some(half) = self.link.halves.get_mut(&(stream, self.is_server)) else { return };
        if is_strict || !half.end_is_known {
            half.reset.get_or_insert(code);
            half.data.clear();
        }
    }

    fn stop_sending(&mut self, stream: u64, code: u64) {
        let is_strict = self.link.is_strict;
        let Some(half) = self.link.halves.get_mut(&(stream, !self.is_server)) else { return };
        if is_strict || !half.end_is_known {
            half.stopped.get_or_insert(code);
            half.data.clear();
        }
    }

    fn read(&mut self, stream: u64, max: usize) -> Result<Option<Bytes>, ReadEnd> {
        let limit = self.link.size().min(max);
        let (is_closed, is_strict) = (self.link.closed.is_some(), self.link.is_strict);
        let Some(half) = self.link.halves.get_mut(&(stream, !self.is_server)) else {
            return Err(GONE);
        };
        assert!(!is_strict || half.stopped.is_none(), "read after stop_sending");
        if let Some(code) = half.reset {
            self.link.end_is_known(stream, !self.is_server);
            return Err(ReadEnd::Reset(code));
        }
        let Some(front) = half.data.front_mut() else {
            if half.finished {
                self.link.end_is_known(stream, !self.is_server);
                return Err(ReadEnd::Finished);
            }
            return if is_closed { Err(GONE) } else { Ok(None) };
        };
        if limit == 0 {
            return Ok(None);
        }
        let chunk = front.split_to(limit.min(front.len()));
        if !front.has_remaining() {
            half.data.pop_front();
        }
        Ok(Some(chunk))
    }

    fn set_priority(&mut self, stream: u64, priority: i32, is_incremental: bool) {
        self.link.priorities.insert((stream, self.is_server), (priority, is_incremental));
    }

    /// In this transport, data counts as acknowledged once it has been read.
    fn unacknowledged(&mut self, stream: u64) -> Option<u64> {
        Some(self.link.halves.get(&(stream, self.is_server))?.waiting() as u64)
    }

    fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        if data.len() > LARGEST_DATAGRAM {
            return Err(DatagramError::TooLarge { maximum: LARGEST_DATAGRAM });
        }
        self.link.datagrams.entry(self.is_server).or_default().push_back(data);
        Ok(())
    }

    fn receive_datagram(&mut self) -> Option<Bytes> {
        self.link.datagrams.get_mut(&!self.is_server)?.pop_front()
    }

    fn max_datagram(&self) -> Option<usize> {
        Some(LARGEST_DATAGRAM)
    }

    fn close(&mut self, code: u64, reason: &str) {
        self.link.closed.get_or_insert((code, reason.to_owned()));
    }
}
