use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time: nanoseconds since an origin that the driver chooses.
///
/// `std::time::Instant` can only be read from the system clock, so it cannot be used in virtual
/// time and cannot be written to a trace. A driver on real sockets uses its own start as the
/// origin; the lab starts at zero. Adding to a timestamp saturates at [`Timestamp::FAR_FUTURE`]
/// (584 years).
///
/// The value is stored plus one, so that `Option<Timestamp>` has the same size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

impl Timestamp {
    /// The origin.
    pub const ORIGIN: Self = Self(NonZeroU64::MIN);
    /// The last representable point in time. No event is ever due at this time.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MAX);

    /// Returns the time `nanoseconds` after the origin, saturating.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanoseconds))
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0.get().wrapping_sub(1)
    }

    /// Returns the time `duration` after the origin, saturating.
    pub fn from_origin(duration: Duration) -> Self {
        Self::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time since the origin.
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.as_nanos())
    }

    /// Returns the time from `earlier` to `self`, or `None` if `earlier` is later than `self`.
    pub const fn checked_since(self, earlier: Self) -> Option<Duration> {
        match self.0.get().checked_sub(earlier.0.get()) {
            Some(nanoseconds) => Some(Duration::from_nanos(nanoseconds)),
            None => None,
        }
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later than `self`.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// Returns the time `duration` before `self`, or `None` if that is before the origin.
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let nanoseconds = u64::try_from(duration.as_nanos()).ok()?;
        self.as_nanos().checked_sub(nanoseconds).map(Self::from_nanos)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::FAR_FUTURE`].
    fn add(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::ORIGIN
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timestamp").field(&self.as_nanos()).finish()
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

/// The earliest time at which something may be sent. It may be in the future, and is not the time
/// of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReleaseTime(Timestamp);

impl ReleaseTime {
    /// Creates a release time: sending is allowed from `at` on.
    pub const fn at(at: Timestamp) -> Self {
        Self(at)
    }

    /// Returns whether sending is allowed at `now`.
    pub fn is_due(self, now: Timestamp) -> bool {
        self.0 <= now
    }

    /// Returns the time at which a timer must fire to wake the sender in time.
    pub const fn deadline(self) -> Timestamp {
        self.0
    }
}
