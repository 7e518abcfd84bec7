use std::net::Ipv6Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake};

use clearway_units::Random;

use super::*;

const LIMIT: u64 = 256 << 20;
const PIECE: u64 = 64 << 10;

fn client(network: u8, host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, network, host], port))
}

/// A client that accepts no data: its responses use as much memory as allowed, until they are
/// reset.
struct Greedy {
    responses: Vec<(Share, Arc<Mutex<Vec<Held>>>)>,
}

impl Greedy {
    fn new(memory: &Arc<Memory>, client: SocketAddr, responses: usize) -> Self {
        let begin = |_| {
            let (share, held) = (memory.share(client), Arc::<Mutex<Vec<Held>>>::default());
            let of_reset = held.clone();
            share.on_shortage(move || drop(std::mem::take(&mut *of_reset.lock().unwrap())));
            (share, held)
        };
        let greedy = Self { responses: (0..responses).map(begin).collect() };
        while greedy.responses.iter().any(|(share, held)| {
            let more = share.try_hold(PIECE);
            more.map(|more| held.lock().unwrap().push(more)).is_ok()
        }) {}
        greedy
    }

    fn accept_all(&self) {
        for (_, held) in &self.responses {
            let accepted = std::mem::take(&mut *held.lock().unwrap());
            drop(accepted);
        }
    }

    fn held(&self) -> u64 {
        self.responses.iter().map(|(_, held)| held.lock().unwrap().len() as u64 * PIECE).sum()
    }
}

/// A response's reset callback refers to the memory that it releases.
impl Drop for Greedy {
    fn drop(&mut self) {
        self.accept_all();
    }
}

/// Connections from different ports of one host are counted against one share.
#[tokio::test]
async fn a_host_has_one_share_whatever_its_ports() {
    let memory = Memory::new(LIMIT);
    let greedy: Vec<_> = (0..120).map(|port| Greedy::new(&memory, client(1, 1, port), 1)).collect();
    assert!(greedy.iter().map(Greedy::held).sum::<u64>() <= LIMIT / 5 + PIECE);
    assert!(memory.share(client(2, 1, 1)).try_hold(PIECE).is_ok());
    drop(greedy);
    assert!(memory.lock().responses.is_empty());
    assert_eq!(memory.statistics(), ContentStatistics { limit: LIMIT, held: 0, resets: 0 });
}

/// Returns a content memory, and its clock in seconds.
fn with_clock(limit: u64) -> (Arc<Memory>, Arc<AtomicU64>) {
    let clock = Arc::<AtomicU64>::default();
    let of_memory = clock.clone();
    let now = move || Duration::from_secs(of_memory.load(Ordering::Relaxed));
    (Memory::with_clock(limit, now), clock)
}

/// A new client is served, no matter how many hosts use their maximum, and the hosts that use the
/// most lose a response.
#[tokio::test]
async fn a_newcomer_is_served_whatever_others_hold() {
    let (memory, clock) = with_clock(8 << 20);
    let greedy: Vec<_> = (0..100)
        .map(|number: u16| {
            let prefix = Ipv6Addr::from_bits((0x2001_0db8 << 96) | (u128::from(number) << 80));
            Greedy::new(&memory, SocketAddr::from((prefix, 1)), 4)
        })
        .collect();
    let newcomer = memory.share(client(1, 1, 1));
    let shortage = newcomer.try_hold(PIECE).unwrap_err();
    // No response has been blocked for long enough.
    assert_eq!(memory.make_room(newcomer.number, shortage), TIMEOUT);
    assert_eq!(memory.statistics().resets, 0);
    let heaviest = greedy[0].held();
    clock.store(3, Ordering::Relaxed);
    let held = newcomer.hold(PIECE).await;
    assert!(greedy[0].held() < heaviest, "the heaviest gives something back");
    assert!((1..=4).contains(&memory.statistics().resets));
    drop((greedy, held, newcomer));
    assert_eq!((memory.statistics().held, memory.lock().blocked.len()), (0, 0));
}

/// A client behind the same NAT as one that accepts no data is served, and no response to another
/// host is reset for it.
#[tokio::test]
async fn a_host_that_holds_its_share_gives_up_its_own_longest_blocked_response() {
    let (memory, clock) = with_clock(LIMIT);
    let (nat, elsewhere) = (client(1, 1, 1), client(2, 1, 1));
    let other = Greedy::new(&memory, elsewhere, 1);
    let first = Greedy::new(&memory, nat, 1);
    clock.store(1, Ordering::Relaxed);
    let second = Greedy::new(&memory, nat, 1);
    let third = memory.share(nat);
    while third.try_hold(PIECE).map(std::mem::forget).is_ok() {}
    clock.store(3, Ordering::Relaxed);
    let (of_other, of_second) = (other.held(), second.held());
    let _held = memory.share(nat).hold(PIECE).await;
    assert_eq!((first.held(), second.held(), other.held()), (0, of_second, of_other));
}

