//! The servers of a fleet as they are, of which the balancers learn later.

use clearway_balancer::{Pool, Server, ServerKey, ServerState};
use clearway_units::Random;
use clearway_wire::quic_lb::{ConfigId, IdCodec, ServerId};

use super::datagrams::octets;

pub struct FleetServer {
    pub key: ServerKey,
    name: String,
    place: u16,
    /// The length of its connection IDs if they are not those of QUIC-LB.
    pub plain_len: Option<usize>,
    ids: Vec<(ConfigId, ServerId)>,
    pub weight: u32,
    /// What the balancers are to be told.
    pub state: ServerState,
    pub is_alive: bool,
    pub is_in_pool: bool,
    /// The version of the fleet since which it has been draining.
    pub drained_at: u64,
}

pub struct Servers {
    pub all: Vec<FleetServer>,
    /// The configurations, the oldest first.
    pub codecs: Vec<IdCodec>,
    /// Which one of them new IDs follow.
    pub issued: ConfigId,
}

impl Servers {
    pub fn new(count: usize, plain: usize, random: &mut Random) -> Self {
        let codec = random_codec(0, random);
        let mut servers = Self { all: Vec::new(), issued: codec.config(), codecs: vec![codec] };
        (0..count).for_each(|place| servers.add(place < plain, 10, random));
        servers
    }

    pub fn add(&mut self, is_plain: bool, weight: u32, random: &mut Random) {
        let place = self.all.len() as u16;
        let name = format!("server-{place}");
        let lengths = [8, 8, 8, 4, 18, 0];
        let plain_len = is_plain.then(|| lengths[random.below(lengths.len() as u64) as usize]);
        let ids = match plain_len {
            None => self.codecs.iter().map(|codec| random_id(codec, random)).collect(),
            Some(_) => Vec::new(),
        };
        self.all.push(FleetServer {
            key: ServerKey::of(&name),
            name,
            place,
            plain_len,
            ids,
            weight,
            state: ServerState::Active,
            is_alive: true,
            is_in_pool: true,
            drained_at: 0,
        });
    }

    /// Adds a configuration, which no server issues IDs of yet.
    pub fn add_config(&mut self, random: &mut Random) -> ConfigId {
        let last = self.codecs.last().map_or(0, |codec| codec.config().number());
        let codec = random_codec((last + 1) % ConfigId::COUNT as u8, random);
        for server in self.all.iter_mut().filter(|server| server.plain_len.is_none()) {
            server.ids.push(random_id(&codec, random));
        }
        self.codecs.push(codec);
        self.codecs[self.codecs.len() - 1].config()
    }

    pub fn remove_oldest_config(&mut self) {
        let config = self.codecs.remove(0).config();
        self.all.iter_mut().for_each(|server| server.ids.retain(|(of, _)| *of != config));
    }

    /// A connection ID that a server issues now, with its configuration.
    pub fn issue(&self, server: usize, random: &mut Random) -> (Vec<u8>, Option<ConfigId>) {
        let of_server = &self.all[server];
        if let Some(length) = of_server.plain_len {
            return (octets(random, length), None);
        }
        let codec = self.codecs.iter().find(|codec| codec.config() == self.issued).unwrap();
        let (config, id) = of_server.ids.iter().find(|(of, _)| *of == self.issued).unwrap();
        let nonce = octets(random, codec.nonce_len());
        let id = codec.encode(id, &nonce, &[], random.number() as u8).unwrap();
        (id.as_bytes().to_vec(), Some(*config))
    }

    /// The servers of which `is` holds.
    pub fn which(&self, is: impl Fn(&FleetServer) -> bool) -> Vec<usize> {
        let places = 0..self.all.len();
        places.filter(|place| self.all[*place].is_in_pool && is(&self.all[*place])).collect()
    }

    /// What a balancer is told of them.
    pub fn pool(&self) -> Pool {
        let servers = self.all.iter().filter(|server| server.is_in_pool).map(|server| Server {
            name: server.name.clone(),
            address: ([10, 0, 0, 1], 1 + server.place).into(),
            ids: server.ids.clone(),
            id_len: None,
            weight: server.weight,
            state: server.state,
            has_preface: false,
        });
        Pool::new(self.codecs.clone(), servers.collect()).unwrap()
    }
}

/// Long and sparse server IDs, so that no ID that a client invents is one.
fn random_codec(number: u8, random: &mut Random) -> IdCodec {
    let server_id_len = 5 + random.below(4) as usize;
    let nonce_len = 6 + random.below(6) as usize;
    let key = random.chance(0.7).then(|| random.array());
    let config = ConfigId::new(number).unwrap();
    let codec = IdCodec::new(config, server_id_len, nonce_len, key).unwrap();
    codec.stating_length(random.chance(0.3))
}

fn random_id(codec: &IdCodec, random: &mut Random) -> (ConfigId, ServerId) {
    let id = octets(random, codec.server_id_len());
    (codec.config(), ServerId::new(&id).unwrap())
}
