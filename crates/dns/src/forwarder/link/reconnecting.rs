use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hickory_proto::op::Message;
use tokio::time::timeout;

use super::super::question::Question;
use super::LinkError;

/// Time limit of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(4);
/// Pause after the first failed attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Establishes the connections of a link.
pub(crate) trait Connector: Send + Sync + 'static {
    /// Handle to a connection; its clones share the connection.
    type Session: Clone + Send + Sync + 'static;

    fn connect(&self) -> impl Future<Output = Result<Self::Session, LinkError>> + Send;

    fn is_open(session: &Self::Session) -> bool;

    fn exchange(
        &self,
        session: &Self::Session,
        question: &Question,
    ) -> impl Future<Output = Result<Message, LinkError>> + Send;
}

type Attempt<S> = Shared<BoxFuture<'static, Result<S, LinkError>>>;

/// A link with one connection, which all queries share.
pub(crate) struct Reconnecting<C: Connector> {
    connector: Arc<C>,
    state: Mutex<State<C::Session>>,
    /// The number of responses so far.
    responses: AtomicU64,
}

struct State<S> {
    phase: Phase<S>,
    /// The number of the last attempt.
    attempt: u64,
    /// The number of failed attempts since the last successful one.
    failures: u32,
}

enum Phase<S> {
    Idle,
    Connecting(Attempt<S>),
    Open(S),
    /// No attempt before this time.
    Pausing(Instant, LinkError),
}

impl<C: Connector> Reconnecting<C> {
    pub(crate) fn new(connector: C) -> Self {
        let state = State { phase: Phase::Idle, attempt: 0, failures: 0 };
        let (state, responses) = (Mutex::new(state), AtomicU64::new(0));
        Self { connector: Arc::new(connector), state, responses }
    }

    fn state(&self) -> MutexGuard<'_, State<C::Session>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question and returns the response. If nothing arrives on the connection for `limit`,
    /// it is replaced: the server may have been restarted, or a path may be broken.
    pub(crate) async fn exchange(
        &self,
        question: &Question,
        limit: Duration,
    ) -> Result<Message, LinkError> {
        let before = self.responses.load(Ordering::Relaxed);
        let outcome = timeout(limit, self.attempt(question)).await;
        let outcome = outcome.unwrap_or(Err(LinkError::TimedOut));
        match &outcome {
            Ok(_) => {
                self.responses.fetch_add(1, Ordering::Relaxed);
            }
            Err(LinkError::TimedOut) if self.responses.load(Ordering::Relaxed) == before => {
                self.forget();
            }
            Err(_) => {}
        }
        outcome
    }

    /// Gives up the connection. Outstanding queries can still complete on it.
    fn forget(&self) {
        let mut state = self.state();
        if matches!(state.phase, Phase::Open(_)) {
            state.phase = Phase::Idle;
        }
    }

    /// Sends a question and returns the response. A query that was lost together with an earlier
    /// connection is sent again, on a new one.
    async fn attempt(&self, question: &Question) -> Result<Message, LinkError> {
        let (session, is_reused) = self.session().await?;
        match self.connector.exchange(&session, question).await {
            Err(LinkError::Lost(_)) if is_reused && !C::is_open(&session) => {}
            outcome => return outcome,
        }
        let (session, _) = self.session().await?;
        self.connector.exchange(&session, question).await
    }

    /// Returns the connection, and whether it existed before.
    async fn session(&self) -> Result<(C::Session, bool), LinkError> {
        let (attempt, number) = match self.begin()? {
            Begun::Open(session) => return Ok((session, true)),
            Begun::Attempt(attempt, number) => (attempt, number),
        };
        let outcome = attempt.await;
        let mut state = self.state();
        // All callers that waited see the outcome; the first one records it.
        if state.attempt == number && matches!(state.phase, Phase::Connecting(_)) {
            state.record(&outcome);
        }
        outcome.map(|session| (session, false))
    }

    fn begin(&self) -> Result<Begun<C::Session>, LinkError> {
        let mut state = self.state();
        match &state.phase {
            Phase::Open(session) if C::is_open(session) => {
                return Ok(Begun::Open(session.clone()));
            }
            Phase::Connecting(attempt) => {
                return Ok(Begun::Attempt(attempt.clone(), state.attempt));
            }
            Phase::Pausing(until, error) if Instant::now() < *until => return Err(error.clone()),
            Phase::Open(_) | Phase::Pausing(..) | Phase::Idle => {}
        }
        let connector = self.connector.clone();
        let attempt = async move {
            let connected = timeout(CONNECT_TIME, connector.connect()).await;
            connected.unwrap_or_else(|_| Err(LinkError::unreachable("the handshake timed out")))
        };
        let attempt = attempt.boxed().shared();
        state.attempt = state.attempt.wrapping_add(1);
        state.phase = Phase::Connecting(attempt.clone());
        Ok(Begun::Attempt(attempt, state.attempt))
    }
}

