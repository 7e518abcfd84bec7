use clearway_units::packed::Pack;

/// A packet number space (RFC 9000 §12.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum SpaceId {
    /// The space of Initial packets.
    Initial,
    /// The space of Handshake packets.
    Handshake,
    /// The space of 0-RTT and 1-RTT packets.
    Application,
}

impl SpaceId {
    /// All three spaces, in the order in which a connection uses them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Application];
}

/// One `T` for each packet number space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
pub(crate) struct PerSpace<T> {
    initial: T,
    handshake: T,
    application: T,
}

impl<T> PerSpace<T> {
    /// Creates a `T` for each space.
    pub(crate) fn new(mut make: impl FnMut(SpaceId) -> T) -> Self {
        Self {
            initial: make(SpaceId::Initial),
            handshake: make(SpaceId::Handshake),
            application: make(SpaceId::Application),
        }
    }

    /// Returns the value of `space`.
    pub(crate) const fn get(&self, space: SpaceId) -> &T {
        match space {
            SpaceId::Initial => &self.initial,
            SpaceId::Handshake => &self.handshake,
            SpaceId::Application => &self.application,
        }
    }

    /// Returns the value of `space`.
    pub(crate) const fn get_mut(&mut self, space: SpaceId) -> &mut T {
        match space {
            SpaceId::Initial => &mut self.initial,
            SpaceId::Handshake => &mut self.handshake,
            SpaceId::Application => &mut self.application,
        }
    }

    /// Returns the values of all three spaces, each with its space.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, &T)> {
        SpaceId::ALL.into_iter().map(|space| (space, self.get(space)))
    }
}

/// The state of a packet number space, including a value for a space that has ended.
pub(crate) trait SpaceState: Sized + 'static {
    /// The state of a space that has ended.
    const ENDED: Self;

    /// Returns the state of a space that has ended, shared by all connections.
    fn ended() -> &'static Self;
}

/// One `T` for each packet number space. The Initial and Handshake values can be dropped after the
/// handshake.
#[derive(Debug, Pack)]
pub(crate) struct SpaceStates<T> {
    application: T,
    /// The values of the Initial and Handshake spaces; `None` once both have ended.
    others: Option<Box<[T; 2]>>,
}

impl<T: SpaceState> SpaceStates<T> {
    /// Creates a `T` for each space.
    pub(crate) fn new(mut make: impl FnMut(SpaceId) -> T) -> Self {
        let others = [make(SpaceId::Initial), make(SpaceId::Handshake)];
        Self { application: make(SpaceId::Application), others: Some(Box::new(others)) }
    }

    /// Returns the value of `space`.
    pub(crate) fn get(&self, space: SpaceId) -> &T {
        match (space, self.others.as_deref()) {
            (SpaceId::Application, _) => &self.application,
            (SpaceId::Initial, Some([initial, _])) => initial,
            (SpaceId::Handshake, Some([_, handshake])) => handshake,
            (_, None) => T::ended(),
        }
    }

    /// Returns the value of `space`.
    pub(crate) fn get_mut(&mut self, space: SpaceId) -> &mut T {
        if space == SpaceId::Application {
            return &mut self.application;
        }
        let [initial, handshake] =
            &mut **self.others.get_or_insert_with(|| Box::new([T::ENDED, T::ENDED]));
        if space == SpaceId::Initial { initial } else { handshake }
    }

    /// Returns the values of all three spaces, each with its space.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, &T)> {
        SpaceId::ALL.into_iter().map(|space| (space, self.get(space)))
    }

    /// Drops the state of the Initial and Handshake spaces, which have ended.
    pub(crate) fn give_up_handshake(&mut self) {
        self.others = None;
    }
}
