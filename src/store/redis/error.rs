//! What can go wrong between here and the server. Owns the wording: no message holds a URL, a user name or a password.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Named by what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The options make no sense. Fix the call.
    #[error("{0}")]
    Options(&'static str),
    /// Nobody answers: the server is away, the connection broke, it is starting or changing roles. Try again later.
    #[error("the Redis server cannot be reached ({0})")]
    Unavailable(String),
    /// No answer within the bound. What was asked may have happened.
    #[error("the Redis server did not answer within {0} ms")]
    TimedOut(u64),
    /// The server answered, and does not do what was asked: credentials, permissions, memory, a script that fails.
    #[error("the Redis server refused ({0})")]
    Refused(String),
    /// The server does not know a script by its digest, and has not run it.
    #[error("the Redis server does not know a script")]
    UnknownScript,
}

/// What an error of the client means for the connection it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aftermath {
    /// The connection is as good as before.
    Keep,
    /// Another connection is needed.
    Reconnect,
    /// A node of a cluster did not run the command and said who might: ask again.
    AskAgain,
}

/// Sorts an error that a server answered, as it stood on the line; whether the connection is of no more use.
pub fn sort_reply(line: &[u8]) -> (StoreError, bool) {
    let whole = [line, b"\r\n"].concat();
    match redis::parse_redis_value(&whole).and_then(redis::Value::extract_error) {
        Err(error) => {
            let (failure, aftermath) = sort(&error);
            (failure, aftermath != Aftermath::Keep)
        }
        Ok(_) => (
            StoreError::Refused("it does not answer as Redis does".to_owned()),
            true,
        ),
    }
}

/// Sorts an error of the client.
pub fn sort(error: &RedisError) -> (StoreError, Aftermath) {
    let (unavailable, refused) = (
        |text: &str| StoreError::Unavailable(text.to_owned()),
        |text: &str| StoreError::Refused(text.to_owned()),
    );
    match error.kind() {
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown => {
                (unavailable("the cluster is changing"), Aftermath::AskAgain)
            }
            ServerErrorKind::BusyLoading => {
                (unavailable("it is loading its data"), Aftermath::Reconnect)
            }
            ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown => {
                (unavailable("it is a replica now"), Aftermath::Reconnect)
            }
            ServerErrorKind::NoPerm => (
                refused("the user may not run these commands"),
                Aftermath::Keep,
            ),
            ServerErrorKind::NoScript => (StoreError::UnknownScript, Aftermath::Keep),
            ServerErrorKind::CrossSlot => (
                refused("keys of one call are in several slots: use a keyPrefix with a {hash tag}"),
                Aftermath::Keep,
            ),
            _ => (StoreError::Refused(reply(error)), Aftermath::Keep),
        },
        ErrorKind::Extension => match error.code() {
            Some("NOAUTH" | "WRONGPASS") => (refused("wrong credentials"), Aftermath::Reconnect),
            _ => (StoreError::Refused(reply(error)), Aftermath::Keep),
        },
        ErrorKind::AuthenticationFailed => (refused("wrong credentials"), Aftermath::Reconnect),
        ErrorKind::UnexpectedReturnType | ErrorKind::Client => {
            (refused("it does not answer as Redis does"), Aftermath::Keep)
        }
        ErrorKind::InvalidClientConfig => (
            unavailable("the connection cannot be made"),
            Aftermath::Reconnect,
        ),
        ErrorKind::MasterNameNotFoundBySentinel | ErrorKind::NoValidReplicasFoundBySentinel => (
            unavailable("the sentinels know no master of this name"),
            Aftermath::Reconnect,
        ),
        _ if error.is_connection_refusal() => {
            (unavailable("connection refused"), Aftermath::Reconnect)
        }
        _ if error.is_connection_dropped() => {
            (unavailable("the connection broke"), Aftermath::Reconnect)
        }
        _ => (unavailable("the connection failed"), Aftermath::Reconnect),
    }
}

/// The server's own words, shortened. Replies quote commands, and credentials travel in `AUTH` and `HELLO` only, whose
/// failures never come here.
fn reply(error: &RedisError) -> String {
    const LONGEST: usize = 120;
    let code = error.code().unwrap_or("ERR");
    let detail: String = error
        .detail()
        .unwrap_or_default()
        .chars()
        .take(LONGEST)
        .collect();
    format!("{code} {detail}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_sorted_as_errors_of_the_client_are() {
        let sorted = |line: &str| sort_reply(line.as_bytes());
        assert_eq!(
            sorted("-NOSCRIPT No matching script."),
            (StoreError::UnknownScript, false)
        );
        let (error, ends) = sorted("-READONLY You can't write against a read only replica.");
        assert!(matches!(error, StoreError::Unavailable(_)) && ends);
        let (error, ends) = sorted("-LOADING Redis is loading the dataset in memory");
        assert!(matches!(error, StoreError::Unavailable(_)) && ends);
        let (error, ends) = sorted("-NOAUTH Authentication required.");
        assert_eq!(error, StoreError::Refused("wrong credentials".to_owned()));
        assert!(ends);
        let (error, ends) = sorted("-OOM command not allowed");
        assert!(matches!(error, StoreError::Refused(text) if text.starts_with("OOM")) && !ends);
        assert!(sorted("+OK").1);
    }
}
