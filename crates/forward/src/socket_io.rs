//! Receives from and sends through one of a thread's sockets.

use core::time::Duration;
use std::io::{self, ErrorKind};

use clearway_udp::{
    Batch, Clock, Meta, ReceiveBuffer, ReceiveFailures, SendOutcome, Socket, Verdict, poll,
};
use clearway_units::Timestamp;
use rustix::event::{PollFd, PollFlags};

use super::statistics::DirectionStatistics;

/// Maximum time per turn that a thread waits for sockets without room. During that time, received
/// datagrams are queued in the other sockets, whose buffers hold a hundred large datagrams unless
/// the system is configured for more.
const WAIT_BUDGET: Duration = Duration::from_millis(2);
/// Maximum number of waits per batch.
const MAX_WAITS: usize = 8;

/// A socket, and its thread's state for receiving from it.
pub(super) struct SocketReader {
    pub(super) socket: Socket,
    failures: ReceiveFailures,
    /// Whether the socket may have datagrams to receive.
    is_readable: bool,
}

/// The outcome of an attempt to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// There may be more datagrams to receive.
    More,
    /// There are no more datagrams to receive now.
    Nothing,
    /// The socket is no longer usable.
    Broken,
}

/// The datagrams that one system call has received.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) after: After,
    datagrams: u64,
    bytes: u64,
    has_failed: bool,
}

impl Received {
    pub(super) fn count(&self, counts: &mut DirectionStatistics) {
        counts.datagrams_received += self.datagrams;
        counts.bytes_received += self.bytes;
        counts.batches_received += u64::from(self.datagrams > 0);
        counts.receive_failures += u64::from(self.has_failed);
    }
}

impl SocketReader {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, failures: ReceiveFailures::default(), is_readable: true }
    }

    /// Returns whether to try to receive. A socket that failed to receive is paused for a while.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.is_readable && self.paused_until(now).is_none()
    }

    pub(super) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.failures.paused_until(now)
    }

    /// Records the result of waiting for the socket.
    pub(super) fn note_readiness(&mut self, ready: PollFlags) {
        self.is_readable = ready.intersects(PollFlags::IN | PollFlags::ERR);
        if ready.intersects(PollFlags::ERR) {
            self.socket.note_errors();
        }
    }

    /// Returns whether there may be datagrams that can be received without waiting.
    pub(super) fn may_have_more(&self, now: Timestamp) -> bool {
        self.is_ready(now) && (self.socket.may_have_more() || self.socket.has_errors())
    }

    /// Receives one batch. As in a server's shard, the clock is read after receiving.
    pub(super) fn receive(
        &mut self,
        clock: &Clock,
        buffer: &mut ReceiveBuffer,
        each: impl FnMut(Timestamp, &Meta, &mut [u8]),
    ) -> Received {
        receive(&mut self.socket, &mut self.failures, clock, buffer, each)
    }
}

/// Receives one batch from a socket; `failures` may be shared by several sockets.
pub(super) fn receive(
    socket: &mut Socket,
    failures: &mut ReceiveFailures,
    clock: &Clock,
    buffer: &mut ReceiveBuffer,
    mut each: impl FnMut(Timestamp, &Meta, &mut [u8]),
) -> Received {
    let (mut received_at, mut bytes) = (None, 0);
    let received = socket.receive(buffer, |meta, datagram| {
        let now = *received_at.get_or_insert_with(|| clock.now());
        bytes += datagram.len() as u64;
        each(now, &meta, datagram);
    });
    match received {
        Ok(count) => {
            if failures.on_success() {
                tracing::info!("the UDP socket is receiving again");
            }
            let after = if socket.may_have_more() { After::More } else { After::Nothing };
            Received { after, datagrams: count as u64, bytes, has_failed: false }
        }
        Err(error) => {
            let verdict = failures.on_failure(clock.now(), &error);
            warn(verdict, &error, socket);
            let after = if verdict == Verdict::Never { After::Broken } else { After::Nothing };
            Received { after, datagrams: 0, bytes, has_failed: true }
        }
    }
}

/// Logs that a socket cannot receive, once per series of failures.
fn warn(verdict: Verdict, error: &io::Error, socket: &Socket) {
    let address = socket.local_address();
    match verdict {
        Verdict::Later { is_first: true } => tracing::warn!(
            %error,
            %address,
            "the UDP socket cannot receive; retrying, at most once per second"
        ),
        Verdict::Later { is_first: false } => {}
        Verdict::Never => tracing::error!(
            %error,
            %address,
            "the UDP socket is no longer usable: this thread stops forwarding"
        ),
    }
}

