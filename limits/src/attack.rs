//! Attacks, one for each kind of table that a peer can fill.

mod endpoint;
mod floods;
mod http3;
mod packets;
mod qpack;
mod streams;

use crate::scene::{Application, Scene};
use clearway_transport::Side;

/// The endpoint that an attack targets.
pub enum Target {
    /// A connection whose handshake is confirmed. The victim is the endpoint on the given side.
    Connection(Side, Application),
    /// A target that the attack creates itself, or an endpoint to which the attack sends datagrams
    /// from other addresses.
    Own,
}

/// An attack: a peer tries to make an endpoint allocate more and more memory.
pub struct Attack {
    /// Name of the attack in `tables.toml` and in the printed table.
    pub name: &'static str,
    /// The victim of the attack.
    pub target: Target,
    /// Runs the attack: sends ten times as much data as the victim may store, or tens of thousands
    /// of packets if the victim should store nothing at all.
    pub drive: fn(&mut Scene),
    /// Maximum number of bytes that the victim may have allocated at any time because of the
    /// attack.
    pub bound: u64,
    /// The reason for this bound.
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
    /// Creates the scene in which the attack takes place.
    pub fn scene(&self) -> Scene {
        match self.target {
            Target::Connection(victim, application) => Scene::new(victim, application),
            Target::Own => Scene::new(Side::Server, Application::Idle),
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
