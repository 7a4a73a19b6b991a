//! Connections to the service and to local programs: TLS, proxies and keys from the environment.

use std::{path::PathBuf, sync::Arc};

use local::Options;
use serde_json::{Value, json};
use tests::{Receiver, World, event};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{Machine, listening::Listener};

/// A TLS server for `localhost` that forwards decrypted connections.
pub(super) struct Encrypted {
    pub(super) url: String,
    /// A PEM file with the server's certificate.
    certificate: PathBuf,
}

impl Encrypted {
    /// Starts a TLS server in front of a plain http URL without a path.
    pub(super) async fn before(plain: &str, machine: &Machine) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
        let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into());
        let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let config = config.with_single_cert(vec![certified.cert.der().clone()], key).expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
        let plain = plain.trim_start_matches("http://").trim_end_matches('/').to_owned();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (acceptor, plain) = (acceptor.clone(), plain.clone());
                tokio::spawn(async move {
                    let Ok(mut near) = acceptor.accept(near).await else { return };
                    let Ok(mut far) = TcpStream::connect(plain).await else { return };
                    let _may_be_broken = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        std::fs::create_dir_all(&machine.home).expect("a folder");
        let certificate = machine.home.join(format!("{}.pem", super::common_id()));
        std::fs::write(&certificate, certified.cert.pem()).expect("a file");
        Self { url, certificate }
    }

    fn certificate(&self) -> &str {
        self.certificate.to_str().expect("text")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_https_program_needs_trust_or_insecure() {
    let world = World::started(&[("RETRY_SCHEDULE", "1,1,1,1,1,1,1,1,1")], Options::default()).await;
    let (tenant, receiver, machine) = (world.tenant("acme").await, Receiver::start().await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let program = Encrypted::before(&receiver.url(""), &machine).await;
    let untrusted = Listener::start(&machine, &program.url, &[]);
    untrusted.says("Forwarding to").await;
    world.enqueue("job-events", event(&tenant.id, "one")).await;
    untrusted.says("  one  tls").await;
    untrusted.says("The certificate of localhost").await;
    drop(untrusted);
    assert_eq!(receiver.count().await, 0);
    let certificate = program.certificate();
    for (count, options) in [(1, &["--insecure"][..]), (2, &["--cacert", certificate])] {
        let trusting = Listener::start(&machine, &program.url, options);
        receiver.wait_for(count).await;
        world.enqueue("job-events", event(&tenant.id, count)).await;
        trusting.says(&format!("  {count}  200")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_company_certificate_is_trusted_for_the_service() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let service = Encrypted::before(world.stack.api(), &machine).await;
    let whoami = async |options: &[&str], environment: &[(&str, &str)]| {
        let arguments = [&["--api", &service.url][..], options, &["whoami"]].concat();
        machine.run_in(&[&[("FANFARE_API_KEY", tenant.key.as_str())], environment].concat(), &arguments).await
    };
    let untrusted = whoami(&[], &[]).await;
    assert!(untrusted.code == 5 && untrusted.err.contains("certificate"), "{untrusted:?}");
    assert!(untrusted.err.contains("--cacert or SSL_CERT_FILE"), "{untrusted:?}");
    let certificate = service.certificate();
    for trusted in [whoami(&["--cacert", certificate], &[]).await, whoami(&[], &[("SSL_CERT_FILE", certificate)]).await]
    {
        assert!(trusted.code == 0 && trusted.out.contains("owner of"), "{trusted:?}");
    }
    let missing = whoami(&["--cacert", "/nowhere.pem"], &[]).await;
    assert!(missing.code == 1 && missing.err.contains("/nowhere.pem"), "{missing:?}");
    let empty = whoami(&["--cacert", "/dev/null"], &[]).await;
    assert!(empty.code == 1 && empty.err.contains("/dev/null contains no PEM certificate"), "{empty:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_for_the_service_and_never_for_this_machine() {
    let world = World::live(&[]).await;
    let (tenant, receiver, machine) = (world.tenant("acme").await, Receiver::start().await, Machine::new(&world));
    // The local service accepts requests in the form that proxies receive.
    let proxied = |no_proxy: &'static str| {
        let environment = [
            ("FANFARE_API_KEY", tenant.key.as_str()),
            ("FANFARE_API", "http://service.invalid"),
            ("HTTP_PROXY", world.stack.api()),
            ("NO_PROXY", no_proxy),
        ];
        let machine = &machine;
        async move { machine.run_in(&environment, &["whoami"]).await }
    };
    let through = proxied("").await;
    assert!(through.code == 0 && through.out.contains("at http://service.invalid"), "{through:?}");
    let directly = proxied("service.invalid").await;
    assert!(directly.code == 5 && directly.err.contains("the host name has no address"), "{directly:?}");

    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    let proxies: [(&str, &str); 2] =
        [("HTTP_PROXY", &format!("http://jo:secret@{address}")), ("ALL_PROXY", "http://127.0.0.1:1")];
    machine.signs_in(&tenant).await;
    let broken = [&[("FANFARE_API", "http://service.invalid"), ("FANFARE_API_KEY", "ak_x")], &proxies[..]].concat();
    drop(silent);
    let broken = machine.run_in(&broken, &["whoami"]).await;
    assert!(broken.code == 5 && broken.err.contains(&format!("through the proxy http://{address}")), "{broken:?}");
    assert!(!broken.err.contains("secret"), "{broken:?}");
    let mut listen = machine.command(&["listen", "--to", &receiver.url("/hook")]);
    listen.envs(proxies);
    let listener = Listener::of(listen);
    listener.says("Forwarding to").await;
    world.enqueue("job-events", event(&tenant.id, "one")).await;
    listener.says("job.completed  one  200").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_environment_is_trimmed_and_its_failure_named() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let whoami = async |key: &str| machine.run_in(&[("FANFARE_API_KEY", key)], &["whoami"]).await;
    for key in [format!("{}\n", tenant.key), format!(" {}\r\n", tenant.key)] {
        assert_eq!(whoami(&key).await.code, 0);
    }
    let broken = whoami("ak_1\nak_2").await;
    assert!(broken.code == 1 && broken.err.starts_with("error: FANFARE_API_KEY is not an API key"), "{broken:?}");
    let wrong = whoami("ak_unknown").await;
    assert!(wrong.code == 3 && wrong.err.contains("hint: Set a valid key, or unset FANFARE_API_KEY"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_values_arrive_unchanged() {
    let world = World::live(&[]).await;
    let (tenant, receiver, machine) = (world.tenant("acme").await, Receiver::start().await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let queue = &world.stack.queues()["job-events"];
    let result = r#"{"n": 12345678901234567890123, "b": 0.10000000000000000555, "b": 1e400, "s": "\ud800"}"#;
    let sent = machine.run(&["--json", "send", "--job", "one", "--result", result, "--queue-url", queue]).await;
    assert_eq!(sent.code, 0, "{sent:?}");
    let kept = r#""result":{"n":12345678901234567890123,"b":0.10000000000000000555,"b":1e400,"s":"\ud800"}"#;
    assert!(sent.out.contains(kept), "{sent:?}");
    let body = String::from_utf8(receiver.wait_for(1).await[0].body.to_vec()).expect("text");
    assert!(body.contains(kept), "{body}");
    let failed = machine.run(&["send", "--job", "two", "--error", "{}", "--queue-url", queue]).await;
    assert_eq!(failed.out, "Sent job.failed of two.\n", "{failed:?}");
    for unsent in ["job.done", "webhook.test"] {
        let unknown = machine.run(&["send", "--event", unsent, "--job", "one", "--queue-url", queue]).await;
        assert!(unknown.code == 2 && unknown.err.contains("job.completed, job.failed"), "{unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_json_are_json() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let error = async |arguments: &[&str]| {
        let output = machine.run(&[&["--json"], arguments].concat()).await;
        assert!(output.out.is_empty(), "{output:?}");
        let error: Value =
            serde_json::from_str(&output.err).unwrap_or_else(|error| unreachable!("{error}: {output:?}"));
        (output.code, error["error"]["code"].clone(), error["error"]["hint"].is_string())
    };
    assert_eq!(error(&["whoami"]).await, (3, json!("not_signed_in"), true));
    assert_eq!(error(&["endpoints", "create"]).await, (2, json!("usage"), true));
    for (arguments, message) in [
        (&["endpoints", "get"][..], "the following required arguments were not provided: <ID>"),
        (&["deliveries", "list", "--status", "new"], "[possible values: pending, delivered, failed, held, ended]"),
        (&["endpoints"], "a command is missing"),
    ] {
        let mut command = machine.command(&[&["--json"], arguments].concat());
        command.env_remove("FANFARE_API");
        let refused = super::ended(command, "").await;
        let error: Value = serde_json::from_str(&refused.err).expect("JSON");
        assert!(tests::text(&error["error"]["message"]).ends_with(message), "{refused:?}");
    }
    machine.signs_in(&tenant).await;
    assert_eq!(error(&["endpoints", "create", "nonsense"]).await, (1, json!("bad_request"), false));
    assert_eq!(error(&["deliveries", "get", "--job", "unknown"]).await, (4, json!("not_found"), false));
    assert_eq!(
        error(&["--api", "127.0.0.1:1", "send", "--tenant", "t", "--job", "j", "--queue-url", "http://127.0.0.1:1/"])
            .await,
        (5, json!("unreachable"), true)
    );
}

/// As in a container that runs as another user than its image expects.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_script_with_a_key_needs_no_home_that_opens() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    // Even root cannot open a file below this one.
    let closed = ("XDG_CONFIG_HOME", "/dev/null");
    let with_key = [closed, ("FANFARE_API_KEY", tenant.key.as_str())];
    let who = machine.run_in(&with_key, &["whoami"]).await;
    assert!(who.code == 0 && who.out.contains(&tenant.email), "{who:?}");
    let listen = machine.run_in(&with_key, &["listen", "--to", "1"]).await;
    assert!(listen.code == 1 && listen.err.contains("hint: Set HOME."), "{listen:?}");
    let without = machine.run_in(&[closed], &["whoami"]).await;
    assert!(without.code == 1 && without.err.contains("hint: Correct its permissions or HOME"), "{without:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_home_is_named() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    // Even root cannot create a folder here.
    let mut login = machine.command(&["login", "--key"]);
    login.env("XDG_CONFIG_HOME", "/proc/config");
    let login = super::ended(login, &tenant.key).await;
    assert!(login.code == 1 && login.err.contains("Could not use /proc/config/fanfare: "), "{login:?}");
}

/// Otherwise, keys and events would be sent without the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_proxy_is_refused() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    for (service, name, value) in [
        ("https://service.invalid", "HTTPS_PROXY", "http:/jo:secret@127.0.0.1:1"),
        ("http://service.invalid", "http_proxy", "ftp://jo:secret@127.0.0.1:1"),
        ("https://service.invalid", "ALL_PROXY", "http://jo secret"),
    ] {
        let given = [("FANFARE_API", service), ("FANFARE_API_KEY", "x"), (name, value)];
        let refused = machine.run_in(&given, &["whoami"]).await;
        let message = format!("error: {name} is not the address of a proxy.\n");
        assert!(refused.code == 1 && refused.err.starts_with(&message), "{refused:?}");
        assert!(!refused.err.contains("secret"), "{refused:?}");
    }
    let unused = [("HTTPS_PROXY", "http:/x"), ("ALL_PROXY", "ftp://x"), ("FANFARE_API_KEY", "x")];
    assert_eq!(machine.run_in(&unused, &["whoami"]).await.code, 3, "loopback has no proxy");
    let given = [("FANFARE_API", "https://service.invalid"), ("FANFARE_API_KEY", "x"), ("HTTPS_PROXY", "http:/x")];
    for unused in [("ALL_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "service.invalid")] {
        let tried = machine.run_in(&[&given[..], &[unused]].concat(), &["whoami"]).await;
        assert_eq!(tried.code, 5, "the malformed proxy is not used: {tried:?}");
    }
}

/// Starts a SOCKS proxy that connects every client to `service`, a plain http URL without a path.
async fn socks_proxy(service: &str) -> String {
    let service = service.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("socks5h://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut far = TcpStream::connect(&service).await.expect("a service");
            tokio::spawn(async move {
                // The version, and one method: none.
                client.read_exact(&mut [0; 3]).await.expect("a greeting");
                client.write_all(&[5, 0]).await.expect("a client");
                let mut request = [0; "service.invalid".len() + 7];
                client.read_exact(&mut request).await.expect("a request");
                assert!(request.windows(15).any(|part| part == b"service.invalid"), "the proxy resolves the name");
                client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("a client");
                let _closed = copy_bidirectional(&mut client, &mut far).await;
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_reached_through_a_socks_proxy() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let proxy = socks_proxy(world.stack.api()).await;
    let given = [("FANFARE_API", "http://service.invalid"), ("FANFARE_API_KEY", &tenant.key), ("ALL_PROXY", &proxy)];
    let who = machine.run_in(&given, &["whoami"]).await;
    assert!(who.code == 0 && who.out.contains(&tenant.id), "{who:?}");
}