/// Remaining time that a thread may wait in this turn for sockets without room.
pub(super) struct WaitBudget(Duration);

impl WaitBudget {
    /// Returns the full budget for a turn.
    pub(super) fn new() -> Self {
        Self(WAIT_BUDGET)
    }

    /// Waits until the socket is writable. Returns `false` after a timeout.
    fn wait(&mut self, clock: &Clock, socket: &Socket) -> bool {
        if self.0.is_zero() {
            return false;
        }
        let mut descriptors = [PollFd::new(socket, PollFlags::OUT)];
        let begun = clock.now();
        // If a signal interrupts the wait, the socket appears to have room, and the next attempt
        // fails again.
        let ready = poll(&mut descriptors, Some(self.0));
        self.0 = self.0.saturating_sub(clock.now().saturating_since(begun));
        ready != Ok(0)
    }
}

/// Passes a batch to the kernel, and counts the outcome. If the socket has no room, waits until the
/// wait budget is used up.
pub(super) fn send(
    socket: &mut Socket,
    batch: &Batch<'_>,
    clock: &Clock,
    wait_budget: &mut WaitBudget,
    counts: &mut DirectionStatistics,
) {
    hand_over(batch, counts, |progress| match progress {
        Attempt::Send(progress) => socket.send(batch, progress),
        Attempt::Wait if wait_budget.wait(clock, socket) => SendOutcome::Sent,
        Attempt::Wait => SendOutcome::WouldBlock,
    });
}

/// An operation on a batch's socket.
enum Attempt<'a> {
    /// Send the data after this many bytes, and advance the count.
    Send(&'a mut usize),
    /// Wait until the socket has room.
    Wait,
}

fn hand_over(
    batch: &Batch<'_>,
    counts: &mut DirectionStatistics,
    mut attempt: impl FnMut(Attempt<'_>) -> SendOutcome,
) {
    let size = batch.contents.len();
    let segment = batch.segment_size.unwrap_or(size).max(1);
    let datagrams = |from: usize, to: usize| (to - from).div_ceil(segment) as u64;
    let (mut progress, mut waits) = (0, 0);
    let (mut lost, mut lost_bytes) = (0, 0);
    while progress < size {
        let (counter, end) = match attempt(Attempt::Send(&mut progress)) {
            SendOutcome::Sent => break,
            SendOutcome::WouldBlock => {
                counts.send_blocked += 1;
                waits += 1;
                let has_room =
                    waits <= MAX_WAITS && matches!(attempt(Attempt::Wait), SendOutcome::Sent);
                if has_room {
                    continue;
                }
                (&mut counts.dropped_no_room, size)
            }
            SendOutcome::TooLarge => {
                // The last datagram may be smaller: a client that sends an MTU probe sends other
                // datagrams after the probe.
                let last = size - size % segment;
                let end = if progress < last { last } else { size };
                (&mut counts.dropped_too_large, end)
            }
            SendOutcome::Failed(error) => {
                tracing::debug!(%error, destination = %batch.destination, "cannot forward");
                (reason(&error, counts), size)
            }
        };
        lost += datagrams(progress, end);
        *counter += datagrams(progress, end);
        lost_bytes += end - progress;
        progress = end;
    }
    if lost_bytes < size {
        counts.batches_sent += 1;
        counts.datagrams_sent += datagrams(0, size) - lost;
        counts.bytes_sent += (size - lost_bytes) as u64;
    }
}

/// Returns the counter of datagrams lost because of this error.
fn reason<'a>(error: &io::Error, counts: &'a mut DirectionStatistics) -> &'a mut u64 {
    match error.kind() {
        ErrorKind::NetworkUnreachable
        | ErrorKind::HostUnreachable
        | ErrorKind::ConnectionRefused
        | ErrorKind::AddrNotAvailable => &mut counts.dropped_unreachable,
        ErrorKind::PermissionDenied => &mut counts.dropped_not_permitted,
        _ => &mut counts.dropped_failed,
    }
}

#[cfg(test)]
mod tests {
    use clearway_udp::EcnCodepoint;

    use super::*;

