//! Where the server is: one server, a master found by sentinels, or a cluster. Owns reading the options and making a
//! connection; nothing of what they hold is ever printed.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, RedisResult, TlsCertificates, TlsMode, Value,
};
use tokio::sync::Mutex;

use super::StoreError;

/// Certificates in PEM format.
#[derive(Clone, Default)]
pub struct Tls {
    pub ca: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
}

impl Tls {
    fn certificates(&self) -> TlsCertificates {
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
        TlsCertificates {
            client_tls: bytes(&self.cert)
                .zip(bytes(&self.key))
                .map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
            root_cert: bytes(&self.ca),
        }
    }
}

/// The sentinels to ask, and the name of the master to ask for.
#[derive(Clone)]
pub struct Sentinel {
    pub master: String,
    pub nodes: Vec<String>,
}

/// What a host configures.
#[derive(Clone, Default)]
pub struct TargetOptions {
    /// Credentials, database and TLS; with sentinels its address is not used.
    pub url: String,
    pub sentinel: Option<Sentinel>,
    pub cluster: bool,
    /// More nodes of the cluster to start from.
    pub nodes: Vec<String>,
    pub tls: Option<Tls>,
}

/// One server without TLS: where it is, and what a connection says first.
#[derive(Clone)]
pub struct Plain {
    pub host: String,
    pub port: u16,
    /// Packed commands; each is answered by a status.
    pub greeting: Vec<u8>,
    pub greetings: u32,
}

/// How connections are made.
pub enum Target {
    Single(Box<redis::Client>),
    Sentinel(Box<Mutex<SentinelClient>>),
    Cluster(Box<redis::cluster::ClusterClient>),
}

/// A connection; clones share it.
#[derive(Clone)]
pub enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Link {
    pub async fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(link) => link.req_packed_command(command).await,
            Self::Cluster(link) => link.req_packed_command(command).await,
        }?
        .extract_error()
    }
}

fn info(url: &str) -> Result<ConnectionInfo, StoreError> {
    url.into_connection_info().map_err(|_| {
        StoreError::Options("a Redis URL reads redis://[user[:password]@]host[:port][/database], or rediss:// for TLS")
    })
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

impl Target {
    pub fn new(options: &TargetOptions, timeout: Duration) -> Result<Self, StoreError> {
        let server = info(&options.url)?;
        let nodes: Vec<ConnectionInfo> = options
            .sentinel
            .as_ref()
            .map_or(&options.nodes, |sentinel| &sentinel.nodes)
            .iter()
            .map(|node| info(node))
            .collect::<Result<_, _>>()?;
        if is_tls(&server) || nodes.iter().any(is_tls) {
            // An error only says that one was chosen before.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let certificates = options.tls.as_ref().map(Tls::certificates);
        let made = if let Some(sentinel) = &options.sentinel {
            sentinels(&server, &nodes, &sentinel.master, certificates)
                .map(|client| Self::Sentinel(Box::new(Mutex::new(client))))
        } else if options.cluster {
            cluster(server, nodes, certificates, timeout)
                .map(|client| Self::Cluster(Box::new(client)))
        } else {
            match certificates {
                Some(certificates) => redis::Client::build_with_tls(server, certificates),
                None => redis::Client::open(server),
            }
            .map(|client| Self::Single(Box::new(client)))
        };
        made.map_err(|_| {
            StoreError::Options("the Redis options cannot be used: check URL and certificates")
        })
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// What a host needs to connect by itself. Credentials are in it.
    pub fn plain(&self) -> Option<Plain> {
        let Self::Single(client) = self else {
            return None;
        };
        let info = client.get_connection_info();
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return None;
        };
        let settings = info.redis_settings();
        let mut commands = Vec::new();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = settings.username() {
                auth.arg(username);
            }
            commands.push(auth.arg(password).get_packed_command());
        }
        if settings.db() != 0 {
            commands.push(redis::cmd("SELECT").arg(settings.db()).get_packed_command());
        }
        Some(Plain {
            host: host.clone(),
            port: *port,
            greetings: u32::try_from(commands.len()).unwrap_or(0),
            greeting: commands.concat(),
        })
    }

    pub async fn connect(&self, timeout: Duration) -> RedisResult<Link> {
        // Answers are bounded by the caller, over all steps of a call.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None);
        match self {
            Self::Single(client) => client
                .get_multiplexed_async_connection_with_config(&config)
                .await
                .map(Link::Single),
            Self::Sentinel(client) => client
                .lock()
                .await
                .get_async_connection_with_config(&config)
                .await
                .map(Link::Single),
            Self::Cluster(client) => client.get_async_connection().await.map(Link::Cluster),
        }
    }
}

fn sentinels(
    server: &ConnectionInfo,
    nodes: &[ConnectionInfo],
    master: &str,
    certificates: Option<TlsCertificates>,
) -> RedisResult<SentinelClient> {
    let settings = server.redis_settings();
    let mut builder = SentinelClientBuilder::new(
        nodes.iter().map(|node| node.addr().clone()),
        master,
        SentinelServerType::Master,
    )?
    .set_client_to_redis_db(settings.db());
    if let Some(username) = settings.username() {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = settings.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if is_tls(server) {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    if let Some(settings) = nodes.first().map(ConnectionInfo::redis_settings) {
        if let Some(username) = settings.username() {
            builder = builder.set_client_to_sentinel_username(username);
        }
        if let Some(password) = settings.password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
    }
    if nodes.iter().any(is_tls) {
        builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    builder.build()
}

fn cluster(
    server: ConnectionInfo,
    nodes: Vec<ConnectionInfo>,
    certificates: Option<TlsCertificates>,
    timeout: Duration,
) -> RedisResult<redis::cluster::ClusterClient> {
    let settings = server.redis_settings().clone();
    let tls = is_tls(&server);
    let mut builder = ClusterClientBuilder::new(std::iter::once(server).chain(nodes))
        // The client would also repeat what may have run: an increment must not be made twice.
        .retries(0)
        .connection_timeout(timeout)
        .response_timeout(timeout.saturating_mul(2));
    if let Some(username) = settings.username() {
        builder = builder.username(username);
    }
    if let Some(password) = settings.password() {
        builder = builder.password(password);
    }
    if tls {
        builder = builder.tls(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    builder.build()
}
