//! What can happen to a sender.

/// What can happen next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Move {
    /// The application hands over twenty datagrams.
    SendBurst,
    /// All that is outstanding is acknowledged.
    AckAll,
    /// The older half of it is.
    AckHalf,
    /// All but the oldest packet is, which is lost.
    LoseOne,
    /// All is acknowledged, with a mark of congestion.
    Mark,
    /// Everything is acknowledged, and the application has nothing to send for six seconds.
    Idle,
    /// A second passes: fifty round trips.
    Tick,
}

impl Move {
    /// All of them.
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
