//! Checks that the in-memory transport used by the HTTP/3 tests fulfills the trait's contract.

use std::collections::{BTreeMap, BTreeSet};

use super::link::Link;
use crate::conformance::{CHUNK, Harness, Notice, STREAMS, check};
use crate::{Role, Transport};

/// The part of one endpoint's state that has already been reported.
#[derive(Default)]
struct Seen {
    opened: [u64; 4],
    /// For each stream, the number of unread bytes, whether the end has arrived, and the error code
    /// of a reset.
    receiving: BTreeMap<u64, (usize, bool, Option<u64>)>,
    stopped: BTreeSet<u64>,
    allowed: [u64; 4],
    is_closed: bool,
}

struct Memory {
    link: Link,
    seen: [Seen; 2],
}

impl Memory {
    fn new() -> Self {
        let allowed = [STREAMS as u64; 4];
        let mut link = Link::narrow(vec![usize::MAX], 4 * CHUNK);
        (link.allowed, link.is_strict) = (allowed, false);
        let seen = [(); 2].map(|()| Seen { allowed, ..Seen::default() });
        Self { link, seen }
    }
}

impl Harness for Memory {
    fn end(&mut self, role: Role, act: &mut dyn FnMut(&mut dyn Transport)) {
        act(&mut self.link.end(role));
    }

    fn deliver(&mut self) {}

    fn notices(&mut self, role: Role) -> Vec<Notice> {
        let is_server = role == Role::Server;
        let Self { link, seen } = self;
        let seen = &mut seen[usize::from(is_server)];
        let mut notices = Vec::new();
        let opened = link.opened();
        let theirs = [usize::from(!is_server), 2 + usize::from(!is_server)];
        if theirs.iter().any(|kind| opened[*kind] > seen.opened[*kind]) {
            notices.push(Notice::StreamsArrived);
        }
        seen.opened = opened;
        for (stream, sender_is_server) in link.halves.keys().copied().collect::<Vec<_>>() {
            let half = link.half(stream, sender_is_server);
            let has_room = half.data.is_empty();
            if sender_is_server == is_server {
                if let Some(code) = half.stopped
                    && seen.stopped.insert(stream)
                {
                    notices.push(Notice::Stopped { stream, code });
                }
                if half.is_blocked && has_room {
                    half.is_blocked = false;
                    notices.push(Notice::Writable(stream));
                }
            } else {
                let now = (half.waiting(), half.finished, half.reset);
                let before = seen.receiving.insert(stream, now).unwrap_or_default();
                if now != before && now != (0, false, None) && !half.end_is_known {
                    notices.push(Notice::Readable(stream));
                }
            }
        }
        let ours = [usize::from(is_server), 2 + usize::from(is_server)];
        if ours.iter().any(|kind| seen.allowed[*kind] == 0 && link.allowed[*kind] > 0) {
            notices.push(Notice::StreamsAvailable);
        }
        seen.allowed = link.allowed;
        if link.closed.is_some() && !core::mem::replace(&mut seen.is_closed, true) {
            notices.push(Notice::Closed);
        }
        notices
    }
}

#[test]
fn the_in_memory_transport_passes_the_conformance_tests() {
    check(Memory::new);
}
