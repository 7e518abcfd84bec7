use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clearway_units::Random;
use futures_util::FutureExt;
use rustix::io::Errno;

use super::super::files::{Files, Found};
use super::*;

fn client(number: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, number, 1], 443))
}

/// The files of a temporary directory, which is removed at the end.
struct Scratch {
    folder: PathBuf,
    files: Files,
}

impl Scratch {
    fn new(name: &str, open_files: usize) -> Self {
        let folder = std::env::temp_dir().join(format!("clearway-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Files::new(&folder, false, Store::new(open_files, 64 << 20)).unwrap();
        Self { folder, files }
    }

    async fn reader(&self, from: SocketAddr, name: &str) -> Reader {
        match self.files.find(from, &format!("/{name}")).await {
            Found::File(file) => {
                let length = file.identity.length;
                file.read(from, &self.files.store, 0, length)
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

async fn rest(reader: &mut Reader) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    while !reader.is_at_end() {
        all.extend_from_slice(&reader.next(PIECE).await?);
    }
    Ok(all)
}

#[tokio::test]
async fn clients_that_read_nothing_keep_few_files_open_and_lose_nothing() {
    let scratch = Scratch::new("open-files", 64);
    let expected = content(200_000);
    fs::write(scratch.folder.join("file"), &expected).unwrap();
    let mut readers = Vec::new();
    for number in 0..300 {
        let mut reader = scratch.reader(client(number as u8 / 100), "file").await;
        let first = reader.next(PIECE).await.unwrap();
        readers.push((reader, first.to_vec()));
        assert!(scratch.files.store.idle_files() <= 64 - READS);
    }
    for (mut reader, mut all) in readers {
        all.extend(rest(&mut reader).await.unwrap());
        assert!(all == expected);
    }
    assert_eq!(scratch.files.store.idle_files(), 0);
}

#[tokio::test]
async fn one_client_does_not_close_the_files_of_another() {
    let scratch = Scratch::new("own-files", 100);
    fs::write(scratch.folder.join("file"), content(100_000)).unwrap();
    let quiet = scratch.reader(client(1), "file").await;
    let mut greedy = Vec::new();
    for port in 0..100 {
        let client = SocketAddr::new(client(2).ip(), port);
        greedy.push(scratch.reader(client, "file").await);
    }
    // A host gets a share of the free part, regardless of its ports.
    let idle = scratch.files.store.idle_files();
    assert!((10..=1 + 84 / 5).contains(&idle), "{idle}");
    assert!(scratch.files.store.idle().files.contains_key(&quiet.kept.key.load(Ordering::Relaxed)));
}

/// A task may be polled long after its file was read.
#[tokio::test]
async fn files_that_were_read_count_as_open_before_their_requests_go_on() {
    let scratch = Scratch::new("read", 400);
    fs::write(scratch.folder.join("file"), content(200_000)).unwrap();
    let mut readers = Vec::new();
    for number in 0..READS as u8 {
        readers.push(scratch.reader(client(number), "file").await);
    }
    let store = &scratch.files.store;
    let mut reading: Vec<_> = readers.iter_mut().map(|reader| Box::pin(reader.next(1))).collect();
    for read in &mut reading {
        // On a busy machine, the read may be ready immediately.
        let _ = read.as_mut().now_or_never();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.idle_files() < READS || store.0.reads.available_permits() < READS {
        assert!(Instant::now() < deadline, "{} files are kept", store.idle_files());
        std::thread::sleep(Duration::from_millis(1));
    }
    // Canceled requests do not leave their files open.
    drop(reading);
    drop(readers);
    assert_eq!(store.idle_files(), 0);
}

#[tokio::test]
async fn a_file_that_was_replaced_is_not_mixed_with_the_old_one() {
    let scratch = Scratch::new("replaced", 100);
    let path = scratch.folder.join("file");
    let old = content(200_000);
    for is_closed in [false, true] {
        fs::write(&path, &old).unwrap();
        let mut reader = scratch.reader(client(1), "file").await;
        let mut all = reader.next(PIECE).await.unwrap().to_vec();
        if is_closed {
            scratch.files.store.idle().close_oldest();
        }
        fs::write(scratch.folder.join("new"), vec![1; 200_000]).unwrap();
        fs::rename(scratch.folder.join("new"), &path).unwrap();
        let outcome = rest(&mut reader).await;
        match is_closed {
            false => {
                all.extend(outcome.unwrap());
                assert!(all == old);
            }
            true => assert!(outcome.unwrap_err().to_string().contains("was changed")),
        }
    }
}

#[tokio::test]
async fn reading_a_truncated_file_fails() {
    let scratch = Scratch::new("shorter", 100);
    let path = scratch.folder.join("file");
    fs::write(&path, content(200_000)).unwrap();
    let mut reader = scratch.reader(client(1), "file").await;
    fs::write(&path, content(100_000)).unwrap();
    assert!(rest(&mut reader).await.unwrap_err().to_string().contains("truncated"));
}

#[tokio::test]
async fn content_counts_until_it_is_released() {
    let scratch = Scratch::new("held", 100);
    fs::write(scratch.folder.join("file"), content(100 << 20)).unwrap();
    let mut reader = scratch.reader(client(1), "file").await;
    let mut pieces = Vec::new();
    while let Ok(piece) = tokio::time::timeout(Duration::from_millis(500), reader.next(PIECE)).await
    {
        pieces.push(piece.unwrap());
    }
    // A host gets a quarter of the part of the 64 MiB that is then free.
    let held: usize = pieces.iter().map(Bytes::len).sum();
    assert!(held > 12 << 20 && held <= (64 << 20) / 5 + PIECE, "{held}");
    pieces.clear();
    assert!(!reader.next(PIECE).await.unwrap().is_empty());
}

/// Only as much of a file is read as the client's flow control credit allows the server to send.
#[tokio::test]
async fn as_much_is_read_as_the_client_permits() {
    let scratch = Scratch::new("credit", 100);
    fs::write(scratch.folder.join("file"), content(200_000)).unwrap();
    let mut reader = scratch.reader(client(1), "file").await;
    for (credit, expected) in [(1, 1), (10_000, 10_000), (1 << 20, PIECE)] {
        assert_eq!(reader.next(credit).await.unwrap().len(), expected);
    }
    assert_eq!(rest(&mut reader).await.unwrap().len(), 200_000 - 1 - 10_000 - PIECE);
}

#[tokio::test]
async fn canceled_requests_take_no_more_threads_than_others() {
    let store = Store::new(64, 64 << 20);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let running = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 * READS {
        let (gate, running) = (gate.clone(), running.clone());
        let call = store.in_background(move || {
            running.fetch_add(1, Ordering::Relaxed);
            // The simulated disk does not respond.
            let _ = gate.lock().unwrap().recv();
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    }
    assert!((1..=READS).contains(&running.load(Ordering::Relaxed)), "{running:?}");
    drop(open);
    // The simulated disk responds again.
    store.in_background(|| Ok(())).await.unwrap();
}

/// Clients start reading, read, stop while they wait, and end in any order, with few files and
/// little memory.
#[tokio::test]
async fn nothing_is_left_of_readers_however_they_end() {
    const LENGTH: usize = 3 * PIECE;
    let scratch = Scratch::new("left", READS + 2);
    fs::write(scratch.folder.join("file"), content(LENGTH)).unwrap();
    for seed in 0..20 {
        let store = Store::new(READS + 2, 8 * PIECE as u64);
        let files = Files::new(&scratch.folder, false, store.clone()).unwrap();
        let mut random = Random::from_number(seed);
        let (mut readers, mut pieces) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let at = random.below(readers.len().max(1) as u64) as usize;
            match random.below(4) {
                0 => {
                    let from = client(random.below(3) as u8);
                    let Found::File(file) = files.find(from, "/file").await else { panic!() };
                    // A file that is only inspected is closed immediately.
                    if random.chance(0.9) {
                        readers.push(file.read(from, &store, 0, LENGTH as u64));
                    }
                }
                1 | 2 if !readers.is_empty() => {
                    let limit = Duration::from_micros(random.below(2_000));
                    let reading: &mut Reader = &mut readers[at];
                    if let Ok(piece) = tokio::time::timeout(limit, reading.next(PIECE)).await {
                        pieces.push(piece.unwrap());
                    }
                }
                _ if random.chance(0.3) && !readers.is_empty() => drop(readers.swap_remove(at)),
                _ => drop(pieces.pop()),
            }
        }
        drop((readers, pieces));
        // A read whose request was dropped ends later.
        let began = Instant::now();
        while store.0.reads.available_permits() < READS {
            assert!(began.elapsed() < Duration::from_secs(10), "seed {seed}");
            tokio::task::yield_now().await;
        }
        let idle = store.idle();
        assert_eq!((idle.files.len(), idle.by_host.len()), (0, 0), "seed {seed}");
        assert_eq!((idle.shares.held(), idle.shares.heaviest()), (0, None), "seed {seed}");
        assert_eq!(store.statistics().held, 0, "seed {seed}");
    }
}

/// Exactly the permitted number of files of different hosts stay open.
#[tokio::test]
async fn as_many_files_stay_open_as_permitted() {
    for most in [0, 1, 8] {
        let scratch = Scratch::new(&format!("permitted-{most}"), READS + most);
        fs::write(scratch.folder.join("file"), content(10)).unwrap();
        let mut readers = Vec::new();
        for number in 0..most + 3 {
            readers.push(scratch.reader(client(number as u8), "file").await);
            assert_eq!(scratch.files.store.idle_files(), most.min(number + 1), "{most}");
        }
        // Closed files are opened again.
        for reader in &mut readers {
            assert_eq!(rest(reader).await.unwrap(), content(10), "{most}");
        }
    }
}

/// An error other than an interruption by a signal is reported, and the read is not repeated.
#[test]
fn what_cannot_be_read_is_an_error() {
    let folder = File::open(std::env::temp_dir()).unwrap();
    let (sender, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(read_at(&folder, &mut [0; 10], 0)));
    let error = outcome.recv_timeout(Duration::from_secs(60)).expect("an end in time").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
}

/// Errors after which a request waits and is finally answered with 503, not with 500.
#[test]
fn errors_that_are_shortages() {
    for (errno, expected) in [
        (Errno::MFILE, true),
        (Errno::NFILE, true),
        (Errno::NOMEM, true),
        (Errno::NOBUFS, true),
        (Errno::AGAIN, true),
        (Errno::IO, false),
        (Errno::ACCESS, false),
        (Errno::NOENT, false),
    ] {
        assert_eq!(is_shortage(&errno.into()), expected, "{errno:?}");
    }
    assert!(!is_shortage(&io::Error::other("not of the system")));
}

/// A request retries only after a shortage, and only until its time limit.
#[tokio::test]
async fn patience_ends() {
    let store = Store::new(64, 64 << 20);
    let (shortage, other) = (Errno::MFILE.into(), Errno::IO.into());
    let mut patience = store.patience();
    assert!(!patience.permits(&other).await);
    // The first pauses are short, and each is twice as long as the one before.
    let begun = Instant::now();
    for number in 0..4 {
        assert!(patience.permits(&shortage).await, "{number}");
    }
    assert!(begun.elapsed() >= PAUSES[0] * 15, "{:?}", begun.elapsed());
    let mut over = Patience { until: Instant::now(), ..store.patience() };
    assert!(!over.permits(&shortage).await);
    // Closing a file ends a pause.
    let mut long = Patience { pause: Duration::from_secs(600), ..store.patience() };
    store.on_closed();
    let permitted = tokio::time::timeout(Duration::from_secs(60), long.permits(&shortage)).await;
    assert!(permitted.expect("the pause ends"));
    assert_eq!(long.pause, PAUSES[1], "the next one is not longer than the longest");
}
