//! The handshake: transport parameters, TLS messages, keys, Retry and Version Negotiation.

use clearway_wire::header::{HeaderKind, ProtectedHeader, Retry};
use clearway_wire::{LongPacketType, Version};
use rustls::quic::KeyChange;

use super::{
    CONNECTION_WINDOW, CloseLayer, CloseOrigin, Endpoint, EndpointError, Frame, Level, MAX_STREAMS,
    Parameters, PeerId, Progress, Role, STREAM_WINDOW,
};
use crate::Data;
use crate::quic::config::ParameterEdit;
use crate::quic::keys::Application;
use crate::quic::packet::long_type;
use crate::quic::parameters::identifier;
use crate::quic::record::PacketKind;
use crate::quic::{initial, tls, tls_messages};

/// Maximum number of TLS flights that one call processes.
const MAX_FLIGHTS: usize = 16;

impl Endpoint {
    pub(super) fn start_client(&mut self) -> Result<(), EndpointError> {
        let parameters = self.parameters();
        let tls = tls::client(&self.config, parameters)
            .map_err(|source| EndpointError::Tls { source })?;
        self.keys.early = if self.config.early_data { tls.zero_rtt_keys() } else { None };
        self.tls = Some(tls);
        self.keys.initial = initial::keys(self.version, Role::Client, &self.destination);
        self.advance_tls();
        Ok(())
    }

    /// Returns the encoded transport parameters after the configured changes.
    fn parameters(&self) -> Vec<u8> {
        let mut all = Parameters::default();
        if self.role == Role::Server {
            all.add(Parameters::ORIGINAL_DESTINATION, &self.original_destination);
            all.add(Parameters::RESET_TOKEN, &self.reset_token);
            if let Some(source) = &self.retry_source {
                all.add(Parameters::RETRY_SOURCE, source);
            }
        }
        all.add_integer(Parameters::MAX_IDLE_TIMEOUT, 30_000);
        all.add_integer(Parameters::MAX_DATA, CONNECTION_WINDOW);
        all.add_integer(Parameters::BIDI_LOCAL, STREAM_WINDOW);
        all.add_integer(Parameters::BIDI_REMOTE, STREAM_WINDOW);
        all.add_integer(Parameters::UNI, STREAM_WINDOW);
        all.add_integer(Parameters::MAX_STREAMS_BIDI, MAX_STREAMS);
        all.add_integer(Parameters::MAX_STREAMS_UNI, MAX_STREAMS);
        all.add_integer(Parameters::ACTIVE_ID_LIMIT, 8);
        all.add_integer(Parameters::MAX_DATAGRAM_FRAME_SIZE, 65_535);
        all.add(Parameters::INITIAL_SOURCE, &self.source);
        for edit in &self.config.parameters {
            let id = |name: &str| identifier(name).unwrap_or(u64::MAX >> 2);
            match edit {
                ParameterEdit::Remove { parameter } => all.remove(id(parameter)),
                ParameterEdit::SetInteger { parameter, value } => {
                    all.remove(id(parameter));
                    all.add_integer(id(parameter), value.resolve(&|_| 0));
                }
                ParameterEdit::Set { parameter, value } => all.set(id(parameter), value.bytes()),
                ParameterEdit::Add { parameter, value } => all.add(id(parameter), value.bytes()),
                ParameterEdit::Raw { bytes } => return bytes.bytes().to_vec(),
            }
        }
        all.encode()
    }

