//! The connections in a capture: their IDs, keys and handshake messages.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use aws_lc_rs::aead::quic::HeaderProtectionKey;

use super::frames::Frames;
use super::header::{Header, Kind, V1};
use super::key_log::KeyLog;
use super::keys::{PayloadKeys, Secret, Suite, Unprotected, full_number, unprotect};
use super::sender::Sender;
use super::tls::{ClientHello, CryptoStream};

/// Maximum number of Initial key sets per connection. A Retry packet or a version change adds one.
const MOST_INITIAL_KEYS: usize = 16;

/// The decrypted content of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    pub(crate) number: u64,
    /// The key phase of a 1-RTT packet.
    pub(crate) key_phase: bool,
    pub(crate) frames: Frames,
}

/// A connection in a capture.
#[derive(Default)]
pub(crate) struct Connection {
    /// Connection IDs, indexed by the endpoint that chose them: client, server.
    pub(crate) ids: [BTreeSet<Vec<u8>>; 2],
    /// Destination Connection IDs that the client chose for the server before learning the server's
    /// own ID.
    pub(crate) first_ids: BTreeSet<Vec<u8>>,
    /// The client's latest address.
    pub(crate) client: Option<SocketAddr>,
    /// CRYPTO data of Initial packets and of Handshake packets, by sender.
    initial_crypto: [CryptoStream; 2],
    handshake_crypto: [CryptoStream; 2],
    /// The Initial keys, with the inputs from which they were derived.
    initial_keys: Vec<(Origin, [LevelKeys; 2])>,
    handshake_keys: Option<[LevelKeys; 2]>,
    application_keys: Option<[ApplicationKeys; 2]>,
    /// The QUIC version of the latest long header packet that was decrypted.
    version: u32,
}

/// The inputs from which Initial keys are derived: the version, and a Destination Connection ID of
/// the client.
type Origin = (u32, Vec<u8>);

/// The keys for one direction at one encryption level, and the packet numbers seen with them.
struct LevelKeys {
    header: HeaderProtectionKey,
    payload: PayloadKeys,
    largest: Option<u64>,
}

/// The 1-RTT keys for one direction, including key updates.
struct ApplicationKeys {
    header: HeaderProtectionKey,
    /// The keys of each key phase, in order.
    generations: Vec<PayloadKeys>,
    /// The secret of the latest key generation.
    latest: Secret,
    /// The highest key generation of all decrypted packets.
    current: usize,
    largest: Option<u64>,
}

impl LevelKeys {
    fn new(secret: &Secret) -> Option<Self> {
        let (header, payload) = (secret.header_key()?, secret.payload_keys()?);
        Some(Self { header, payload, largest: None })
    }

    fn open(&mut self, packet: &[u8], offset: usize) -> Option<Opened> {
        let plain = unprotect(&self.header, packet, offset)?;
        let number = full_number(self.largest, plain.number.0, plain.number.1);
        let payload = packet.get(plain.header.len()..)?;
        let payload = self.payload.open(number, &plain.header, payload)?;
        self.largest = self.largest.max(Some(number));
        Some(Opened { number, key_phase: false, frames: Frames::read(&payload)? })
    }
}

impl ApplicationKeys {
    fn new(secret: Secret) -> Option<Self> {
        let (header, payload) = (secret.header_key()?, secret.payload_keys()?);
        let generations = vec![payload];
        Some(Self { header, generations, latest: secret, current: 0, largest: None })
    }

    fn open(&mut self, packet: &[u8], offset: usize) -> Option<Opened> {
        let plain = unprotect(&self.header, packet, offset)?;
        let number = full_number(self.largest, plain.number.0, plain.number.1);
        let key_phase = plain.first & 0x04 != 0;
        let is_current = key_phase == (self.current % 2 == 1);
        let candidates = match is_current {
            true => [Some(self.current), None],
            false => [Some(self.current + 1), self.current.checked_sub(1)],
        };
        let (generation, payload) = candidates.into_iter().flatten().find_map(|generation| {
            Some((generation, self.open_with(generation, number, &plain, packet)?))
        })?;
        self.current = self.current.max(generation);
        self.largest = self.largest.max(Some(number));
        Some(Opened { number, key_phase, frames: Frames::read(&payload)? })
    }

    fn open_with(
        &mut self,
        generation: usize,
        number: u64,
        plain: &Unprotected,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        if generation == self.generations.len() {
            let next = self.latest.next()?;
            self.generations.push(next.payload_keys()?);
            self.latest = next;
        }
        let keys = self.generations.get(generation)?;
        keys.open(number, &plain.header, packet.get(plain.header.len()..)?)
    }
}

impl Connection {
    /// Returns a connection whose server has sent `data` in Handshake packets.
    #[cfg(test)]
    pub(crate) fn with_server_handshake(data: &[u8]) -> Self {
        let mut connection = Self::default();
        connection.handshake_crypto[Sender::Server.index()].insert(0, data);
        connection
    }

