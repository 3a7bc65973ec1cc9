//! One connection to the server, made again when it breaks. Owns deadlines: every call ends within the bound, whatever the
//! server does. Nothing is sent twice unless the server said that it did not run it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::error::{Aftermath, StoreError, sort};
use super::target::{Link, Plain, Target, TargetOptions};

/// Between two attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Between two questions to a cluster whose slots move.
const ASK_AGAIN: Duration = Duration::from_millis(20);

type Attempt = watch::Receiver<Option<Result<(), StoreError>>>;

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Counts connections, so that a late failure of an old one does not end the new one.
    generation: u64,
    attempt: Option<Attempt>,
    /// Why the server is away. Calls fail at once with it, while attempts go on behind them.
    away: Option<StoreError>,
    next_attempt: Option<Instant>,
    failures: u32,
}

struct Shared {
    target: Target,
    timeout: Duration,
    state: Mutex<State>,
}

/// A client; clones share its connection.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

impl Client {
    /// Makes a client; nothing is connected yet. `timeout` bounds each call.
    pub fn new(options: &TargetOptions, timeout: Duration) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Shared {
            target: Target::new(options, timeout)?,
            timeout,
            state: Mutex::new(State::default()),
        })))
    }

    pub fn is_cluster(&self) -> bool {
        self.0.target.is_cluster()
    }

    /// When a call that begins now must have ended.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.0.timeout
    }

    /// The same for a call that has spent part of its time already.
    pub fn deadline_within(&self, within: Duration) -> Instant {
        Instant::now() + within.min(self.0.timeout)
    }

    /// Runs one command. An error after the command went out does not say whether it ran.
    pub async fn run(&self, command: &Cmd, deadline: Instant) -> Result<Value, StoreError> {
        let timed_out = || StoreError::TimedOut(millis(self.0.timeout));
        loop {
            let Ok(connected) = timeout_at(deadline, self.link()).await else {
                return Err(timed_out());
            };
            let (mut link, generation) = connected?;
            match timeout_at(deadline, link.run(command)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => {
                    let (failure, aftermath) = sort(&error);
                    match aftermath {
                        Aftermath::Reconnect => {
                            self.lost(generation, None);
                            return Err(failure);
                        }
                        Aftermath::AskAgain if self.is_cluster() => {
                            if timeout_at(deadline, sleep(ASK_AGAIN)).await.is_err() {
                                return Err(failure);
                            }
                        }
                        Aftermath::Keep | Aftermath::AskAgain => return Err(failure),
                    }
                }
                Err(_) => {
                    // Paused, cut off or overloaded: until it answers again, nobody else waits for it.
                    self.lost(generation, Some(timed_out()));
                    return Err(timed_out());
                }
            }
        }
    }

    /// Whether the server answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.run(&redis::cmd("PING"), self.deadline()).await?;
        Ok(())
    }

    /// Whether the last that was heard of the server is that it is away.
    pub fn is_away(&self) -> bool {
        self.0.state.lock().away.is_some()
    }

    /// The connection at hand, or the outcome of the attempt under way.
    async fn link(&self) -> Result<(Link, u64), StoreError> {
        loop {
            let mut attempt = {
                let mut state = self.0.state.lock();
                if let Some(link) = &state.link {
                    return Ok((link.clone(), state.generation));
                }
                let due = state.next_attempt.is_none_or(|at| at <= Instant::now());
                if state.attempt.is_none() && due {
                    state.attempt = Some(self.start_attempt());
                }
                if let Some(away) = &state.away {
                    return Err(away.clone());
                }
                match &state.attempt {
                    Some(attempt) => attempt.clone(),
                    None => return Err(StoreError::Unavailable("not connected".to_owned())),
                }
            };
            let outcome = attempt.wait_for(Option::is_some).await;
            match outcome.as_deref() {
                Ok(Some(Err(failure))) => return Err(failure.clone()),
                Ok(_) => {}
                // The runtime ends.
                Err(_) => return Err(StoreError::Unavailable("shutting down".to_owned())),
            }
        }
    }

    fn start_attempt(&self) -> Attempt {
        let (sender, receiver) = watch::channel(None);
        let client = self.clone();
        tokio::spawn(async move {
            let outcome = client.connect().await;
            let _ = sender.send(Some(outcome));
        });
        receiver
    }

    async fn connect(&self) -> Result<(), StoreError> {
        let Shared {
            target,
            timeout: bound,
            ..
        } = &*self.0;
        let outcome = match timeout(*bound, target.connect(*bound)).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(sort(&error).0),
            Err(_) => Err(StoreError::TimedOut(millis(*bound))),
        };
        let mut state = self.0.state.lock();
        state.attempt = None;
        match outcome {
            Ok(link) => {
                state.generation += 1;
                state.link = Some(link);
                state.away = None;
                state.next_attempt = None;
                state.failures = 0;
                Ok(())
            }
            Err(failure) => {
                let pause = PAUSE
                    .saturating_mul(1 << state.failures.min(5))
                    .min(LONGEST_PAUSE);
                state.failures += 1;
                state.next_attempt = Some(Instant::now() + pause);
                state.away = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// Forgets a connection. With a reason, later calls fail at once until another one is made.
    fn lost(&self, generation: u64, away: Option<StoreError>) {
        let mut state = self.0.state.lock();
        if state.generation == generation {
            state.link = None;
            state.away = away;
            state.next_attempt = None;
        }
    }

    /// What a connection beside this one needs.
    pub fn plain(&self) -> Option<Plain> {
        self.0.target.plain()
    }

    /// A connection beside this one had no answer in time: nobody else waits for the server until it answers again.
    pub fn silent(&self) -> StoreError {
        let failure = StoreError::TimedOut(millis(self.0.timeout));
        let mut state = self.0.state.lock();
        state.link = None;
        state.away = Some(failure.clone());
        state.next_attempt = None;
        failure
    }

    /// Lets go of the connection; a later call makes another one.
    pub fn disconnect(&self) {
        self.0.state.lock().link = None;
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
