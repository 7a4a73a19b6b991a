//! The peer: PostgreSQL, Redis and the server, each on a port of its own.

use std::{
    env, fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::unused_port;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::Storage;

/// The time limit for the start of a process.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running peer. Dropping the value kills its processes.
pub(crate) struct Svix {
    server: Child,
    redis: Option<Child>,
    postgres: Child,
    data: PathBuf,
    database: u16,
    api: String,
    token: String,
    http: reqwest::Client,
}

impl Svix {
    /// Starts the peer with its data in this folder or in memory.
    pub(crate) async fn start(server: &Path, storage: Storage, folder: &Path) -> Self {
        let is_in_memory = storage == Storage::Memory;
        let name = folder.file_name().expect("a name");
        let data = if is_in_memory { Path::new("/dev/shm").join(name) } else { folder.join("postgres") };
        let (postgres, database) = postgres(storage, &data).await;
        let (redis, queue) = if is_in_memory { (None, None) } else { redis(folder).await };
        let port = unused_port();
        let mut variables = vec![
            ("SVIX_LISTEN_ADDRESS", format!("127.0.0.1:{port}")),
            ("SVIX_DB_DSN", format!("postgresql://postgres@127.0.0.1:{database}/postgres?sslmode=disable")),
            ("SVIX_QUEUE_TYPE", if queue.is_some() { "redis" } else { "memory" }.to_owned()),
            ("SVIX_CACHE_TYPE", "memory".to_owned()),
            ("SVIX_JWT_SECRET", "a secret of some length".to_owned()),
            ("SVIX_WHITELIST_SUBNETS", "[127.0.0.0/8]".to_owned()),
            // The names of headers that Standard Webhooks defines.
            ("SVIX_WHITELABEL_HEADERS", "true".to_owned()),
            ("SVIX_ENVIRONMENT", "prod".to_owned()),
            ("RUST_LOG", "error".to_owned()),
        ];
        variables.extend(queue.map(|port| ("SVIX_REDIS_DSN", format!("redis://127.0.0.1:{port}"))));
        let command = |arguments: &[&str]| {
            let mut command = Command::new(server);
            command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
            // It reads settings from the working directory.
            command.current_dir(folder).stderr(Stdio::inherit()).kill_on_drop(true);
            command
        };
        output(&mut command(&["migrate"])).await;
        let token = output(&mut command(&["jwt", "generate"])).await.stdout;
        let token = String::from_utf8(token).expect("a token").rsplit(' ').next().expect("a token").trim().to_owned();
        let server = command(&[]).stdout(Stdio::null()).spawn().expect("the server starts");
        listens(port).await;
        let (api, http) = (format!("http://127.0.0.1:{port}/api/v1"), tests::plain_http().build().expect("a client"));
        Self { server, redis, postgres, data, database, api, token, http }
    }

    /// The id of a new application.
    pub(crate) async fn application(&self) -> String {
        let application = self.post("app/", json!({"name": "bench"}).to_string(), StatusCode::CREATED).await;
        application["id"].as_str().expect("an id").to_owned()
    }

    /// Creates an endpoint.
    pub(crate) async fn endpoint(&self, application: &str, url: &str) {
        let fields = json!({"url": url, "version": 1}).to_string();
        self.post(&format!("app/{application}/endpoint/"), fields, StatusCode::CREATED).await;
    }

    /// Sends events, one per call.
    pub(crate) async fn send(&self, application: &str, events: &[String]) {
        for event in events {
            let message = format!(r#"{{"eventType":"job.completed","payload":{event}}}"#);
            self.post(&format!("app/{application}/msg/"), message, StatusCode::ACCEPTED).await;
        }
    }

    async fn post(&self, path: &str, body: String, expected: StatusCode) -> Value {
        let call = self.http.post(format!("{}/{path}", self.api)).bearer_auth(&self.token);
        let answer = call.header("content-type", "application/json").body(body).send().await.expect("an answer");
        let (status, body) = (answer.status(), answer.bytes().await.expect("a body"));
        assert_eq!(status, expected, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Its processes; those of PostgreSQL have children.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let all = [Some(&self.server), self.redis.as_ref(), Some(&self.postgres)];
        all.into_iter().flatten().map(|child| child.id().expect("it runs")).collect()
    }

    /// The number of successful attempts in its log.
    pub(crate) async fn delivered(&self) -> u64 {
        let mut psql = as_postgres("psql");
        psql.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.database.to_string(), "-At", "-c"]);
        let count = output(psql.arg("SELECT count(*) FROM messageattempt WHERE status = 0")).await.stdout;
        String::from_utf8(count).expect("a number").trim().parse().expect("a number")
    }

    /// Stops it, and deletes data in memory.
    pub(crate) async fn stop(mut self) {
        self.server.kill().await.expect("it runs");
        if let Some(redis) = &mut self.redis {
            redis.kill().await.expect("it runs");
        }
        output(as_postgres("pg_ctl").arg("-D").arg(&self.data).args(["-m", "immediate", "-w", "stop"])).await;
        self.postgres.wait().await.expect("it ends");
        fs::remove_dir_all(&self.data).expect("the processes have ended");
    }
}

/// Starts PostgreSQL with its data in this folder. Also returns its port.
async fn postgres(storage: Storage, data: &Path) -> (Child, u16) {
    fs::create_dir(data).expect("a folder");
    output(Command::new("chown").args(["postgres:postgres"]).arg(data)).await;
    output(as_postgres("initdb").arg("-D").arg(data).args(["--username=postgres", "--auth=trust"])).await;
    let port = unused_port();
    let mut command = as_postgres("postgres");
    command.arg("-D").arg(data).args(["-p", &port.to_string(), "-k", "", "-c", "listen_addresses=127.0.0.1"]);
    command.args(["-c", "max_connections=200"]);
    match storage {
        Storage::Memory => {
            command.args(["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"])
        }
        Storage::Disk => command.args(["-c", "synchronous_commit=off"]),
        Storage::SyncedDisk => &mut command,
    };
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn();
    listens(port).await;
    (child.expect("PostgreSQL starts"), port)
}

/// A program of PostgreSQL, which refuses to run as root.
fn as_postgres(program: &str) -> Command {
    let folder = env::var("POSTGRES_BIN").unwrap_or_else(|_| "/usr/lib/postgresql/15/bin".to_owned());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(format!("{folder}/{program}"));
    command.current_dir("/");
    command
}

/// Starts Redis, with the persistence of the peer's `docker-compose.yml`. Also returns its port.
async fn redis(folder: &Path) -> (Option<Child>, Option<u16>) {
    let (folder, port) = (folder.join("redis"), unused_port());
    fs::create_dir(&folder).expect("a folder");
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(folder);
    command.args(["--save", "60", "500", "--appendonly", "yes", "--appendfsync", "everysec"]);
    let child = command.stdout(Stdio::null()).kill_on_drop(true).spawn().expect("Redis starts");
    listens(port).await;
    (Some(child), Some(port))
}

/// Waits until a process listens on this port.
async fn listens(port: u16) {
    let listens = async {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, listens).await.expect("it listens");
}

/// The output of a program that must succeed.
async fn output(command: &mut Command) -> Output {
    let output = command.output().await.expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}
