use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::super::files::{Files, Found};
use super::*;

fn client(number: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], number))
}

/// The files of a temporary folder, which is removed at the end.
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

    async fn reader(&self, from: u16, name: &str) -> Reader {
        match self.files.find(client(from), &format!("/{name}")).await {
            Found::File(file) => {
                let length = file.identity.length;
                file.read(client(from), &self.files.store, 0, length)
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
    while let Some(piece) = reader.next().await? {
        all.extend_from_slice(&piece);
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
        let mut reader = scratch.reader(number / 100, "file").await;
        let first = reader.next().await.unwrap().unwrap();
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
    let quiet = scratch.reader(1, "file").await;
    let mut greedy = Vec::new();
    for _ in 0..100 {
        greedy.push(scratch.reader(2, "file").await);
    }
    assert_eq!(scratch.files.store.idle_files(), 1 + OPEN_OF_A_CLIENT);
    assert!(scratch.files.store.idle().files.contains_key(&quiet.kept.key));
}

#[tokio::test]
async fn a_file_that_was_replaced_is_not_mixed_with_the_old_one() {
    let scratch = Scratch::new("replaced", 100);
    let path = scratch.folder.join("file");
    let old = content(200_000);
    for is_closed in [false, true] {
        fs::write(&path, &old).unwrap();
        let mut reader = scratch.reader(1, "file").await;
        let mut all = reader.next().await.unwrap().unwrap().to_vec();
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
    let mut reader = scratch.reader(1, "file").await;
    fs::write(&path, content(100_000)).unwrap();
    assert!(rest(&mut reader).await.unwrap_err().to_string().contains("shorter"));
}

#[tokio::test]
async fn content_counts_until_it_is_released() {
    let scratch = Scratch::new("held", 100);
    fs::write(scratch.folder.join("file"), content(100 << 20)).unwrap();
    let mut reader = scratch.reader(1, "file").await;
    let mut pieces = Vec::new();
    while let Ok(piece) = tokio::time::timeout(Duration::from_millis(500), reader.next()).await {
        pieces.push(piece.unwrap().unwrap());
    }
    // A client gets an eighth of what is free of the 64 MiB.
    let held: usize = pieces.iter().map(Bytes::len).sum();
    assert!(held > 6 << 20 && held <= 8 << 20, "{held}");
    pieces.clear();
    assert!(reader.next().await.unwrap().is_some());
}
