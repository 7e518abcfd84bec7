//! Checks every second for conditions in and around a server that cause no notification: jumps of
//! the wall clock, stalls of the program, the memory of connections, and ended shards.

use std::time::{Duration, Instant, SystemTime};

use clearway::{Endpoint, MemoryBudget, MemoryStatistics};
use tokio::time::MissedTickBehavior;

use crate::events::{Event, note};

/// Interval between checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Minimum jump of the wall clock to report. Time synchronization that slews moves it by less than
/// a millisecond per interval.
const SMALLEST_JUMP: Duration = Duration::from_secs(1);

/// Minimum stall to report.
const SHORTEST_STALL: Duration = Duration::from_secs(1);

/// Starts a task that reports jumps of the wall clock, stalls, changes in memory pressure, and
/// ended shards, until another process replaces this one.
pub(super) fn start(endpoint: Endpoint) {
    let mut watcher = Watcher::new();
    tokio::spawn(async move {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watch = async {
            loop {
                interval.tick().await;
                watcher.look(&endpoint);
            }
        };
        tokio::select! {
            () = watch => {}
            () = endpoint.replaced() => {}
        }
    });
}

/// The state at the last check.
struct Watcher {
    last: Instant,
    clock: WallClock,
    level: Level,
    has_failed: bool,
}

impl Watcher {
    fn new() -> Self {
        let last = Instant::now();
        let clock = WallClock::new(last, SystemTime::now());
        Self { last, clock, level: Level::Free, has_failed: false }
    }

    fn look(&mut self, endpoint: &Endpoint) {
        let now = Instant::now();
        if let Some(line) = stall(now.saturating_duration_since(self.last)) {
            note(Event::ProcessStalled, &line);
        }
        self.last = now;
        if let Some(jump) = self.clock.look(now, SystemTime::now()) {
            note(Event::ClockJumped, &jump.line());
        }
        if let Some(memory) = endpoint.memory_budget().map(MemoryBudget::statistics) {
            let level = self.level.next(memory);
            if level != self.level {
                note(Event::ConnectionMemoryLevel, &level.line(memory));
                self.level = level;
            }
        }
        if let Some(failure) = endpoint.failure().filter(|_| !self.has_failed) {
            let line =
                format!("clearway: a shard has exited, and its connections are lost: {failure}");
            note(Event::ShardFailed, &line);
            self.has_failed = true;
        }
    }
}

/// Returns the report of a stall if the time between two checks was long.
fn stall(between: Duration) -> Option<String> {
    let late = between.saturating_sub(INTERVAL);
    (late >= SHORTEST_STALL).then(|| {
        let seconds = late.as_secs_f64();
        format!(
            "clearway: the program did not run for {seconds:.1} s: it was stopped, or did not get \
             CPU time"
        )
    })
}

/// Compares the wall clock with the monotonic clock.
#[derive(Debug)]
struct WallClock {
    monotonic: Instant,
    wall: SystemTime,
}

/// A jump of the wall clock.
#[derive(PartialEq, Eq, Debug)]
enum Jump {
    Forward(Duration),
    Back(Duration),
}

impl WallClock {
    fn new(monotonic: Instant, wall: SystemTime) -> Self {
        Self { monotonic, wall }
    }

    /// Returns the jump since the last check, if there was one.
    fn look(&mut self, monotonic: Instant, wall: SystemTime) -> Option<Jump> {
        let expected = self.wall + monotonic.saturating_duration_since(self.monotonic);
        *self = Self { monotonic, wall };
        let jump = match wall.duration_since(expected) {
            Ok(by) => Jump::Forward(by),
            Err(error) => Jump::Back(error.duration()),
        };
        let (Jump::Forward(by) | Jump::Back(by)) = &jump;
        (*by >= SMALLEST_JUMP).then_some(jump)
    }
}

impl Jump {
    fn line(&self) -> String {
        let (direction, by) = match self {
            Self::Forward(by) => ("forward", by),
            Self::Back(by) => ("back", by),
        };
        format!(
            "clearway: the system clock jumped {direction} by {:.1} s; connections are not \
             affected, but session tickets and address validation tokens that are now expired or \
             from the future are rejected, and their clients do a full handshake",
            by.as_secs_f64()
        )
    }
}