/// If a network has used up its share, a response to its heaviest host is reset, and no response to
/// another network.
#[tokio::test]
async fn a_network_that_holds_its_share_gives_up_a_response_of_its_heaviest_host() {
    let (memory, clock) = with_clock(LIMIT);
    let elsewhere = Greedy::new(&memory, client(2, 1, 1), 1);
    let heavy = Greedy::new(&memory, client(1, 1, 1), 1);
    let light = memory.share(client(1, 2, 1));
    let _held = light.try_hold(PIECE).unwrap();
    light.on_shortage(|| panic!("the lighter host is reset"));
    assert!(heavy.held() > PIECE);
    clock.store(3, Ordering::Relaxed);
    let newcomer = memory.share(client(1, 2, 2));
    let of_elsewhere = elsewhere.held();
    assert_eq!(memory.make_room(newcomer.number, Shortage::Network), TIMEOUT);
    assert_eq!((heavy.held(), elsewhere.held()), (0, of_elsewhere));
    assert_eq!(memory.statistics().resets, 1);
}

/// A response can be reset only after its client has accepted no data for two seconds.
#[test]
fn a_blocked_response_has_two_seconds() {
    let (memory, clock) = with_clock(LIMIT);
    let blocked = Greedy::new(&memory, client(1, 1, 1), 1);
    let newcomer = memory.share(client(1, 1, 2));
    for (second, wait, resets) in [(0, TIMEOUT, 0), (1, TIMEOUT / 2, 0), (2, TIMEOUT, 1)] {
        clock.store(second, Ordering::Relaxed);
        assert_eq!(memory.make_room(newcomer.number, Shortage::Host), wait, "{second}");
        assert_eq!(memory.statistics().resets, resets, "{second}");
    }
    assert_eq!(blocked.held(), 0);
    // A response is reset only once.
    assert_eq!(memory.make_room(newcomer.number, Shortage::Host), TIMEOUT);
    assert_eq!(memory.statistics().resets, 1);
}

/// While less than a quarter of the memory is free, responses to the hosts that use the most are
/// reset, even if only a single host has used up its share. The longest blocked response of the
/// heaviest host is first. If it is not blocked for long enough, that of a lighter host is reset.
#[test]
fn while_memory_is_short_the_heaviest_hosts_that_are_blocked_give_up() {
    let (memory, clock) = with_clock(LIMIT);
    let mut greedy = Vec::new();
    while memory.statistics().held <= LIMIT * 3 / 4 {
        greedy.push(Greedy::new(&memory, client(greedy.len() as u8, 1, 1), 1));
    }
    let held: Vec<_> = greedy.iter().map(Greedy::held).collect();
    assert!(held.is_sorted_by(|one, other| one > other), "{held:?}");
    clock.store(1, Ordering::Relaxed);
    // The heaviest host accepts data.
    drop(greedy[0].responses[0].1.lock().unwrap().pop());
    clock.store(2, Ordering::Relaxed);
    let last = greedy.len() - 1;
    let newcomer = memory.share(client(last as u8, 1, 2));
    memory.make_room(newcomer.number, Shortage::Host);
    let now: Vec<_> = greedy.iter().map(Greedy::held).collect();
    assert_eq!((now[0], now[1]), (held[0] - PIECE, 0), "the second has been blocked for 2 s");
    assert_eq!((&now[2..], memory.statistics().resets), (&held[2..], 1));
    // Now enough memory is free, so that one of the host's own responses is reset.
    assert!(memory.statistics().held <= LIMIT * 3 / 4);
    memory.make_room(newcomer.number, Shortage::Host);
    assert_eq!((greedy[0].held(), greedy[last].held()), (held[0] - PIECE, 0));
}

#[test]
fn debug_output_has_the_amounts() {
    let (memory, clock) = with_clock(1 << 20);
    clock.store(3, Ordering::Relaxed);
    let share = memory.share(client(1, 2, 3));
    let _held = share.try_hold(1000).unwrap();
    let expected = "Memory(ContentStatistics { limit: 1048576, held: 1000, resets: 0 })";
    assert_eq!(format!("{memory:?}"), expected);
    let response = format!("{:?}", memory.lock().responses[&share.number]);
    assert_eq!(response, "Response(10.0.1.2:3, 1000, 3s)");
}

/// A client that accepts data from time to time is not blocked.
#[test]
fn a_response_that_is_accepted_is_not_reset() {
    let (memory, clock) = with_clock(LIMIT);
    let slow = Greedy::new(&memory, client(1, 1, 1), 1);
    for second in 1..10 {
        clock.store(second, Ordering::Relaxed);
        let accepted = slow.responses[0].1.lock().unwrap().pop();
        drop(accepted);
        let neighbor = memory.share(client(1, 1, 2));
        let wait = memory.make_room(neighbor.number, Shortage::Host);
        assert_eq!((wait, memory.statistics().resets), (TIMEOUT, 0));
    }
}

