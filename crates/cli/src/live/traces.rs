//! The connections that can be followed.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway::Observer;
use clearway_qlog::{Admission, Open, QlogObserver, TraceOptions, file_name};
use serde_json::{Value, json};

use super::trace::Trace;

/// Maximum number of connections that can be followed at the same time; additional ones are not
/// listed.
const MAX_LIVING: usize = 64;
/// Number of ended connections whose logs are kept.
const MAX_ENDED: usize = 8;
/// Default limit on the memory that all traces use, in bytes.
pub(super) const MEMORY: usize = 64 << 20;

/// All connections that can be followed, in the order in which they were admitted. A connection is
/// admitted when the client's address is validated. Handshakes that fail earlier are recorded only
/// in qlog files, since anyone can start any number of them.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    kept: Arc<Mutex<VecDeque<Arc<Trace>>>>,
    admission: Arc<Admission>,
    /// Memory usage of all traces, in bytes.
    taken: Arc<AtomicUsize>,
    maximum: usize,
}

impl Default for Traces {
    fn default() -> Self {
        Self::within(MEMORY)
    }
}

impl Traces {
    /// Creates traces that use at most `maximum` bytes of memory in total. When the limit is
    /// reached, ended traces are dropped, oldest first, and then the oldest records of the longest
    /// trace.
    pub(super) fn within(maximum: usize) -> Self {
        let admission = Arc::new(Admission::without_failed_handshakes());
        Self { kept: Arc::default(), admission, taken: Arc::default(), maximum }
    }

    /// Records that the memory usage of a trace changed from `before` to `after` bytes. Drops old
    /// traces or records if the total exceeds the limit.
    pub(super) fn changed(&self, before: usize, after: usize) {
        self.taken.fetch_add(after, Ordering::Relaxed);
        let taken = self.taken.fetch_sub(before, Ordering::Relaxed).wrapping_sub(before);
        if taken > self.maximum {
            self.make_room();
        }
    }