    pub(crate) fn client_hello(&self) -> Option<ClientHello> {
        self.initial_crypto[Sender::Client.index()].client_hello()
    }

    /// Returns the CRYPTO data of the server's Handshake packets.
    pub(crate) fn server_handshake(&self) -> &CryptoStream {
        &self.handshake_crypto[Sender::Server.index()]
    }

    /// Returns the secrets for a second pass, based on the keys found in the first pass.
    pub(super) fn prepare_second_reading(&self, log: &KeyLog) -> Option<Secrets> {
        let random = self.client_hello()?.random;
        let suite = self.initial_crypto[Sender::Server.index()].cipher_suite()?;
        let suite = Suite::from_number(suite)?;
        let version = if self.version == 0 { V1 } else { self.version };
        let secret =
            |label: &str| Some(Secret::new(suite, version, log.secret(label, &random)?.to_vec()));
        Some(Secrets {
            handshake: [
                secret("CLIENT_HANDSHAKE_TRAFFIC_SECRET")?,
                secret("SERVER_HANDSHAKE_TRAFFIC_SECRET")?,
            ],
            application: [secret("CLIENT_TRAFFIC_SECRET_0")?, secret("SERVER_TRAFFIC_SECRET_0")?],
        })
    }

    pub(super) fn set_secrets(&mut self, secrets: &Secrets) -> Option<()> {
        let [client, server] = &secrets.handshake;
        self.handshake_keys = Some([LevelKeys::new(client)?, LevelKeys::new(server)?]);
        let [client, server] = secrets.application.clone();
        self.application_keys =
            Some([ApplicationKeys::new(client)?, ApplicationKeys::new(server)?]);
        Some(())
    }

    /// Decrypts an Initial packet with the keys derived from any of the client's Destination
    /// Connection IDs.
    fn open_initial(&mut self, sender: Sender, header: &Header<'_>) -> Option<Opened> {
        match sender {
            Sender::Client => self.add_initial_keys(header.version, header.destination_id.to_vec()),
            Sender::Server => {
                let ids = self.first_ids.clone();
                ids.into_iter().for_each(|id| self.add_initial_keys(header.version, id));
            }
        }
        let mut latest_first = self.initial_keys.iter_mut().rev();
        latest_first.find_map(|((version, _), keys)| {
            let is_same = *version == header.version;
            let keys = is_same.then_some(&mut keys[sender.index()])?;
            keys.open(header.packet, header.number_offset)
        })
    }

    /// Handles a Retry packet, after which the client uses another Destination Connection ID for
    /// its Initial packets.
    pub(super) fn on_retry(&mut self, id: &[u8]) {
        self.first_ids.insert(id.to_vec());
    }

    fn add_initial_keys(&mut self, version: u32, id: Vec<u8>) {
        let is_known = self.initial_keys.iter().any(|(known, _)| *known == (version, id.clone()));
        if is_known || self.initial_keys.len() >= MOST_INITIAL_KEYS {
            return;
        }
        let keys = Secret::initial(version, &id).and_then(|[client, server]| {
            Some([LevelKeys::new(&client)?, LevelKeys::new(&server)?])
        });
        self.initial_keys.extend(keys.map(|keys| ((version, id), keys)));
    }

    /// Decrypts a packet of this connection, and updates the connection's state from its content.
    /// The Destination Connection ID of a 1-RTT packet has `id_length` bytes.
    pub(super) fn open(
        &mut self,
        sender: Sender,
        header: &Header<'_>,
        id_length: usize,
    ) -> Option<Opened> {
        let index = sender.index();
        let opened = match header.kind {
            Kind::Initial => self.open_initial(sender, header)?,
            Kind::Handshake => {
                let keys = &mut self.handshake_keys.as_mut()?[index];
                keys.open(header.packet, header.number_offset)?
            }
            Kind::OneRtt => {
                let keys = &mut self.application_keys.as_mut()?[index];
                keys.open(header.packet, 1 + id_length)?
            }
            _ => return None,
        };
        let crypto = match header.kind {
            Kind::Initial => Some(&mut self.initial_crypto[index]),
            Kind::Handshake => Some(&mut self.handshake_crypto[index]),
            _ => None,
        };
        if let Some(crypto) = crypto {
            self.ids[index].insert(header.source_id.to_vec());
            match sender {
                Sender::Client => drop(self.first_ids.insert(header.destination_id.to_vec())),
                Sender::Server => self.version = header.version,
            }
            for (offset, data) in &opened.frames.crypto {
                crypto.insert(*offset, data);
            }
            self.ids[index].extend(crypto.preferred_address_id());
        }
        self.ids[index].extend(opened.frames.new_connection_ids.iter().cloned());
        Some(opened)
    }
}

/// The secrets of a connection, one from the client and one from the server.
#[derive(Clone)]
pub(super) struct Secrets {
    handshake: [Secret; 2],
    application: [Secret; 2],
}
