//! The current state of a fleet's servers, which the balancers learn later.

use std::collections::BTreeMap;

use clearway_balancer::{Pool, PoolError, Server, ServerKey, ServerState};
use clearway_units::Random;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

use super::datagrams::octets;
use super::settings::Form;

/// The weight of a server that accepts its full share of new clients.
pub(super) const FULL_WEIGHT: u32 = 10;

/// The lengths of random connection IDs. None has 4 octets, because such IDs collide too often
/// among ten thousand connections.
const OPAQUE_LENGTHS: [usize; 6] = [8, 8, 8, 6, 18, 0];

pub(super) struct FleetServer {
    pub(super) key: ServerKey,
    name: String,
    place: u16,
    /// The length of the server's connection IDs if they are not QUIC-LB IDs.
    pub(super) opaque_len: Option<usize>,
    ids: Vec<(ConfigId, ServerId)>,
    pub(super) weight: u32,
    /// The state that is published to the balancers.
    pub(super) state: ServerState,
    pub(super) is_alive: bool,
    pub(super) is_in_pool: bool,
    /// The fleet version since which the server has been draining.
    pub(super) drained_at: u64,
    /// The fleet version since which the server has been down.
    pub(super) down_at: u64,
}

pub(super) struct Servers {
    pub(super) all: Vec<FleetServer>,
    places: BTreeMap<ServerKey, usize>,
    form: Form,
    /// The connection ID configurations, oldest first.
    pub(super) codecs: Vec<IdCodec>,
    /// The number of configurations added so far.
    pub(super) configs_added: usize,
    /// The configuration of newly issued connection IDs.
    pub(super) issued: ConfigId,
}

impl FleetServer {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Servers {
    pub(super) fn new(form: Form, count: usize, opaque: usize, random: &mut Random) -> Self {
        let codec = random_codec(form, random.below(ConfigId::COUNT as u64) as u8, random);
        let mut servers = Self {
            all: Vec::new(),
            places: BTreeMap::new(),
            form,
            issued: codec.config(),
            codecs: vec![codec],
            configs_added: 1,
        };
        (0..count).for_each(|place| servers.add(place < opaque, FULL_WEIGHT, random));
        servers
    }

    pub(super) fn add(&mut self, is_opaque: bool, weight: u32, random: &mut Random) {
        let place = self.all.len();
        let name = format!("server-{place}");
        let opaque_len = is_opaque.then(|| {
            let kind = random.below(OPAQUE_LENGTHS.len() as u64) as usize;
            OPAQUE_LENGTHS[kind]
        });
        let ids = match opaque_len {
            None => self.codecs.iter().map(|codec| random_id(codec, random)).collect(),
            Some(_) => Vec::new(),
        };
        let key = ServerKey::of(&name);
        self.places.insert(key, place);
        self.all.push(FleetServer {
            key,
            name,
            place: place as u16,
            opaque_len,
            ids,
            weight,
            state: ServerState::Active,
            is_alive: true,
            is_in_pool: true,
            drained_at: 0,
            down_at: 0,
        });
    }

    /// Adds a configuration that no server uses for new connection IDs yet.
    pub(super) fn add_config(&mut self, random: &mut Random) -> ConfigId {
        let last = self.codecs.last().map_or(0, |codec| codec.config().number());
        let codec = random_codec(self.form, (last + 1) % ConfigId::COUNT as u8, random);
        for server in self.all.iter_mut().filter(|server| server.opaque_len.is_none()) {
            server.ids.push(random_id(&codec, random));
        }
        let config = codec.config();
        self.codecs.push(codec);
        self.configs_added += 1;
        config
    }

    pub(super) fn remove_oldest_config(&mut self) {
        let config = self.codecs.remove(0).config();
        self.all.iter_mut().for_each(|server| server.ids.retain(|(of, _)| *of != config));
    }