    /// Returns the counters after a batch of `size` bytes in datagrams of 100 bytes, if the kernel
    /// behaves as specified.
    fn counted(
        size: usize,
        mut attempt: impl FnMut(Attempt<'_>) -> SendOutcome,
    ) -> DirectionStatistics {
        let batch = Batch {
            destination: ([192, 0, 2, 1], 443).into(),
            source_ip: None,
            ecn: EcnCodepoint::NotEct,
            contents: &vec![0; size],
            segment_size: (size > 100).then_some(100),
        };
        let mut counts = DirectionStatistics::default();
        hand_over(&batch, &mut counts, &mut attempt);
        counts
    }

    #[test]
    fn a_batch_waits_for_room_a_bounded_number_of_times() {
        // Each time, there is room for two datagrams.
        let counts = counted(950, |attempt| match attempt {
            Attempt::Wait => SendOutcome::Sent,
            Attempt::Send(progress) => {
                *progress += 200;
                if *progress >= 950 { SendOutcome::Sent } else { SendOutcome::WouldBlock }
            }
        });
        assert_eq!((counts.datagrams_sent, counts.dropped_no_room), (10, 0));
        assert_eq!((counts.bytes_sent, counts.batches_sent, counts.send_blocked), (950, 1, 4));
        let full = |attempt: Attempt<'_>| match attempt {
            Attempt::Wait => SendOutcome::Sent,
            Attempt::Send(_) => SendOutcome::WouldBlock,
        };
        let counts = counted(950, full);
        assert_eq!((counts.datagrams_sent, counts.dropped_no_room), (0, 10));
        assert_eq!((counts.batches_sent, counts.send_blocked), (0, MAX_WAITS as u64 + 1));
        let mut is_first = true;
        let counts = counted(950, |attempt| {
            if let Attempt::Send(progress) = attempt
                && std::mem::take(&mut is_first)
            {
                *progress += 300;
            }
            SendOutcome::WouldBlock
        });
        assert_eq!((counts.datagrams_sent, counts.dropped_no_room), (3, 7));
        assert_eq!((counts.bytes_sent, counts.send_blocked), (300, 1));
    }

    #[test]
    fn of_a_batch_that_is_too_large_the_last_datagram_may_pass() {
        let refuse_above = |limit: usize, size: usize| {
            counted(size, move |attempt| match attempt {
                Attempt::Send(progress) if (size - *progress).min(100) > limit => {
                    SendOutcome::TooLarge
                }
                _ => SendOutcome::Sent,
            })
        };
        let counts = refuse_above(90, 350);
        assert_eq!((counts.datagrams_sent, counts.dropped_too_large), (1, 3));
        assert_eq!(counts.bytes_sent, 50);
        for (limit, size, lost) in [(10, 350, 4), (90, 300, 3), (90, 100, 1)] {
            let counts = refuse_above(limit, size);
            assert_eq!((counts.datagrams_sent, counts.dropped_too_large), (0, lost));
            assert_eq!(counts.batches_sent, 0);
        }
    }

    #[test]
    fn errors_are_counted_by_kind() {
        let counts = |kind: ErrorKind| counted(350, move |_| SendOutcome::Failed(kind.into()));
        assert_eq!(counts(ErrorKind::HostUnreachable).dropped_unreachable, 4);
        assert_eq!(counts(ErrorKind::PermissionDenied).dropped_not_permitted, 4);
        assert_eq!(counts(ErrorKind::OutOfMemory).dropped_failed, 4);
    }

    #[test]
    fn a_socket_is_read_while_it_may_have_datagrams() {
        let clock = Clock::start();
        let mut reader = SocketReader::new(Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        assert!(reader.is_ready(clock.now()) && reader.may_have_more(clock.now()));
        let received = reader.receive(&clock, &mut ReceiveBuffer::new(), |_, _, _| ());
        assert_eq!(received.after, After::Nothing);
        assert!(reader.is_ready(clock.now()) && !reader.may_have_more(clock.now()));
        reader.note_readiness(PollFlags::empty());
        assert!(!reader.is_ready(clock.now()));
        reader.note_readiness(PollFlags::IN);
        assert!(reader.is_ready(clock.now()));
        reader.note_readiness(PollFlags::ERR);
        assert!(reader.is_ready(clock.now()) && reader.may_have_more(clock.now()));
    }

    #[test]
    fn only_calls_that_receive_something_are_batches() {
        let mut counts = DirectionStatistics::default();
        let received = |datagrams, has_failed| Received {
            after: After::Nothing,
            datagrams,
            bytes: 100 * datagrams,
            has_failed,
        };
        for call in [received(3, false), received(0, false), received(0, true), received(1, false)]
        {
            call.count(&mut counts);
        }
        assert_eq!((counts.datagrams_received, counts.bytes_received), (4, 400));
        assert_eq!((counts.batches_received, counts.receive_failures), (2, 1));
    }
}
