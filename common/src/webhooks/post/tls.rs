//! TLS connections to receivers, and the causes of failed handshakes.

use std::{
    cell::Cell,
    error, fmt,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, OtherError,
    PeerIncompatible, PeerMisbehaved, RootCertStore, SignatureScheme,
    client::{
        ResolvesClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

use super::cause::HTTP_2;
use crate::{config::ConfigError, timestamp::Timestamp, webhooks::delivery::Detail};

/// The maximum number of certificate names in a detail.
const NAMES: usize = 3;

/// Builds a configuration of TLS 1.2 and 1.3 for HTTP/1.1 that trusts `authorities`.
///
/// # Errors
/// The cryptography provider supports neither version.
pub fn tls(authorities: impl Into<Arc<RootCertStore>>) -> Result<ClientConfig, Error> {
    let provider = ring::default_provider();
    let verifier = Verifier { authorities: authorities.into(), algorithms: provider.signature_verification_algorithms };
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(NoCertificate));
    // Ends the handshake with a server that supports only HTTP/2, which would otherwise wait for a preface.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The machine's certificate authorities, read once per process because a test run starts hundreds of functions.
static AUTHORITIES: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(authorities)
});

/// Builds the [configuration](tls) that trusts the machine's certificate authorities.
///
/// # Errors
/// The machine has no trusted certificate authorities.
pub fn system_tls() -> Result<ClientConfig, ConfigError> {
    let broken =
        |error: &dyn fmt::Display| ConfigError::new("SSL_CERT_FILE", format!("cannot be used for TLS: {error}"));
    if AUTHORITIES.is_empty() {
        return Err(broken(&"the machine trusts no certificate authority"));
    }
    tls(Arc::clone(&AUTHORITIES)).map_err(|error| broken(&error))
}

/// Verifies certificates like the default verifier of `rustls`, but distinguishes self-signed certificates and
/// incomplete chains from untrusted authorities. A custom verifier is necessary because `rustls` does not expose the
/// certificates to its callers.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let (roots, algorithms) = (&self.authorities, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)
            .map_err(|error| untrusted(certificate, intermediates, error))?;
        verify_server_name(&parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns a more precise error for a certificate chain.
fn untrusted(certificate: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], error: Error) -> Error {
    let is_from_authority = match &error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => false,
        // The usual command for a self-signed certificate creates a CA certificate, which causes a different error.
        Error::InvalidCertificate(CertificateError::Other(_)) => true,
        _ => return error,
    };
    let Ok(first) = EndEntityCert::try_from(certificate) else { return error };
    let is_issuer = |other| EndEntityCert::try_from(other).is_ok_and(|other| other.subject() == first.issuer());
    let chain = if first.issuer() == first.subject() {
        Untrusted::SelfSigned
    } else if is_from_authority || intermediates.iter().any(is_issuer) {
        return error;
    } else {
        Untrusted::Incomplete
    };
    CertificateError::Other(OtherError(Arc::new(chain))).into()
}

/// Why a certificate does not come from a trusted authority.
#[derive(Clone, Copy, Debug)]
enum Untrusted {
    /// The certificate is its own issuer.
    SelfSigned,
    /// The receiver did not send the issuer's certificate.
    Incomplete,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SelfSigned => "The certificate is self-signed",
            Self::Incomplete => {
                "The certificate's issuer is not a public authority, or the receiver does not send the intermediate \
                 certificate"
            }
        })
    }
}

impl error::Error for Untrusted {}

/// A client certificate resolver that presents no certificate, and records that the receiver requested one.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // This fails outside of `noting`, where the result is not needed.
        ASKED.try_with(|asked| asked.set(true)).ok();
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

tokio::task_local! {
    /// Whether the receiver requested a client certificate. This is task-local, because handshakes share a
    /// configuration (so that sessions can be resumed), and the configuration's callbacks do not get the connection.
    static ASKED: Cell<bool>;
}

/// Runs a handshake. Returns its result, and whether the receiver requested a client certificate, for [`explained`].
pub(super) async fn noting<T>(handshake: impl Future<Output = T>) -> (T, bool) {
    let handshake = async {
        let done = handshake.await;
        (done, ASKED.with(Cell::get))
    };
    ASKED.scope(Cell::new(false), handshake).await
}

/// Explains a TLS error. `asked` is whether the receiver requested a client certificate.
pub(super) fn explained(error: &Error, asked: bool) -> Detail {
    const CLIENT_CERTIFICATE: &str = "The receiver requires a client certificate, which deliveries do not present";
    const CIPHERS: &str = "The receiver supports none of the cipher suites, key exchanges and signatures that \
                           deliveries offer";
    const VERSIONS: &str = "The receiver supports neither TLS 1.2 nor TLS 1.3";
    let text = match error {
        Error::InvalidCertificate(error) => return certificate(error),
        Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => CLIENT_CERTIFICATE,
            AlertDescription::HandshakeFailure if asked => CLIENT_CERTIFICATE,
            AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => CIPHERS,
            AlertDescription::ProtocolVersion => VERSIONS,
            AlertDescription::NoApplicationProtocol => HTTP_2,
            AlertDescription::UnrecognisedName => "The receiver has no certificate for this host name",
            alert => return Detail::new(format!("The receiver ended the TLS handshake with the alert {alert:?}")),
        },
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13 | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => VERSIONS,
        Error::PeerIncompatible(_) => CIPHERS,
        Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol) => HTTP_2,
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "The receiver does not speak TLS on this port",
        error => return Detail::new(format!("The TLS handshake failed: {error}")),
    };
    Detail::new(text)
}

fn certificate(error: &CertificateError) -> Detail {
    let at = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(seconds.saturating_mul(1000)).readable()
    };
    Detail::new(match error {
        CertificateError::ExpiredContext { not_after, .. } => format!("The certificate expired on {}", at(not_after)),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("The certificate is not valid before {}", at(not_before))
        }
        CertificateError::NotValidForNameContext { presented, .. } => match presented.as_slice() {
            [] => return Detail::new("The certificate has no subjectAltName, which must contain the host name"),
            names => {
                let first: Vec<_> = names.iter().take(NAMES).map(|name| bare(name)).collect();
                let others = names.len().saturating_sub(NAMES);
                let others = if others > 0 { format!(" and {others} more") } else { String::new() };
                format!("The certificate is not valid for the host name; it is valid for {}{others}", first.join(", "))
            }
        },
        CertificateError::UnknownIssuer => return Detail::new("The certificate was not issued by a public authority"),
        // RSA keys that are too short also cause this error.
        CertificateError::BadSignature => {
            return Detail::new(
                "A signature in the certificate chain is wrong, or an RSA key has fewer than 2048 bits",
            );
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            return Detail::new("The certificate is signed with an algorithm that deliveries do not support");
        }
        CertificateError::Other(OtherError(cause)) => match cause.downcast_ref::<Untrusted>() {
            Some(untrusted) => untrusted.to_string(),
            None => format!("The certificate is invalid: {cause}"),
        },
        error => format!("The certificate is invalid: {error}"),
    })
}

/// Formats a certificate's name, given as `DnsName("a.example")`. Some self-signed certificates contain an IP address
/// as a DNS name. The output points this out, because such a name looks valid.
fn bare(name: &str) -> String {
    let (kind, inner) = name.split_once('(').unwrap_or_default();
    let inner = inner.strip_suffix(')').unwrap_or(name).trim_matches('"');
    let is_address = kind == "DnsName" && inner.parse::<IpAddr>().is_ok();
    if is_address { format!("{inner} as a name, not as an address") } else { inner.to_owned() }
}
