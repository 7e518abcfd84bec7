/// A packet number space (RFC 9000 §12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum SpaceId {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Application,
}

impl SpaceId {
    /// All three, in the order in which a connection passes through them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Application];
}

/// One `T` for each packet number space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PerSpace<T> {
    initial: T,
    handshake: T,
    application: T,
}

impl<T> PerSpace<T> {
    /// Makes a `T` for each space.
    pub(crate) fn new(mut make: impl FnMut(SpaceId) -> T) -> Self {
        Self {
            initial: make(SpaceId::Initial),
            handshake: make(SpaceId::Handshake),
            application: make(SpaceId::Application),
        }
    }

    /// The value of `space`.
    pub(crate) const fn get(&self, space: SpaceId) -> &T {
        match space {
            SpaceId::Initial => &self.initial,
            SpaceId::Handshake => &self.handshake,
            SpaceId::Application => &self.application,
        }
    }

    /// The value of `space`.
    pub(crate) const fn get_mut(&mut self, space: SpaceId) -> &mut T {
        match space {
            SpaceId::Initial => &mut self.initial,
            SpaceId::Handshake => &mut self.handshake,
            SpaceId::Application => &mut self.application,
        }
    }

    /// The values of all three spaces, each with its space.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, &T)> {
        SpaceId::ALL.into_iter().map(|space| (space, self.get(space)))
    }
}
