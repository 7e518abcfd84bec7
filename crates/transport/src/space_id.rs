use clearway_units::packed::Pack;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pack)]
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

/// The state of a packet number space, if that has one which says that nothing happens in it any more.
pub(crate) trait SpaceState: Sized + 'static {
    /// That state.
    const ENDED: Self;

    /// The same, for all connections.
    fn ended() -> &'static Self;
}

/// One `T` for each packet number space. Those of the handshake can be given up when it is over.
#[derive(Debug, Pack)]
pub(crate) struct SpaceStates<T> {
    application: T,
    /// Of Initial and Handshake packets; `None` once both have ended.
    others: Option<Box<[T; 2]>>,
}

impl<T: SpaceState> SpaceStates<T> {
    /// Makes a `T` for each space.
    pub(crate) fn new(mut make: impl FnMut(SpaceId) -> T) -> Self {
        let others = [make(SpaceId::Initial), make(SpaceId::Handshake)];
        Self { application: make(SpaceId::Application), others: Some(Box::new(others)) }
    }

    /// The value of `space`.
    pub(crate) fn get(&self, space: SpaceId) -> &T {
        match (space, self.others.as_deref()) {
            (SpaceId::Application, _) => &self.application,
            (SpaceId::Initial, Some([initial, _])) => initial,
            (SpaceId::Handshake, Some([_, handshake])) => handshake,
            (_, None) => T::ended(),
        }
    }

    /// The value of `space`.
    pub(crate) fn get_mut(&mut self, space: SpaceId) -> &mut T {
        if space == SpaceId::Application {
            return &mut self.application;
        }
        let [initial, handshake] =
            &mut **self.others.get_or_insert_with(|| Box::new([T::ENDED, T::ENDED]));
        if space == SpaceId::Initial { initial } else { handshake }
    }

    /// The values of all three spaces, each with its space.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, &T)> {
        SpaceId::ALL.into_iter().map(|space| (space, self.get(space)))
    }

    /// The spaces of the handshake have ended.
    pub(crate) fn give_up_handshake(&mut self) {
        self.others = None;
    }
}
