//! Parts of a connection that are packed while it rests.

use core::fmt;
use core::ops::Deref;

/// A part that can be packed.
pub(crate) trait Packing: fmt::Debug + Sized {
    /// Its few bytes, and what cannot be written.
    type Packed: fmt::Debug;

    /// Packs the part, in `room` if it fits there, which is taken then. `None` while there is something in the part that cannot
    /// be packed, or that a timer waits for.
    fn pack(&mut self, room: &mut Box<[u8]>) -> Option<Self::Packed>;

    /// Takes the memory of what was packed.
    fn take_room(packed: &mut Self::Packed) -> Box<[u8]>;

    /// The part, the same as before it was packed.
    fn unpack(packed: &Self::Packed) -> Self;
}

/// A part that is packed while the connection rests, and from then on until it is changed.
#[derive(Debug)]
pub(crate) enum Packable<T: Packing> {
    /// As it works.
    Awake(Box<Awake<T>>),
    /// As it is kept.
    Packed(T::Packed),
}

/// A part as it works.
#[derive(Debug)]
pub(crate) struct Awake<T> {
    part: T,
    /// Memory to pack it in: the allocator would take it from a place that is in no cache.
    room: Box<[u8]>,
}

/// A part to read.
#[derive(Debug)]
pub(crate) enum Reading<'a, T> {
    /// It is awake.
    Awake(&'a T),
    /// It stays packed. This is what it would be.
    Unpacked(Box<T>),
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Awake(part) => part,
            Self::Unpacked(part) => part,
        }
    }
}

impl<T: Packing> Packable<T> {
    pub(crate) fn new(part: T) -> Self {
        Self::Awake(Box::new(Awake { part, room: Box::default() }))
    }

    /// The part, to read it. It stays packed if it is, so that each call unpacks it.
    #[inline]
    pub(crate) fn get(&self) -> Reading<'_, T> {
        match self {
            Self::Awake(awake) => Reading::Awake(&awake.part),
            Self::Packed(packed) => Reading::Unpacked(Box::new(T::unpack(packed))),
        }
    }

    /// The part, to change it. It is awake from then on.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        if let Self::Packed(packed) = self {
            let (part, room) = (T::unpack(packed), T::take_room(packed));
            *self = Self::Awake(Box::new(Awake { part, room }));
        }
        match self {
            Self::Awake(awake) => &mut awake.part,
            Self::Packed(_) => unreachable!("it was unpacked"),
        }
    }

    /// The part, unless it is packed.
    #[inline]
    pub(crate) fn awake(&self) -> Option<&T> {
        match self {
            Self::Awake(awake) => Some(&awake.part),
            Self::Packed(_) => None,
        }
    }

    /// The part, unless it is packed.
    #[inline]
    pub(crate) fn awake_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Awake(awake) => Some(&mut awake.part),
            Self::Packed(_) => None,
        }
    }

    /// Packs the part if it can be.
    pub(crate) fn pack(&mut self) {
        let Self::Awake(awake) = self else { return };
        let Awake { part, room } = &mut **awake;
        if let Some(packed) = part.pack(room) {
            debug_assert_eq!(
                format!("{:#?}", T::unpack(&packed)),
                format!("{part:#?}"),
                "nothing is lost"
            );
            *self = Self::Packed(packed);
        }
    }
}
