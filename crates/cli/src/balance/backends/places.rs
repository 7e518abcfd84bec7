//! Positions of the configurations and servers in the file, for error messages.

use std::ops::Range;

use clearway_balancer::{Pool, PoolError, Server};
use clearway_wire::quic_lb::{ConfigId, IdCodec};

use super::super::own::Own;
use crate::file_fault::Fault;

/// A position in the text, as a range of bytes.
type Place = Range<usize>;

/// The positions of configurations and servers, in the order of the file.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) configs: Vec<(ConfigId, Place)>,
    pub(super) servers: Vec<ServerPlaces>,
}

/// The positions of a server's description.
#[derive(Debug)]
pub(super) struct ServerPlaces {
    pub(super) name: Place,
    pub(super) address: Place,
    pub(super) ids: Vec<(ConfigId, Place)>,
}

impl Places {
    /// Returns the error for the first server whose address this balancer must not forward to.
    pub(super) fn address_fault(&self, servers: &[Server], own: &Own) -> Option<Fault> {
        servers.iter().zip(&self.servers).find_map(|(server, places)| {
            let why = own.fault(server.address)?;
            let message = format!(
                "{} cannot be a server address: {why}; write the server's own address",
                server.address
            );
            Some(Fault::new(places.address.clone(), message))
        })
    }

    /// Returns the error in this server list, with its position. If two entries conflict, the later
    /// one's position is used.
    pub(super) fn fault(
        &self,
        error: &PoolError,
        configs: &[IdCodec],
        servers: &[Server],
    ) -> Fault {
        let described = || servers.iter().zip(&self.servers).rev();
        let named = |name: &str| described().find(|(server, _)| server.name == name);
        match error {
            PoolError::ConfigTwice(config) => {
                let place = self.configs.iter().rev().find(|(other, _)| other == config);
                let message = format!(
                    "two configs have id = {}; give each a different one, from 0 to 6",
                    config.number()
                );
                Fault::new(place.map(|(_, place)| place.clone()).unwrap_or_default(), message)
            }
            PoolError::NameTwice(name) => {
                let place = named(name).map(|(_, places)| places.name.clone());
                let message = format!("two servers are named {name:?}; give each a different name");
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::AddressTwice { names: [one, other], address } => {
                let later = described().find(|(server, _)| server.address == *address);
                let place = later.map(|(_, places)| places.address.clone());
                let message = format!(
                    "{one:?} and {other:?} have the same address {address}; remove one of them, or correct its address"
                );
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::IdTwice { names: [one, other], config, id } => {
                let later = described().find(|(server, _)| server.ids.contains(&(*config, *id)));
                let place = later.and_then(|(_, places)| places.id_of(*config));
                let message = format!(
                    "{one:?} and {other:?} have the same server ID {id} in config {}; give each a different one",
                    config.number()
                );
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::NoConfig { name, config } => {
                let place = named(name).and_then(|(_, places)| places.id_of(*config));
                let number = config.number();
                let message = format!(
                    "{name:?} has a server ID for config {number}, which does not exist; \
                     add [[config]] with id = {number}, or remove the server ID"
                );
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::IdLength { name, id, expected } => {
                let is_meant = |config: &ConfigId| {
                    let mut configs = configs.iter();
                    configs.any(|it| it.config() == *config && it.server_id_len() == *expected)
                };
                let place = named(name).and_then(|(server, places)| {
                    let mut ids = server.ids.iter();
                    let (config, _) =
                        ids.find(|(config, other)| other == id && is_meant(config))?;
                    places.id_of(*config)
                });
                let message = format!(
                    "the server ID {id} has {} octets, but its config has server-id-length = {expected}; change one of the two",
                    id.as_bytes().len()
                );
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::KeyTwice([one, other]) => {
                let later = described().find(|(server, _)| [one, other].contains(&&server.name));
                let place = later.map(|(_, places)| places.name.clone());
                let message = format!(
                    "the names {one:?} and {other:?} have the same hash; change one of them"
                );
                Fault::new(place.unwrap_or_default(), message)
            }
            PoolError::TooManyServers(_) => {
                let first = self.servers.get(Pool::MAX_SERVERS);
                let place = first.map(|places| places.name.clone());
                let message = format!("{error}; distribute them over several addresses");
                Fault::new(place.unwrap_or_default(), message)
            }
            // `resolve` has already found all other errors.
            error => Fault::new(Place::default(), error.to_string()),
        }
    }
}

impl ServerPlaces {
    /// Returns the position of the server's ID for a configuration.
    fn id_of(&self, config: ConfigId) -> Option<Place> {
        self.ids.iter().find(|(other, _)| *other == config).map(|(_, place)| place.clone())
    }
}
