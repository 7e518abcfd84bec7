//! Parts of a connection that are packed while it is idle.

use core::fmt;
use core::ops::Deref;

/// A part of a connection that can be packed into a few bytes.
pub(crate) trait Packing: fmt::Debug + Sized {
    /// The packed form: a few bytes, and any values that cannot be serialized.
    type Packed: fmt::Debug;

    /// Packs the part, using and taking the memory in `room` if the packed form fits. Returns
    /// `None` while the part contains something that cannot be packed or on which a timer depends.
    fn pack(&mut self, room: &mut Box<[u8]>) -> Option<Self::Packed>;

    /// Takes the memory of the packed form, for reuse.
    fn take_room(packed: &mut Self::Packed) -> Box<[u8]>;

    /// Returns the part as it was before it was packed.
    fn unpack(packed: &Self::Packed) -> Self;
}

/// A part that is packed when the connection becomes idle, and stays packed until it is changed.
#[derive(Debug)]
pub(crate) enum Packable<T: Packing> {
    /// The unpacked part.
    Unpacked(Box<Unpacked<T>>),
    /// The packed part.
    Packed(T::Packed),
}

/// An unpacked part.
#[derive(Debug)]
pub(crate) struct Unpacked<T> {
    part: T,
    /// Memory for the packed form, kept because a new allocation would not be in any CPU cache.
    room: Box<[u8]>,
}

/// A part that can be read but not modified.
#[derive(Debug)]
pub(crate) enum Reading<'a, T> {
    /// The part is not packed.
    Borrowed(&'a T),
    /// The part stays packed; this is an unpacked copy.
    Unpacked(Box<T>),
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Borrowed(part) => part,
            Self::Unpacked(part) => part,
        }
    }
}

impl<T: Packing> Packable<T> {
    pub(crate) fn new(part: T) -> Self {
        Self::Unpacked(Box::new(Unpacked { part, room: Box::default() }))
    }

    /// Returns the part for reading. If the part is packed, it stays packed, and each call unpacks
    /// a copy.
    #[inline]
    pub(crate) fn get(&self) -> Reading<'_, T> {
        match self {
            Self::Unpacked(unpacked) => Reading::Borrowed(&unpacked.part),
            Self::Packed(packed) => Reading::Unpacked(Box::new(T::unpack(packed))),
        }
    }

    /// Returns the part for modification, unpacking it permanently if necessary.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        if let Self::Packed(packed) = self {
            let (part, room) = (T::unpack(packed), T::take_room(packed));
            *self = Self::Unpacked(Box::new(Unpacked { part, room }));
        }
        match self {
            Self::Unpacked(unpacked) => &mut unpacked.part,
            Self::Packed(_) => unreachable!("it was unpacked"),
        }
    }

    /// Returns the part, unless it is packed.
    #[inline]
    pub(crate) fn unpacked(&self) -> Option<&T> {
        match self {
            Self::Unpacked(unpacked) => Some(&unpacked.part),
            Self::Packed(_) => None,
        }
    }

    /// Returns the part, unless it is packed.
    #[inline]
    pub(crate) fn unpacked_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Unpacked(unpacked) => Some(&mut unpacked.part),
            Self::Packed(_) => None,
        }
    }

    /// Packs the part if possible.
    pub(crate) fn pack(&mut self) {
        let Self::Unpacked(unpacked) = self else { return };
        let Unpacked { part, room } = &mut **unpacked;
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
