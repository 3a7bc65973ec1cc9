//! A script that runs on the server: sent by its digest, and whole when the server does not know it yet.

use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

use super::client::Client;
use super::error::StoreError;

/// A script and its digest.
pub struct Script {
    code: String,
    digest: String,
}

impl Script {
    pub fn new(code: impl Into<String>) -> Self {
        let code = code.into();
        Self {
            digest: redis::Script::new(&code).get_hash().to_owned(),
            code,
        }
    }

    /// The command as bytes: by the digest, or whole for a server that does not know it.
    pub fn packed<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        keys: &[K],
        args: &[A],
        whole: bool,
    ) -> Vec<u8> {
        if whole {
            invocation("EVAL", &self.code, keys, args).get_packed_command()
        } else {
            invocation("EVALSHA", &self.digest, keys, args).get_packed_command()
        }
    }

    /// Runs the script once: a server that does not know it has not run it.
    pub async fn run<K: AsRef<[u8]>, A: AsRef<[u8]>>(
        &self,
        client: &Client,
        keys: &[K],
        args: &[A],
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let by_digest = invocation("EVALSHA", &self.digest, keys, args);
        match client.run(&by_digest, deadline).await {
            Err(StoreError::UnknownScript) => {
                client
                    .run(&invocation("EVAL", &self.code, keys, args), deadline)
                    .await
            }
            outcome => outcome,
        }
    }
}

fn invocation<K: AsRef<[u8]>, A: AsRef<[u8]>>(
    name: &'static str,
    script: &str,
    keys: &[K],
    args: &[A],
) -> Cmd {
    let mut command = cmd(name);
    command.arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_ref());
    }
    for arg in args {
        command.arg(arg.as_ref());
    }
    command
}
