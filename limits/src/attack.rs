//! One attack for each kind of table that a peer can fill.

mod endpoint;
mod floods;
mod http3;
mod packets;
mod streams;

use crate::scene::{Application, Scene};
use clearway_transport::Side;

/// What an attack is done to.
pub enum Target {
    /// A connection whose handshake is confirmed; the victim is the side named.
    Connection(Side, Application),
    /// Whatever the attack makes itself.
    Own,
}

/// A peer that tries to make an endpoint keep more and more.
pub struct Attack {
    /// Its name in `tables.toml` and in the table that is printed.
    pub name: &'static str,
    /// What it is done to.
    pub target: Target,
    /// The attack: ten times what the victim's cap lets it keep, or tens of thousands of packets where
    /// nothing should be kept at all.
    pub drive: fn(&mut Scene),
    /// How many bytes the victim may have allocated for it at most, at any moment.
    pub bound: u64,
    /// Where the bound comes from.
    pub because: &'static str,
}

/// All attacks.
pub fn all() -> Vec<Attack> {
    [
        streams::attacks(),
        packets::attacks(),
        floods::attacks(),
        endpoint::attacks(),
        http3::attacks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Attack {
    /// What the attack is done to, as it is before.
    pub fn scene(&self) -> Scene {
        match self.target {
            Target::Connection(victim, application) => Scene::new(victim, application),
            Target::Own => Scene::new(Side::Server, Application::Idle),
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
