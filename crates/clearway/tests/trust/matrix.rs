//! The trust matrix. A client connects to a server, something changes, and the client connects
//! again with its session: the tables define the required outcome. The handshakes run in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway::rustls::SignatureScheme;
use clearway::rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use clearway::transport::{
    ClientSessions, ClientTrust, ConnectionVersions, NewKeys, ServerSessions, ServerTrust, Session,
    SpaceId, TlsClientConfig, TlsClientSettings, TlsServerConfig, TlsServerSettings,
    TransportError,
};
use clearway::{ClientRoots, EarlyData, TicketKeys, Version};

use crate::authority::Ca::{A, B};
use crate::authority::{Ca, server, server_roots};
use Need::{NotAsked, Optional, Required};
use Outcome::{Full, Refused, Resumed};

/// Whether a server requires client certificates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    NotAsked,
    Optional,
    Required,
}

/// How a server authenticates clients. The authority is unused if the server does not request
/// certificates.
type Policy = (Need, Ca);

/// The outcome of the second connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// The session is resumed, and the application sees a client of this authority.
    Resumed(Option<Ca>),
    /// A full handshake takes place, and the application sees a client of this authority.
    Full(Option<Ca>),
    /// A full handshake begins, and the server rejects the client's certificate or its absence.
    Refused,
}

/// A client with or without a certificate from an authority, two policies, and the required
/// outcomes: first if the session was lost, and then if the second server still has the session or
/// can decrypt its ticket.
type Row = (Option<Ca>, Policy, Policy, Outcome, Outcome);

/// All pairs of policies in which the first policy accepts the client.
#[rustfmt::skip]
const POLICIES: [Row; 25] = [
    // client     before         after          session lost   session there
    (None,    (NotAsked, A), (NotAsked, A), Full(None),    Resumed(None)),
    (None,    (NotAsked, A), (Optional, A), Full(None),    Full(None)),
    (None,    (NotAsked, A), (Optional, B), Full(None),    Full(None)),
    (None,    (NotAsked, A), (Required, A), Refused,       Refused),
    (None,    (NotAsked, A), (Required, B), Refused,       Refused),

    (None,    (Optional, A), (NotAsked, A), Full(None),    Full(None)),
    (None,    (Optional, A), (Optional, A), Full(None),    Resumed(None)),
    (None,    (Optional, A), (Optional, B), Full(None),    Full(None)),
    (None,    (Optional, A), (Required, A), Refused,       Refused),
    (None,    (Optional, A), (Required, B), Refused,       Refused),

    (Some(A), (NotAsked, A), (NotAsked, A), Full(None),    Resumed(None)),
    (Some(A), (NotAsked, A), (Optional, A), Full(Some(A)), Full(Some(A))),
    (Some(A), (NotAsked, A), (Optional, B), Refused,       Refused),
    (Some(A), (NotAsked, A), (Required, A), Full(Some(A)), Full(Some(A))),
    (Some(A), (NotAsked, A), (Required, B), Refused,       Refused),

    (Some(A), (Optional, A), (NotAsked, A), Full(None),    Full(None)),
    (Some(A), (Optional, A), (Optional, A), Full(Some(A)), Resumed(Some(A))),
    (Some(A), (Optional, A), (Optional, B), Refused,       Refused),
    (Some(A), (Optional, A), (Required, A), Full(Some(A)), Full(Some(A))),
    (Some(A), (Optional, A), (Required, B), Refused,       Refused),

    (Some(A), (Required, A), (NotAsked, A), Full(None),    Full(None)),
    (Some(A), (Required, A), (Optional, A), Full(Some(A)), Full(Some(A))),
    (Some(A), (Required, A), (Optional, B), Refused,       Refused),
    (Some(A), (Required, A), (Required, A), Full(Some(A)), Resumed(Some(A))),
    (Some(A), (Required, A), (Required, B), Refused,       Refused),
];

/// The storage of a server's sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    Table,
    Sealed,
}

/// The change between the two connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// Nothing changes.
    Nothing,
    /// The server ends, and another one starts with the same key file.
    Restart,
    /// Another process takes over and receives the secret of the ticket keys.
    HotRestart,
    /// The second connection goes to another server of a fleet, which has the same keys and has
    /// been running for a while.
    Sibling,
    /// The ticket key is replaced once.
    Rotation,
    /// The ticket key is replaced twice.
    TwoRotations,
    /// The authority is replaced while the server runs.
    CaReplaced,
}

/// Whether the second server has the session, either in its table or because it accepts the ticket.
#[rustfmt::skip]
const SURVIVES: [(Change, Storage, /* early data off */ bool, /* on */ bool); 14] = [
    (Change::Nothing,      Storage::Table,  true,  true),
    (Change::Nothing,      Storage::Sealed, true,  true),
    (Change::Restart,      Storage::Table,  false, false),
    // With early data enabled, a new process cannot determine which tickets were used before it
    // started.
    (Change::Restart,      Storage::Sealed, true,  false),
    (Change::HotRestart,   Storage::Table,  false, false),
    (Change::HotRestart,   Storage::Sealed, true,  false),
    (Change::Sibling,      Storage::Table,  false, false),
    (Change::Sibling,      Storage::Sealed, true,  true),
    (Change::Rotation,     Storage::Table,  true,  true),
    (Change::Rotation,     Storage::Sealed, true,  true),
    (Change::TwoRotations, Storage::Table,  true,  true),
    (Change::TwoRotations, Storage::Sealed, false, false),
    (Change::CaReplaced,   Storage::Table,  true,  true),
    (Change::CaReplaced,   Storage::Sealed, true,  true),
];