/// How much of the connections' memory budget is in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Free,
    /// Receive windows are limited.
    Half,
    /// New clients are rejected.
    ThreeQuarters,
    /// Connections are closed.
    SevenEighths,
}

impl Level {
    /// Returns the next level. The level falls only when memory use is a sixteenth of the limit
    /// below the level's threshold.
    fn next(self, memory: MemoryStatistics) -> Self {
        let at_least = |held: u64| match held.saturating_mul(8) / memory.limit.max(1) {
            0..=3 => Self::Free,
            4..=5 => Self::Half,
            6 => Self::ThreeQuarters,
            _ => Self::SevenEighths,
        };
        let with_margin = at_least(memory.held.saturating_add(memory.limit / 16));
        at_least(memory.held).max(self.min(with_margin))
    }

    fn line(self, memory: MemoryStatistics) -> String {
        let (held, limit) = (memory.held >> 20, memory.limit >> 20);
        let measure = match self {
            Self::Free => "less than half: nothing is limited",
            Self::Half => {
                "at least half: receive windows of hosts with more than their share are limited"
            }
            Self::ThreeQuarters => {
                "at least three quarters: new clients of hosts with more than their share are refused"
            }
            Self::SevenEighths => {
                "at least seven eighths: the connections that use the most memory are closed"
            }
        };
        format!(
            "clearway: connections use {held} MiB of {limit} MiB (--connection-memory), {measure}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_of_the_wall_clock_are_seen_in_both_directions() {
        let (begun, wall) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30));
        let mut clock = WallClock::new(begun, wall);
        let after = |seconds| Duration::from_secs(seconds);
        // A long interval between checks, because the process was stopped, is not a jump.
        assert_eq!(clock.look(begun + after(1), wall + after(1)), None);
        assert_eq!(clock.look(begun + after(100), wall + after(100)), None);
        let hour = after(3_600);
        assert_eq!(
            clock.look(begun + after(101), wall + after(101) + hour),
            Some(Jump::Forward(hour))
        );
        assert_eq!(clock.look(begun + after(102), wall + after(102) + hour), None);
        assert_eq!(clock.look(begun + after(103), wall + after(103)), Some(Jump::Back(hour)));
        assert_eq!(clock.look(begun + after(104), wall + Duration::from_millis(104_900)), None);
    }

    #[test]
    fn a_program_that_was_stopped_is_reported() {
        assert_eq!(stall(Duration::from_millis(1_999)), None);
        assert!(stall(Duration::from_millis(3_500)).is_some_and(|line| line.contains("2.5 s")));
    }

    #[test]
    fn a_level_falls_later_than_it_rises() {
        let at = |held| {
            let mut memory = MemoryBudget::new(160).statistics();
            memory.held = held;
            memory
        };
        let mut level = Level::Free;
        let expected = [
            (79, Level::Free),
            (80, Level::Half),
            (75, Level::Half),
            (69, Level::Free),
            (120, Level::ThreeQuarters),
            (140, Level::SevenEighths),
            (131, Level::SevenEighths),
            (129, Level::ThreeQuarters),
            (0, Level::Free),
        ];
        for (held, expected) in expected {
            level = level.next(at(held));
            assert_eq!(level, expected, "{held}");
        }
    }

    #[test]
    fn lines_say_what_has_happened_and_what_follows() {
        let by = Duration::from_millis(90_040);
        for (jump, what) in [(Jump::Forward(by), "forward"), (Jump::Back(by), "back")] {
            let line = jump.line();
            assert!(line.contains(&format!("jumped {what} by 90.0 s;")), "{line}");
            assert!(line.contains("do a full handshake"), "{line}");
        }
        let mut memory = MemoryBudget::new(64 << 20).statistics();
        memory.held = 48 << 20;
        for (level, measure) in [
            (Level::Free, "less than half: nothing is limited"),
            (Level::Half, "at least half: receive windows of hosts"),
            (Level::ThreeQuarters, "at least three quarters: new clients of hosts"),
            (Level::SevenEighths, "at least seven eighths: the connections that use the most"),
        ] {
            let line = level.line(memory);
            let amounts = "connections use 48 MiB of 64 MiB (--connection-memory), ";
            assert!(line.contains(&format!("{amounts}{measure}")), "{line}");
        }
    }
}
