use std::net::UdpSocket;
use std::os::fd::AsFd;

use proptest::prelude::*;

use super::super::sockets::sockets;
use super::*;

fn of_system() -> (Files, BTreeMap<SocketKey, Socket>) {
    let files = Files::of_system();
    let Reading::Seen(sockets) = sockets(Err(Missing::Kernel), &files) else {
        panic!("sockets can be read")
    };
    (files, sockets)
}

fn inode(socket: &UdpSocket) -> u64 {
    rustix::fs::fstat(socket.as_fd()).unwrap().st_ino
}

#[test]
fn a_stat_with_any_name() {
    let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
    let stat = parse_stat(&format!("77 (a) (b c) {rest}")).unwrap();
    assert_eq!((&stat.name[..], stat.state, stat.started), ("a) (b c", RunState::Sleeping, 4711));
    let state = |state| parse_stat(&format!("7 (a) {state}{}", &rest[1..])).unwrap().state;
    assert_eq!(state("T"), RunState::Stopped);
    assert_eq!((state("D"), state("Z")), (RunState::Blocked, RunState::Ended));
    for damaged in ["", "77", "77 (a", "77 (a) S 1 2", "77 (a)"] {
        assert!(parse_stat(damaged).is_err(), "{damaged:?}");
    }
}

#[test]
fn only_sockets_have_inodes_here() {
    assert_eq!(socket_inode(Path::new("socket:[1234]")), Some(1234));
    for other in ["pipe:[1234]", "/dev/null", "socket:[", "socket:[]", "socket:[x]"] {
        assert_eq!(socket_inode(Path::new(other)), None);
    }
}

#[test]
fn the_owner_of_a_socket_is_found_and_forgotten() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let inode = inode(&socket);
    let own = std::process::id();
    let (files, mut sockets) = of_system();
    let mut owners = Owners::new(Some(own), &files);
    let Reading::Seen(processes) = owners.enter(&mut sockets, &files) else {
        panic!("own process")
    };
    let found = sockets.values().find(|socket| socket.inode == inode).unwrap();
    assert_eq!(found.owners, [own]);
    let process = &processes[&own];
    assert!(process.threads.len() > 1 && process.started > 0);
    assert!(process.threads.values().any(|thread| thread.ran > 0));
    drop(socket);
    let (files, mut sockets) = of_system();
    owners.enter(&mut sockets, &files);
    assert!(!owners.of.contains_key(&inode));
}

#[test]
fn a_process_that_vanishes_takes_its_sockets_along() {
    let root = std::env::temp_dir().join(format!("clearway-processes-{}", std::process::id()));
    let process = root.join("proc/77");
    fs::create_dir_all(process.join("fd")).unwrap();
    fs::create_dir_all(process.join("task/77")).unwrap();
    let text = "77 (reader) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
    fs::write(process.join("stat"), text).unwrap();
    fs::write(process.join("task/77/stat"), text).unwrap();
    fs::write(process.join("task/77/schedstat"), "10 20 3\n").unwrap();
    std::os::unix::fs::symlink("socket:[5157]", process.join("fd/3")).unwrap();
    std::os::unix::fs::symlink("socket:[5158]", process.join("fd/4")).unwrap();
    let files = Files::below(&root);
    let net = root.join("proc/thread-self/net");
    fs::create_dir_all(&net).unwrap();
    let heading = "sl local_address";
    let line = "1: 0100007F:1151 00000000:0000 07 0:0 00:0 0 1000 0 5157 2 0 908";
    fs::write(net.join("udp"), format!("{heading}\n{line}\n")).unwrap();
    let read = || match sockets(Err(Missing::Kernel), &files) {
        Reading::Seen(sockets) => sockets,
        Reading::Missing(missing) => panic!("{missing:?}"),
    };
    let mut owners = Owners::new(None, &files);
    let mut sockets = read();
    let Reading::Seen(processes) = owners.enter(&mut sockets, &files) else { panic!("readable") };
    assert_eq!(sockets[&SocketKey(5157)].owners, [77]);
    assert_eq!((&processes[&77].name[..], processes[&77].threads[&77].waited), ("reader", 20));
    // The ID has been reused by another process, which does not have the socket open.
    fs::write(process.join("stat"), text.replace("4711", "4712")).unwrap();
    fs::remove_file(process.join("fd/3")).unwrap();
    let mut sockets = read();
    let processes = owners.enter(&mut sockets, &files);
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(processes, Reading::Seen(BTreeMap::new()));
    assert!(sockets[&SocketKey(5157)].owners.is_empty());
    assert!(owners.of.is_empty());
}

proptest! {
    #[test]
    fn no_text_panics(text in "[0-9A-Z() ]{0,80}") {
        let _ = (parse_stat(&text), socket_inode(Path::new(&text)));
    }
}
