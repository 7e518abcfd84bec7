//! What a server holds of a request that it reads slowly (h3 issue 308).

use core::future::ready;
use core::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use clearway::{TransportConfig, VarInt};
use h3::server;
use http::Response;
use tokio::sync::Semaphore;

use crate::backend::{Backend, Clearway};
use crate::frames::{Frames, POST};
use crate::support::{next_request, run};

const WINDOW: u64 = 64 << 10;
const FRAME: usize = 1 << 10;
const FRAMES: usize = 1 << 10;

/// Counters of the bytes on the client's stream.
#[derive(Default)]
struct Counters {
    /// How many the server's flow control has allowed and the client has sent.
    sent: AtomicU64,
    /// How many the server's application has read, with the headers of their frames.
    read: AtomicU64,
    /// The largest difference so far.
    most: AtomicU64,
}

impl Counters {
    fn sent(&self, length: usize) {
        let sent = self.sent.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        self.most.fetch_max(sent - self.read.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn read(&self, length: usize) {
        self.read.fetch_add(length as u64, Ordering::Relaxed);
    }
}

fn config() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(WINDOW)
        .max_stream_receive_window(WINDOW)
        .build()
        .unwrap()
}

fn head() -> Bytes {
    Frames::new().headers(POST).bytes().into()
}

fn frame() -> Bytes {
    Frames::new().data(&[0; FRAME]).bytes().into()
}

/// A client sends DATA frames as fast as flow control permits, to a server that reads one whenever
/// the client must wait. The server holds at most two receive windows.
#[test]
fn a_slow_reader_holds_two_windows() {
    run(async {
        let backend = Clearway::with(config());
        let (counters, turns) = (Counters::default(), Semaphore::new(0));
        let (client, server) = tokio::join!(backend.client(), backend.accept());
        tokio::join!(send(client, &counters, &turns), serve(server, &counters, &turns));
        let most = counters.most.load(Ordering::Relaxed);
        assert!(most > WINDOW / 2, "the client was never ahead of the server: {most}");
        assert!(most <= 2 * WINDOW, "the server held {most} bytes");
    });
}

/// Sends a request on a stream without h3, so that each byte waits for the server's flow control.
/// While it waits, the server may take one turn after another, and sends something after each.
async fn send(connection: clearway::Connection, counters: &Counters, turns: &Semaphore) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let mut is_servers_turn = false;
    for mut rest in core::iter::once(head()).chain(core::iter::repeat_n(frame(), FRAMES)) {
        while !rest.is_empty() {
            tokio::select! {
                biased;
                credit = send.credit(rest.len()) => {
                    let part = rest.split_to(credit.unwrap());
                    counters.sent(part.len());
                    send.write_chunk(part).await.unwrap();
                }
                () = ready(()), if !is_servers_turn => {
                    is_servers_turn = true;
                    turns.add_permits(1);
                }
                received = recv.read_chunk(usize::MAX) => {
                    received.unwrap().unwrap();
                    is_servers_turn = false;
                }
            }
        }
    }
    send.finish().unwrap();
    // The server reads the rest.
    turns.close();
    recv.read_to_end(1 << 20).await.unwrap();
    connection.close(VarInt::from_u32(0x100), b"");
}

/// Reads a frame in each turn, and sends a byte.
async fn serve(connection: clearway_h3::Connection, counters: &Counters, turns: &Semaphore) {
    let mut server = server::Connection::<_, Bytes>::new(connection).await.unwrap();
    let (_, mut stream) = next_request(&mut server).await;
    counters.read(head().len());
    stream.send_response(Response::new(())).await.unwrap();
    let mut content = 0;
    loop {
        // Fails when all turns are the server's.
        if let Ok(turn) = turns.acquire().await {
            turn.forget();
        }
        let Some(piece) = stream.recv_data().await.unwrap() else { break };
        let (before, length) = (content, piece.remaining());
        content += length;
        let headers = content.div_ceil(FRAME) - before.div_ceil(FRAME);
        counters.read(length + headers * (frame().len() - FRAME));
        stream.send_data(Bytes::from_static(b".")).await.unwrap();
    }
    assert_eq!(content, FRAMES * FRAME);
    stream.finish().await.unwrap();
    // The client closes the connection when it has the end of the response.
    server.accept().await.err().unwrap();
}