/// What a caller gets: an open connection, or an attempt to establish one.
enum Begun<S> {
    Open(S),
    Attempt(Attempt<S>, u64),
}

impl<S: Clone> State<S> {
    fn record(&mut self, outcome: &Result<S, LinkError>) {
        match outcome {
            Ok(session) => {
                self.failures = 0;
                self.phase = Phase::Open(session.clone());
            }
            Err(error) => {
                let pause = pause(self.failures);
                self.failures = self.failures.saturating_add(1);
                let until = Instant::now().checked_add(pause);
                self.phase = match until {
                    Some(until) => Phase::Pausing(until, error.clone()),
                    None => Phase::Idle,
                };
            }
        }
    }
}

/// Returns the pause after a failed attempt that follows this many other failures.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Fails the given number of times, and counts attempts.
    struct Scripted {
        failing: u32,
        attempts: AtomicU32,
    }

    impl Connector for Scripted {
        type Session = Arc<AtomicU32>;

        async fn connect(&self) -> Result<Self::Session, LinkError> {
            tokio::task::yield_now().await;
            match self.attempts.fetch_add(1, Ordering::Relaxed) < self.failing {
                true => Err(LinkError::unreachable("refused")),
                false => Ok(Arc::default()),
            }
        }

        fn is_open(session: &Self::Session) -> bool {
            session.load(Ordering::Relaxed) == 0
        }

        /// Ends the connection, unless it is the third one.
        async fn exchange(
            &self,
            session: &Self::Session,
            question: &Question,
        ) -> Result<Message, LinkError> {
            if self.attempts.load(Ordering::Relaxed) > 2 {
                return Ok(question.message());
            }
            session.store(1, Ordering::Relaxed);
            Err(LinkError::lost("reset"))
        }
    }

    fn question() -> Question {
        let mut message = Message::query();
        message.add_query(hickory_proto::op::Query::new());
        Question::of(&message).unwrap()
    }

    #[tokio::test]
    async fn callers_share_an_attempt_and_a_failed_one_is_not_repeated_at_once() {
        let link = Reconnecting::new(Scripted { failing: 1, attempts: AtomicU32::new(0) });
        let question = question();
        let (first, second) =
            tokio::join!(link.exchange(&question, LIMIT), link.exchange(&question, LIMIT));
        for outcome in [first, second, link.exchange(&question, LIMIT).await] {
            assert!(matches!(outcome, Err(LinkError::Unreachable(_))), "{outcome:?}");
        }
        assert_eq!(link.connector.attempts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_query_on_a_connection_that_has_ended_is_sent_again() {
        let link = Reconnecting::new(Scripted { failing: 0, attempts: AtomicU32::new(0) });
        let question = question();
        // A new connection that fails is not tried twice.
        assert!(matches!(link.exchange(&question, LIMIT).await, Err(LinkError::Lost(_))));
        let (session, is_reused) = link.session().await.unwrap();
        assert!(!is_reused && Scripted::is_open(&session));
        assert!(link.exchange(&question, LIMIT).await.is_ok());
        assert_eq!(link.connector.attempts.load(Ordering::Relaxed), 3);
    }

    /// Never responds.
    #[derive(Default)]
    struct Silent(AtomicU32);

    impl Connector for Silent {
        type Session = ();

        async fn connect(&self) -> Result<(), LinkError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn is_open((): &()) -> bool {
            true
        }

        async fn exchange(&self, (): &(), _: &Question) -> Result<Message, LinkError> {
            core::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_replaced() {
        let link = Reconnecting::new(Silent::default());
        for connections in 1..4 {
            let outcome = link.exchange(&question(), LIMIT).await;
            assert!(matches!(outcome, Err(LinkError::TimedOut)), "{outcome:?}");
            assert_eq!(link.connector.0.load(Ordering::Relaxed), connections);
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let pauses: Vec<_> = [0, 1, 2, 5, 6, 1000].map(|it| pause(it).as_millis()).into();
        assert_eq!(pauses, [100, 200, 400, 3200, 5000, 5000]);
    }
}
