//! Each property on hand-made histories: one that violates it, and the nearest that does not.

mod catalogue;
mod cubic;
mod liveness;
mod recovery;
mod safety;
mod story;
mod windows;

pub(super) use story::Story;
