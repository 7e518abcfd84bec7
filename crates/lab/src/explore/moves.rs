//! The events that can happen to a sender.

/// An event that can happen to a sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Move {
    /// The application writes twenty datagrams.
    SendBurst,
    /// Everything outstanding is acknowledged.
    AckAll,
    /// The older half of the outstanding packets is acknowledged.
    AckHalf,
    /// All outstanding packets except the oldest are acknowledged, and the oldest is lost.
    LoseOne,
    /// Everything is acknowledged, with a CE mark.
    Mark,
    /// Everything is acknowledged, and the application has nothing to send for six seconds.
    Idle,
    /// A second passes: fifty round trips.
    Tick,
}

impl Move {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::SendBurst,
        Self::AckAll,
        Self::AckHalf,
        Self::LoseOne,
        Self::Mark,
        Self::Idle,
        Self::Tick,
    ];
}