impl Change {
    /// Returns whether this change can lead from one policy to the other.
    fn leads(self, before: Policy, after: Policy) -> bool {
        match self {
            Self::Nothing | Self::Rotation | Self::TwoRotations => before == after,
            Self::Restart | Self::HotRestart | Self::Sibling => true,
            Self::CaReplaced => {
                before.0 == after.0 && before.0 != NotAsked && (before.1, after.1) == (A, B)
            }
        }
    }
}

/// The private key of the servers' certificate, which counts its signatures: a resumed handshake
/// needs none.
#[derive(Debug)]
struct Counting {
    key: Arc<dyn SigningKey>,
    signatures: AtomicUsize,
}

impl SigningKey for Counting {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.signatures.fetch_add(1, Ordering::Relaxed);
        self.key.choose_scheme(offered)
    }

    fn algorithm(&self) -> clearway::rustls::SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// A server's TLS settings.
struct Server {
    sessions: Arc<TlsServerConfig>,
    roots: ClientRoots,
    key: Arc<Counting>,
}

impl Server {
    fn new((need, ca): Policy, keys: Option<&TicketKeys>, early_data: bool) -> Self {
        let own = server();
        let key = Arc::new(Counting { key: own.key.clone(), signatures: AtomicUsize::new(0) });
        let certified = CertifiedKey::new(own.cert.clone(), key.clone());
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let mut settings = TlsServerSettings::new(resolver, &[b"test"]);
        let roots = ClientRoots::new(ca.roots());
        settings.clients = match need {
            NotAsked => ClientTrust::NotAsked,
            Optional => ClientTrust::Optional(roots.clone()),
            Required => ClientTrust::Required(roots.clone()),
        };
        let sessions = TlsServerConfig::from_settings(settings).unwrap().early_data(early_data);
        let sessions = match keys {
            Some(keys) => sessions.ticket_keys(keys.clone()),
            None => sessions,
        };
        Self { sessions: Arc::new(sessions), roots, key }
    }

    fn signatures(&self) -> usize {
        self.key.signatures.load(Ordering::Relaxed)
    }
}

fn client(certificate: Option<Ca>, early_data: bool) -> Arc<TlsClientConfig> {
    let mut settings = TlsClientSettings::new(ServerTrust::Roots(server_roots()), &[b"test"]);
    settings.certificate = certificate.map(Ca::client);
    Arc::new(TlsClientConfig::from_settings(settings).unwrap().early_data(early_data))
}

/// Passes all output of `from` to `to`; `space` is the packet number space of the output. Returns
/// whether there was any output.
fn say(
    from: &mut dyn Session,
    space: &mut SpaceId,
    to: &mut dyn Session,
) -> Result<bool, TransportError> {
    let mut was_anything = false;
    loop {
        let mut bytes = Vec::new();
        let keys = from.produce(&mut bytes);
        if bytes.is_empty() && keys.is_none() {
            return Ok(was_anything);
        }
        was_anything = true;
        to.receive(*space, &bytes)?;
        match keys {
            Some(NewKeys::Handshake(_)) => *space = SpaceId::Handshake,
            Some(NewKeys::Application { .. }) => *space = SpaceId::Application,
            None => {}
        }
    }
}

/// Connects, with a session if the client has one. Returns the outcome, and whether early data was
/// accepted.
fn connect(client: &Arc<TlsClientConfig>, server: &Server) -> (Outcome, bool) {
    // Sets initial_max_data, since early data requires some limit.
    let parameters = vec![0x04, 0x01, 0x3f];
    let connected = client.clone().connect(Version::V1, &[], "localhost", vec![0x04, 0x01, 0x01]);
    let mut client = connected.unwrap();
    let versions = ConnectionVersions { original: Version::V1, negotiated: Version::V1 };
    let mut session = server.sessions.clone().accept(versions, parameters).unwrap();
    let before = server.signatures();
    let (mut of_client, mut of_server) = (SpaceId::Initial, SpaceId::Initial);
    let mut has_early_data = false;
    loop {
        let said = match say(&mut *client, &mut of_client, &mut *session) {
            Ok(said) => said,
            Err(error) => {
                assert!(error.code.alert().is_some(), "{error}");
                assert_eq!(server.signatures(), before + 1, "only a full handshake is refused");
                assert!(!has_early_data, "early data of a client that is refused");
                return (Refused, false);
            }
        };
        if session.early_keys().is_some() && !has_early_data {
            has_early_data = true;
            // The state that the application sees with the first byte of early data.
            assert_eq!(session.early_data(), EarlyData::Accepted);
            let early = session.peer_certificates().map(<[_]>::to_vec);
            assert_eq!(server.signatures(), before, "early data in a full handshake");
            while say(&mut *session, &mut of_server, &mut *client).unwrap()
                || say(&mut *client, &mut of_client, &mut *session).unwrap()
            {}
            assert_eq!(session.peer_certificates(), early.as_deref());
        }
        if !say(&mut *session, &mut of_server, &mut *client).unwrap() && !said {
            break;
        }
    }
    assert!(!client.is_handshaking() && !session.is_handshaking());
    let identity = Ca::of(session.peer_certificates());
    let outcome = match server.signatures() - before {
        0 => Resumed(identity),
        1 => Full(identity),
        more => panic!("{more} signatures"),
    };
    (outcome, has_early_data)
}

