//! For each finding: a history that shows it, and the nearest that does not.

mod catalogue;
mod delivery;
mod peer;
mod story;
mod window;