    /// Returns a connection ID that the server issues at this time, with its configuration.
    pub(super) fn issue(&self, server: usize, random: &mut Random) -> (Vec<u8>, Option<ConfigId>) {
        let of_server = &self.all[server];
        if let Some(length) = of_server.opaque_len {
            return (octets(random, length), None);
        }
        let codec = self.codec(self.issued);
        let id = of_server.ids.iter().find(|(of, _)| *of == self.issued);
        let (config, id) = id.expect("a server has an ID in each configuration");
        let nonce = octets(random, codec.nonce_len());
        let further = octets(random, codec.extra_len());
        let id = codec.encode(id, &nonce, &further, random.number() as u8);
        (
            id.expect("the lengths are valid for the configuration").as_bytes().to_vec(),
            Some(*config),
        )
    }

    /// Returns the codec of a configuration.
    pub(super) fn codec(&self, config: ConfigId) -> &IdCodec {
        let codec = self.codecs.iter().find(|codec| codec.config() == config);
        codec.expect("the issued configuration belongs to the fleet")
    }

    /// Returns the index of the server with this key, if it is alive.
    pub(super) fn alive(&self, key: ServerKey) -> Option<usize> {
        let place = *self.places.get(&key)?;
        let server = &self.all[place];
        (server.is_in_pool && server.is_alive).then_some(place)
    }

    /// Returns the servers that match the predicate `is`.
    pub(super) fn which(&self, is: impl Fn(&FleetServer) -> bool) -> Vec<usize> {
        let places = 0..self.all.len();
        places.filter(|place| self.all[*place].is_in_pool && is(&self.all[*place])).collect()
    }

    /// Returns the description of the servers that a balancer receives.
    pub(super) fn described(&self) -> Vec<Server> {
        let servers = self.all.iter().filter(|server| server.is_in_pool).map(|server| Server {
            name: server.name.clone(),
            address: ([10, 0, 0, 1], 1 + server.place).into(),
            ids: server.ids.clone(),
            id_len: None,
            weight: server.weight,
            state: server.state,
            has_preface: false,
        });
        servers.collect()
    }

    /// Creates a pool from `servers`, which are this fleet's servers in any order.
    ///
    /// # Errors
    /// Returns an error only if this simulation has a bug.
    pub(super) fn pool(&self, servers: Vec<Server>) -> Result<Pool, PoolError> {
        Pool::new(self.codecs.clone(), servers)
    }
}

/// Returns whether a server of a pool accepts new clients, without relying on the balancer's own
/// decision.
pub(super) fn takes_new_clients(server: &Server) -> bool {
    server.state == ServerState::Active && server.weight > 0
}

/// Draws the lengths of the server ID, the nonce, and the octets after them. Server IDs are long
/// and sparse, so that a forged ID is never valid.
fn random_lengths(form: Form, random: &mut Random) -> (usize, usize, usize) {
    if form == Form::Aws {
        return (8, [7, 10][random.below(2) as usize], 0);
    }
    let server_id_len = 5 + random.below(4) as usize;
    // Server ID and nonce fit in one AES pass.
    let nonce_len = match random.chance(0.4) {
        true => 16 - server_id_len,
        false => 6 + random.below(5) as usize,
    };
    let is_room = server_id_len + nonce_len < 19;
    (server_id_len, nonce_len, usize::from(is_room && random.chance(0.5)))
}

fn random_codec(form: Form, number: u8, random: &mut Random) -> IdCodec {
    let form = match form {
        Form::Mixed | Form::Opaque => {
            [Form::Encrypted, Form::Clear, Form::Aws][random.below(3) as usize]
        }
        form => form,
    };
    let (server_id_len, nonce_len, extra_len) = random_lengths(form, random);
    let key = (form == Form::Encrypted).then(|| random.array());
    let config = ConfigId::new(number).expect("there are as many");
    let codec = IdCodec::new(config, server_id_len, nonce_len, key);
    let codec = codec.and_then(|codec| codec.with_extra(extra_len));
    codec.expect("the lengths are permitted").stating_length(random.chance(0.3))
}

fn random_id(codec: &IdCodec, random: &mut Random) -> (ConfigId, ServerId) {
    let id = octets(random, codec.server_id_len());
    (codec.config(), ServerId::new(&id).expect("1 to 15 octets"))
}