/// A thousand users behind one NAT who accept content are all served.
#[tokio::test]
async fn a_thousand_users_of_one_address_are_served() {
    let memory = Memory::new(LIMIT);
    let users = (0..1000).map(|port| {
        let memory = memory.clone();
        tokio::spawn(async move {
            let share = memory.share(client(1, 1, port));
            for _ in 0..20 {
                let held = share.hold(PIECE).await;
                tokio::task::yield_now().await;
                drop(held);
            }
        })
    });
    for user in users.collect::<Vec<_>>() {
        user.await.unwrap();
    }
    assert_eq!(memory.statistics(), ContentStatistics { limit: LIMIT, held: 0, resets: 0 });
}

/// Responses to one host get memory in order: a large one is not starved by later small ones.
#[tokio::test]
async fn responses_to_a_host_wait_in_order() {
    let (memory, _) = with_clock(LIMIT);
    let first = Greedy::new(&memory, client(1, 1, 1), 1);
    let (large, small) = (memory.share(client(1, 1, 2)), memory.share(client(1, 1, 3)));
    let mut larger = Box::pin(large.hold(4 * PIECE));
    let mut smaller = Box::pin(small.hold(PIECE));
    let zero = Duration::ZERO;
    assert!(tokio::time::timeout(zero, &mut larger).await.is_err());
    // There would be room for the smaller response.
    for _ in 0..2 {
        let accepted = first.responses[0].1.lock().unwrap().pop();
        drop(accepted);
        assert!(tokio::time::timeout(zero, &mut smaller).await.is_err());
    }
    first.accept_all();
    let held = larger.await;
    drop((held, smaller.await));
    assert!(memory.lock().waiting.is_empty());
}

/// Records that a task was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A response that is waiting for memory.
struct Waiter {
    future: Pin<Box<dyn Future<Output = Held> + Send>>,
    flag: Arc<Flag>,
    /// The number of the response.
    number: u64,
    bytes: u64,
}

impl Waiter {
    fn poll(&mut self) -> Poll<Held> {
        self.flag.0.store(false, Ordering::SeqCst);
        self.future.as_mut().poll(&mut Context::from_waker(&self.flag.clone().into()))
    }
}

/// Polls waiters that were woken until there are none left. After that, no other waiter must be
/// able to get its memory.
fn settle(memory: &Memory, waiters: &mut Vec<Waiter>, held: &mut Vec<Held>, case: &str) {
    while let Some(at) = waiters.iter().position(|waiter| waiter.flag.0.load(Ordering::SeqCst)) {
        if let Poll::Ready(got) = waiters[at].poll() {
            held.push(got);
            waiters.swap_remove(at);
        }
    }
    let state = memory.lock();
    for Waiter { number, bytes, .. } in waiters {
        let client = state.responses[&*number].client;
        let is_first = state.waiting[&AddressPrefix::host(client)].front() == Some(&*number);
        let can_have = is_first && state.shares.check(client, *bytes).is_ok();
        assert!(!can_have, "{case}: a waiter that could get memory is not woken");
    }
}

/// Checks random sequences in which responses begin, wait for memory, give up, release memory and
/// end.
#[tokio::test]
async fn whoever_can_have_memory_is_woken_and_nothing_is_left_of_anyone() {
    for seed in 0..300 {
        let mut random = Random::from_number(seed);
        let (memory, _) = with_clock(40 * PIECE);
        let (mut shares, mut waiters, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..60 {
            match random.below(6) {
                0 | 1 => {
                    let host = random.below(4) as u8;
                    shares.push(Arc::new(memory.share(client(host / 2, host, step))));
                }
                2 | 3 if !shares.is_empty() => {
                    let share = shares[random.below(shares.len() as u64) as usize].clone();
                    let bytes = (1 + random.below(4)) * PIECE;
                    let number = share.number;
                    let future = Box::pin(async move { share.hold(bytes).await });
                    let flag = Arc::new(Flag(true.into()));
                    waiters.push(Waiter { future, flag, number, bytes });
                }
                4 if !waiters.is_empty() => {
                    waiters.swap_remove(random.below(waiters.len() as u64) as usize);
                }
                _ if !held.is_empty() => {
                    held.swap_remove(random.below(held.len() as u64) as usize);
                }
                _ => drop(shares.pop()),
            }
            settle(&memory, &mut waiters, &mut held, &format!("seed {seed}, step {step}"));
        }
        // Dropping in this order lets every waiter get memory, or give up while others still use
        // some.
        drop(shares);
        while !waiters.is_empty() || !held.is_empty() {
            drop(held.pop().is_none().then(|| waiters.pop()));
            settle(&memory, &mut waiters, &mut held, &format!("seed {seed}, at the end"));
        }
        let state = memory.lock();
        assert_eq!(state.shares.held(), 0, "seed {seed}");
        assert_eq!(state.shares.heaviest(), None, "seed {seed}");
        let left = (state.responses.len(), state.blocked.len(), state.waiting.len());
        assert_eq!(left, (0, 0, 0), "seed {seed}");
    }
}
