//! Attacks: one for each kind of table that a peer can fill.

mod endpoint;
mod floods;
mod http3;
mod packets;
mod qpack;
mod streams;

use crate::scene::{Application, Scene};
use clearway_transport::Side;

/// The victim of an attack.
pub enum Target {
    /// A connection whose handshake is confirmed; the victim is the endpoint on this side.
    Connection(Side, Application),
    /// Something that the attack creates itself, or an endpoint that it sends to from other addresses.
    Own,
}

/// A peer that tries to make an endpoint allocate more and more memory.
pub struct Attack {
    /// Its name in `tables.toml` and in the printed table.
    pub name: &'static str,
    /// The victim.
    pub target: Target,
    /// Performs the attack: sends ten times what the victim may keep, or tens of thousands of
    /// packets if it should keep nothing at all.
    pub drive: fn(&mut Scene),
    /// Maximum number of bytes that the victim may allocate because of it, at any time.
    pub bound: u64,
    /// The reason for the bound.
    pub because: &'static str,
}

/// Returns all attacks.
pub fn all() -> Vec<Attack> {
    [
        streams::attacks(),
        packets::attacks(),
        floods::attacks(),
        endpoint::attacks(),
        http3::attacks(),
        qpack::attacks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Attack {
    /// Creates the scene before the attack.
    pub fn scene(&self) -> Scene {
        match self.target {
            Target::Connection(victim, application) => Scene::new(victim, application),
            Target::Own => Scene::new(Side::Server, Application::Idle),
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