    fn make_room(&self) {
        let mut traces = self.lock();
        let excess = || self.taken.load(Ordering::Relaxed).checked_sub(self.maximum);
        while excess().is_some_and(|excess| excess > 0) {
            let Some(ended) = traces.iter().position(|trace| trace.has_ended()) else { break };
            if let Some(trace) = traces.remove(ended) {
                self.taken.fetch_sub(trace.cost(), Ordering::Relaxed);
            }
        }
        while let Some(excess) = excess().filter(|excess| *excess > 0) {
            let Some(longest) = traces.iter().max_by_key(|trace| trace.cost()) else { break };
            let freed = longest.shorten_by(excess);
            if freed == 0 {
                // Only the beginnings of logs are left, and their number and size are bounded.
                break;
            }
            self.taken.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    /// Returns an observer that records the log of one connection in these traces.
    pub(crate) fn observer(&self, options: TraceOptions) -> Box<dyn Observer> {
        let traces = self.clone();
        let open: Open = Box::new(move |side, id| Ok(traces.begin(file_name(id, side))));
        let admission = Arc::clone(&self.admission);
        Box::new(QlogObserver::opening(open, Arc::new(options)).admitted_by(admission))
    }

    /// Adds a new connection. Returns the writer for its log.
    fn begin(&self, name: String) -> Box<dyn Write + Send> {
        let mut traces = self.lock();
        let ended = traces.iter().filter(|trace| trace.has_ended()).count();
        let mut to_forget = ended.saturating_sub(MAX_ENDED);
        traces.retain(|trace| {
            let is_forgotten = to_forget > 0 && trace.has_ended();
            to_forget = to_forget.saturating_sub(usize::from(is_forgotten));
            if is_forgotten {
                self.taken.fetch_sub(trace.cost(), Ordering::Relaxed);
            }
            !is_forgotten
        });
        if traces.len() >= MAX_LIVING + MAX_ENDED {
            return Box::new(io::sink());
        }
        let trace = Arc::new(Trace::new(name));
        traces.push_back(Arc::clone(&trace));
        Box::new(Writer { trace, traces: self.clone() })
    }

    /// Returns the newest trace with this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Trace>> {
        self.lock().iter().rev().find(|trace| trace.name() == name).cloned()
    }

    /// Returns the names of all traces, and whether each has ended.
    pub(super) fn list(&self) -> Vec<Value> {
        let traces = self.lock();
        let entry =
            |trace: &Arc<Trace>| json!({ "name": trace.name(), "has_ended": trace.has_ended() });
        traces.iter().map(entry).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Trace>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer of a connection's log. It writes to memory, so it never blocks the connection.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) trace: Arc<Trace>,
    /// All traces, which share a memory limit.
    pub(super) traces: Traces,
}

impl Write for Writer {
    fn write(&mut self, records: &[u8]) -> io::Result<usize> {
        let (before, after) = self.trace.append(records);
        self.traces.changed(before, after);
        self.trace.notify();
        Ok(records.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.trace.end();
    }
}

#[cfg(test)]
mod tests {
    use clearway::Observation;
    use clearway::transport::{EcnCodepoint, PacketObservation};
    use clearway::wire::{ConnectionId, PacketNumber, PacketType};
    use clearway::{Side, Timestamp};

    use super::*;

    /// Returns the observation of a received packet of this type.
    fn received(packet_type: PacketType) -> Observation<'static> {
        Observation::PacketReceived(PacketObservation {
            packet_type,
            number: PacketNumber::new(0).unwrap(),
            key_phase: false,
            size: 1200,
            payload: &[1],
            is_probe: false,
            is_path_probe: false,
            is_mtu_probe: false,
            ecn: EcnCodepoint::NotEct,
        })
    }

    #[test]
    fn incomplete_handshakes_displace_no_connection() {
        let traces = Traces::default();
        let begin = |id: u64, packet_type| {
            let mut observer = traces.observer(TraceOptions::default());
            let id = ConnectionId::new(&id.to_be_bytes()).unwrap();
            let remote = "192.0.2.1:443".parse().unwrap();
            let (local_id, remote_id, original_destination_id) = (id, id, id);
            let side = Side::Server;
            let started =
                Observation::Started { side, remote, local_id, remote_id, original_destination_id };
            observer.observe(Timestamp::ORIGIN, &started);
            observer.observe(Timestamp::ORIGIN, &received(packet_type));
            observer
        };
        drop(begin(1, PacketType::Handshake));
        let living = begin(2, PacketType::Handshake);
        for number in 0..2000 {
            drop(begin(100 + number, PacketType::Initial));
        }
        let held: Vec<_> =
            (0..200).map(|number| begin(5000 + number, PacketType::Initial)).collect();
        assert_eq!(traces.list().len(), 2);
        drop(begin(3, PacketType::Handshake));
        assert_eq!(traces.list().len(), 3);
        drop((living, held));
    }

    #[test]
    fn the_numbers_of_living_and_ended_traces_are_bounded() {
        let traces = Traces::default();
        for number in 0..100 {
            drop(traces.begin(format!("ended {number}")));
        }
        assert!(traces.list().len() <= MAX_ENDED + 1);
        assert!(traces.find("ended 99").is_some() && traces.find("ended 0").is_none());
        let living: Vec<_> = (0..100).map(|number| traces.begin(format!("{number}"))).collect();
        assert!(traces.list().len() <= MAX_LIVING + MAX_ENDED);
        assert!(traces.find("0").is_some() && traces.find("99").is_none());
        drop(living);
    }

    #[test]
    fn all_traces_take_memory_together_and_ended_ones_are_forgotten_first() {
        let traces = Traces::within(1_000_000);
        let piece = vec![b'x'; 10_000];
        let write = |writer: &mut Box<dyn Write + Send>, pieces: usize| {
            for _ in 0..pieces {
                writer.write_all(&piece).unwrap();
            }
        };
        let cost = |name: &str| traces.find(name).map(|trace| trace.cost());
        let mut living: Vec<_> = (0..3).map(|number| traces.begin(format!("{number}"))).collect();
        for name in ["ended 1", "ended 2"] {
            let mut ended = traces.begin(name.to_owned());
            write(&mut ended, 30);
        }
        write(&mut living[0], 30);
        assert!(traces.taken.load(Ordering::Relaxed) <= 1_000_000);
        assert!(cost("ended 1") > Some(300_000) && cost("ended 2") > Some(300_000));
        write(&mut living[0], 30);
        assert_eq!(cost("ended 1"), None, "the oldest one that has ended is forgotten");
        assert!(cost("ended 2").is_some());
        write(&mut living[0], 500);
        assert_eq!(cost("ended 2"), None);
        write(&mut living[1], 20);
        // Only the longest trace has lost records.
        assert!(cost("1") > Some(200_000), "{:?}", cost("1"));
        assert!(cost("0") > Some(700_000) && cost("0") < Some(800_000), "{:?}", cost("0"));
        let taken = traces.taken.load(Ordering::Relaxed);
        let sum: usize = traces.lock().iter().map(|trace| trace.cost()).sum();
        assert_eq!(taken, sum);
        assert!(taken <= 1_000_000, "{taken}");
    }
}