    /// Queues the TLS messages that are ready, and installs new keys.
    pub(super) fn advance_tls(&mut self) {
        for _ in 0..MAX_FLIGHTS {
            let Some(tls) = &mut self.tls else { return };
            let mut messages = Vec::new();
            let change = tls.write_hs(&mut messages);
            let is_idle = messages.is_empty() && change.is_none();
            if !messages.is_empty() {
                self.queue_messages(messages);
            }
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    self.keys.handshake = Some(keys);
                    self.write_level = Level::Handshake;
                    self.progress = self.progress.max(Progress::HandshakeKeys);
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.keys.application = Some(Application::new(keys, next));
                    self.write_level = Level::OneRtt;
                }
                None => {}
            }
            if is_idle {
                break;
            }
        }
        self.learn();
    }

    fn queue_messages(&mut self, mut messages: Vec<u8>) {
        let edited_level = match self.role {
            Role::Client => Level::Initial,
            Role::Server => Level::Handshake,
        };
        if self.write_level == edited_level && !self.is_edited {
            self.is_edited = true;
            if !self.config.tls.is_empty() {
                tls_messages::edit(&mut messages, &self.config.tls);
            }
        }
        let size = self.config.datagram_size.saturating_sub(100).clamp(200, 60_000);
        let level = self.write_level;
        for piece in messages.chunks(size) {
            self.queue_frames(level, vec![Frame::tls_message(piece)]);
        }
    }

    /// Takes over the results of TLS: the peer's transport parameters, and whether the handshake is
    /// complete.
    fn learn(&mut self) {
        let Some(tls) = &self.tls else { return };
        // Until the server's parameters arrive, a client that resumes a session has those of the earlier connection,
        // which apply to early data.
        let is_final = self.role == Role::Server || self.keys.application.is_some();
        if self.peer_parameters.is_none()
            && let Some(bytes) = tls.quic_transport_parameters()
        {
            let all = Parameters::decode(bytes);
            self.limits.max_data = all.integer(Parameters::MAX_DATA, 0);
            self.limits.max_streams_bidi = all.integer(Parameters::MAX_STREAMS_BIDI, 0);
            self.limits.max_streams_uni = all.integer(Parameters::MAX_STREAMS_UNI, 0);
            if is_final {
                let token =
                    all.get(Parameters::RESET_TOKEN).and_then(|token| token.try_into().ok());
                self.peer_ids.push(PeerId { sequence: 0, id: self.destination.clone(), token });
                self.peer_parameters = Some(all);
            }
        }
        if self.role == Role::Server && self.keys.early.is_none() {
            self.keys.early = tls.zero_rtt_keys();
        }
        let is_complete = !tls.is_handshaking();
        if is_complete && self.progress < Progress::Complete {
            self.progress = Progress::Complete;
            if self.role == Role::Server {
                self.confirm();
                if self.config.handshake_done {
                    self.queue_frames(Level::OneRtt, vec![Frame::HandshakeDone {}]);
                }
            }
        }
    }

    pub(super) fn confirm(&mut self) {
        self.progress = Progress::Confirmed;
        let [initial, handshake, _] = &mut self.spaces;
        initial.discard();
        // A server still has to acknowledge the client's Finished.
        if self.role == Role::Client {
            handshake.discard();
        }
    }

    /// Processes TLS messages from the peer.
    pub(super) fn on_crypto(&mut self, level: Level, offset: u64, data: &[u8]) {
        let mut messages = Vec::new();
        self.space(level).crypto.insert(offset, data, |bytes| messages.extend_from_slice(bytes));
        let Some(tls) = self.tls.as_mut().filter(|_| !messages.is_empty()) else { return };
        if let Err(error) = tls.read_hs(&messages) {
            let alert = tls.alert().map_or(0x50, u8::from);
            self.fail(0x100 | u64::from(alert), &error.to_string());
        }
        self.advance_tls();
    }

    /// Ends the connection because of an error that prevents the probe from continuing.
    fn fail(&mut self, code: u64, reason: &str) {
        let frame = Frame::ConnectionClose {
            layer: CloseLayer::Transport,
            code: code.into(),
            frame_type: 6.into(),
            reason: Data::default(),
        };
        for level in [Level::Initial, Level::Handshake] {
            if self.keys.can_send(level) {
                self.queue_frames(level, vec![frame.clone()]);
            }
        }
        self.end(CloseOrigin::Local, CloseLayer::Transport, code, 6, reason.into());
    }

    /// Processes the first datagram of a client.
    pub(super) fn on_first_datagram(&mut self, path: usize, datagram: &[u8]) {
        let Ok(header) = ProtectedHeader::decode(datagram, self.source.len()) else { return };
        let HeaderKind::Long {
            packet_type: LongPacketType::Initial,
            version,
            destination,
            source,
            token,
            ..
        } = header.kind
        else {
            return;
        };
        if self.retry_source.is_some() && token.is_empty() {
            return;
        }
        self.version = version;
        self.config.version = version;
        if self.original_destination.is_empty() {
            self.original_destination = destination.as_bytes().to_vec();
        }
        self.destination = source.as_bytes().to_vec();
        self.keys.initial = initial::keys(version, Role::Server, destination.as_bytes());
        if !self.is_released {
            if self.held.len() < 16 {
                self.held.push((path, datagram.to_vec()));
            }
            return;
        }
        let parameters = self.parameters();
        match tls::server(&self.config, parameters) {
            Ok(tls) => self.tls = Some(tls),
            Err(error) => return self.fail(1, &error.to_string()),
        }
        self.process_datagram(path, datagram);
    }

    /// Makes a server process the client's first datagrams, unless they have been answered with a
    /// Retry packet.
    pub fn release(&mut self) {
        self.is_released = true;
        for (path, datagram) in core::mem::take(&mut self.held) {
            let now = self.now;
            self.receive(now, path, &datagram);
        }
    }

    /// Processes a Retry packet (RFC 9000 §17.2.5.2).
    pub(super) fn on_retry(&mut self, path: usize, retry: &Retry<'_>, size: usize) {
        let original = &self.original_destination;
        let expected = initial::retry_tag(retry.version, original, retry.without_tag);
        let is_valid = expected == Some(retry.integrity_tag);
        let mut record = self.packet_record(PacketKind::Retry, path, size);
        record.destination = Data::clipped(retry.destination.as_bytes(), 20);
        record.source = Some(Data::clipped(retry.source.as_bytes(), 20));
        record.token = Data::clipped(retry.token, 256);
        record.note = (!is_valid).then(|| "the integrity tag does not match".to_owned());
        self.record.push(record);
        let is_usable = self.role == Role::Client && self.retry_source.is_none() && is_valid;
        if !is_usable || self.progress > Progress::Start {
            return;
        }
        self.destination = retry.source.as_bytes().to_vec();
        self.retry_source = Some(self.destination.clone());
        self.token = retry.token.to_vec();
        self.keys.initial = initial::keys(self.version, Role::Client, &self.destination);
        self.space(Level::Initial).requeue_all();
    }

    /// Sends a Retry packet with this token, as a server that has not been released.
    pub fn send_retry(&mut self, token: &[u8], corrupt_tag: bool) {
        let source = self.random.array::<8>().to_vec();
        let version = self.version;
        let mut packet = vec![0xc0 | long_type(version, 3)];
        packet.extend_from_slice(&version.0.to_be_bytes());
        for id in [&self.destination, &source] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        packet.extend_from_slice(token);
        let tag =
            initial::retry_tag(version, &self.original_destination, &packet).unwrap_or_default();
        packet.extend_from_slice(&tag);
        if corrupt_tag && let Some(last) = packet.last_mut() {
            *last ^= 0xff;
        } else {
            self.retry_source = Some(source);
            self.held.clear();
        }
        self.send_special(PacketKind::Retry, packet);
    }

    /// Sends a Version Negotiation packet with these versions.
    pub fn send_version_negotiation(&mut self, versions: &[u32]) {
        let mut packet = vec![0xc0];
        packet.extend_from_slice(&Version::NEGOTIATION.0.to_be_bytes());
        // The IDs of the client's packet, exchanged (RFC 9000 §17.2.1).
        for id in [&self.destination, &self.original_destination] {
            packet.push(id.len() as u8);
            packet.extend_from_slice(id);
        }
        versions.iter().for_each(|version| packet.extend_from_slice(&version.to_be_bytes()));
        self.send_special(PacketKind::VersionNegotiation, packet);
    }

    /// Sends a stateless reset with `token`, or with the token in this endpoint's transport
    /// parameters.
    pub fn send_stateless_reset(&mut self, token: Option<[u8; 16]>) {
        let mut packet = vec![0; 43];
        self.random.fill(&mut packet);
        if let Some(first) = packet.first_mut() {
            *first = 0x40 | *first & 0x3f;
        }
        packet.extend_from_slice(&token.unwrap_or(self.reset_token));
        self.send_special(PacketKind::StatelessReset, packet);
    }

    /// Switches to the next keys for 1-RTT packets (RFC 9001 §6.1). A no-op if there are no 1-RTT
    /// keys.
    pub fn update_keys(&mut self) {
        if let Some(keys) = &mut self.keys.application {
            keys.update();
        }
    }

    /// Migrates to a new path, using another of the peer's connection IDs unless `keep_id` is set.
    /// Returns the number of the path.
    ///
    /// # Errors
    /// If the peer has not issued another connection ID.
    pub fn migrate(&mut self, keep_id: bool) -> Result<usize, EndpointError> {
        if !keep_id && !self.destination.is_empty() {
            let current = self
                .peer_ids
                .iter()
                .find(|id| id.id == self.destination)
                .map_or(0, |id| id.sequence);
            let next = self.peer_ids.iter().find(|id| id.sequence > current);
            self.destination = next.ok_or(EndpointError::NoConnectionId)?.id.clone();
        }
        self.path = self.path.saturating_add(1);
        Ok(self.path)
    }
}