const SECRET: [u8; 32] = [1; 32];

/// Returns the second server after `change`, for one cell of the matrix.
fn after(
    first: Server,
    change: Change,
    (need, ca): Policy,
    keys: Option<&TicketKeys>,
    early_data: bool,
) -> Server {
    let again = keys.map(|_| TicketKeys::new(&SECRET));
    match change {
        Change::Nothing => {}
        Change::Restart | Change::HotRestart => {
            return Server::new((need, ca), again.as_ref(), early_data);
        }
        Change::Sibling => return Server::new((need, ca), keys, early_data),
        Change::Rotation => keys.into_iter().for_each(|keys| keys.rotate(&[2; 32])),
        Change::TwoRotations => {
            keys.into_iter().for_each(|keys| keys.rotate(&[2; 32]));
            keys.into_iter().for_each(|keys| keys.rotate(&[3; 32]));
        }
        Change::CaReplaced => first.roots.replace(ca.roots()).unwrap(),
    }
    first
}

#[test]
fn the_trust_matrix() {
    let mut cells = 0;
    let mut wrong = Vec::new();
    for (certificate, before_policy, after_policy, lost, there) in POLICIES {
        for (change, storage, survives, survives_with_early_data) in SURVIVES {
            if !change.leads(before_policy, after_policy) {
                continue;
            }
            for early_data in [false, true] {
                cells += 1;
                let keys = (storage == Storage::Sealed).then(|| TicketKeys::new(&SECRET));
                let first = Server::new(before_policy, keys.as_ref(), early_data);
                let client = client(certificate, early_data);
                let (outcome, _) = connect(&client, &first);
                let asked = before_policy.0 != NotAsked;
                assert_eq!(outcome, Full(certificate.filter(|_| asked)));

                let second = after(first, change, after_policy, keys.as_ref(), early_data);
                let survives = if early_data { survives_with_early_data } else { survives };
                let expected = if survives { there } else { lost };
                let (outcome, has_early_data) = connect(&client, &second);
                let is_resumed = matches!(outcome, Resumed(_));
                if outcome != expected || has_early_data != (is_resumed && early_data) {
                    wrong.push(format!(
                        "{certificate:?}, {before_policy:?} to {after_policy:?}, {change:?}, {storage:?}, early data \
                         {early_data}: {outcome:?} (early: {has_early_data}) instead of {expected:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cells, 372);
}

/// A replaced authority applies to new sessions too, and restoring an authority works as expected:
/// sessions that began under it are resumed again.
#[test]
fn an_authority_is_replaced_back_and_forth() {
    for need in [Optional, Required] {
        for keys in [None, Some(TicketKeys::new(&SECRET))] {
            let server = Server::new((need, A), keys.as_ref(), false);
            let (of_a, of_b) = (client(Some(A), false), client(Some(B), false));
            assert_eq!(connect(&of_a, &server).0, Full(Some(A)));
            assert_eq!(connect(&of_b, &server).0, Refused);
            server.roots.replace(B.roots()).unwrap();
            assert_eq!(connect(&of_b, &server).0, Full(Some(B)));
            assert_eq!(connect(&of_b, &server).0, Resumed(Some(B)));
            server.roots.replace(A.roots()).unwrap();
            assert_eq!(connect(&of_b, &server).0, Refused);
            assert_eq!(connect(&of_a, &server).0, Resumed(Some(A)));
        }
    }
}

/// A site name separates sites that share keys, and allows servers with separate configurations to
/// resume each other's sessions.
#[test]
fn sessions_of_one_site_are_not_resumed_by_another_with_the_same_keys() {
    let keys = TicketKeys::new(&SECRET);
    let named = |name: &[u8]| {
        let mut server = Server::new((NotAsked, A), Some(&keys), false);
        let sessions = TlsServerConfig::clone(&server.sessions).session_policy(name);
        server.sessions = Arc::new(sessions);
        server
    };
    for (name, expected) in [(&b"one"[..], Resumed(None)), (b"two", Full(None))] {
        let client = client(None, false);
        assert_eq!(connect(&client, &named(b"one")).0, Full(None));
        assert_eq!(connect(&client, &named(name)).0, expected);
    }
}
