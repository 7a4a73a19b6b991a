//! TLS in front of the tables, as with the real DynamoDB, using a certificate that the measured processes trust.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A TLS endpoint in front of a plain one.
pub(crate) struct Tls {
    address: String,
    roots: PathBuf,
}

impl Tls {
    /// Starts TLS in front of the service at `behind` ("http://127.0.0.1:PORT").
    pub(crate) async fn before(behind: &str) -> Self {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .expect("a configuration");
        let (acceptor, behind) = (TlsAcceptor::from(Arc::new(config)), behind.trim_start_matches("http://").to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("https://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(acceptor.clone(), stream, behind.clone()));
            }
        });
        // The file includes the machine's certificates, because reading certificates is part of a cold start.
        let machine = std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
        let roots = std::env::temp_dir().join(format!("roots-{}.pem", std::process::id()));
        std::fs::write(&roots, format!("{machine}\n{}", certified.cert.pem())).expect("the write succeeds");
        Self { address, roots }
    }

    /// A function's environment, changed to reach the tables over TLS.
    pub(crate) fn applied_to(&self, environment: &HashMap<String, String>) -> HashMap<String, String> {
        let mut environment = environment.clone();
        environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), self.address.clone());
        environment.insert("SSL_CERT_FILE".to_owned(), self.roots.display().to_string());
        environment
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        // A leftover file in the temporary folder is harmless.
        std::fs::remove_file(&self.roots).ok();
    }
}

/// Any error closes the connection, and the measured process must detect that.
async fn tunnel(acceptor: TlsAcceptor, stream: TcpStream, behind: String) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut outside = acceptor.accept(stream).await.ok()?;
    let mut inside = TcpStream::connect(behind).await.ok()?;
    inside.set_nodelay(true).ok()?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await.ok().map(|_| ())
}
