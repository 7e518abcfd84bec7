use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway::{Certificates, ClientConfig};
use tokio::net::UdpSocket;

use super::super::store::Store;
use super::*;
use crate::certificate::Development;

/// Length of a file that is small enough to be sent at once.
const LENGTH: usize = 5_000;
/// Time limit that is longer than the delay of a task on a busy machine.
const LIMIT: Duration = Duration::from_millis(1_500);
const TIMEOUT: Duration = Duration::from_secs(60);

/// The directions in which a path drops all datagrams.
#[derive(Default)]
struct Drops {
    to_server: AtomicBool,
    to_client: AtomicBool,
}

/// Forwards datagrams to a server and back, except those that it drops. Returns the relay's
/// address.
async fn relay(server: SocketAddr, drops: Arc<Drops>) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let of_client = UdpSocket::bind(any).await.unwrap();
    let of_server = UdpSocket::bind(any).await.unwrap();
    let address = of_client.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut here, mut there, mut client) = ([0; 2048], [0; 2048], any);
        loop {
            tokio::select! {
                Ok((length, from)) = of_client.recv_from(&mut here) => {
                    client = from;
                    if !drops.to_server.load(Ordering::SeqCst) {
                        of_server.send_to(&here[..length], server).await.unwrap();
                    }
                }
                Ok((length, _)) = of_server.recv_from(&mut there) => {
                    if !drops.to_client.load(Ordering::SeqCst) {
                        of_client.send_to(&there[..length], client).await.unwrap();
                    }
                }
            }
        }
    });
    address
}

/// A request that has arrived at a server, over a path that can drop datagrams.
struct Requested {
    folder: PathBuf,
    files: Files,
    drops: Arc<Drops>,
    /// The server's connection and stream.
    connection: Connection,
    send: SendStream,
    /// The client's end of the stream.
    response: Option<RecvStream>,
    _kept: (SendStream, Connection, [Endpoint; 2]),
}

impl Requested {
    async fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("file"), [7; LENGTH]).unwrap();
        let files = Files::new(&folder, false, Store::new(64, 1 << 20)).unwrap();
        let identity = Development::generate().unwrap().identity;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = ServerConfig::with_resolver(Arc::new(Certificates::new([identity]).unwrap()));
        let server = Http09::bind(any, config).unwrap().0;
        let drops = Arc::<Drops>::default();
        let through = relay(server.local_address(), drops.clone()).await;
        let client = Endpoint::client(any).unwrap();
        let config = ClientConfig::dangerous_without_certificate_verification();
        let config = config.application_protocols([PROTOCOL]);
        let connecting = client.connect_with(&config, through, "localhost").unwrap();
        let (connection, of_client) =
            tokio::join!(async { server.accept().await.unwrap().await.unwrap() }, connecting);
        let of_client = of_client.unwrap();
        let (mut asking, response) = of_client.open_bi().await.unwrap();
        asking.write_all(b"GET /file\r\n").await.unwrap();
        let (send, _) = connection.accept_bi().await.unwrap();
        let _kept = (asking, of_client, [server, client]);
        Self { folder, files, drops, connection, send, response: Some(response), _kept }
    }

    /// Sends the file. Returns the outcome, and how much content memory is still in use.
    async fn respond(&mut self) -> (Result<(), String>, u64) {
        let client = self.connection.remote_address();
        let Found::File(file) = self.files.find(client, "/file").await else { panic!("no file") };
        let reader = file.read(client, &self.files.store, 0, LENGTH as u64);
        let sending = send_file(&self.connection, reader, &mut self.send, LIMIT);
        let outcome = tokio::time::timeout(TIMEOUT, sending).await.expect("an end in time");
        (outcome, self.files.store.statistics().held)
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_counts_as_sent_when_all_of_it_is_acknowledged() {
    let mut requested = Requested::new("acknowledged").await;
    assert_eq!(requested.respond().await, (Ok(()), 0));
    let mut response = requested.response.take().unwrap();
    assert_eq!(response.read_to_end(2 * LENGTH).await.unwrap().len(), LENGTH);
}

/// The whole response fits into the client's flow control credit, but no part of it is
/// acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_nobody_acknowledges_is_cut_off_after_the_limit() {
    for of_client in [true, false] {
        let mut requested = Requested::new(&format!("unacknowledged-{of_client}")).await;
        let Drops { to_server, to_client } = &*requested.drops;
        let dropped = if of_client { to_server } else { to_client };
        dropped.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        let (outcome, held) = requested.respond().await;
        assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
        assert_eq!(
            outcome,
            Err(format!("reset because the client has accepted no data for {LIMIT:?}"))
        );
        assert!(held >= LENGTH as u64, "{held}");
    }
}

/// If a client stops a response whose last byte was already sent, it has not accepted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_stopped_at_its_end_is_cut_off() {
    let mut requested = Requested::new("stopped").await;
    requested.drops.to_client.store(true, Ordering::SeqCst);
    let mut response = requested.response.take().unwrap();
    let connection = requested.connection.clone();
    let before = connection.statistics().bytes_sent;
    let stopping = async {
        while connection.statistics().bytes_sent < before + LENGTH as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        response.stop(VarInt::from_u32(5)).unwrap();
    };
    let ((outcome, _), ()) = tokio::join!(requested.respond(), stopping);
    assert_eq!(outcome, Err("the peer stopped the stream with error code 0x5".to_owned()));
}
