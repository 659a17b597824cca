//! A PostgreSQL server up to the end of TLS, with a certificate that rustls can't read.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection};

/// A certificate of X.509 version 1, as several installers of PostgreSQL make it, and its key, which has no other use.
const X509_V1: &[u8] = include_bytes!("x509_v1.pem");

/// Bytes of the message that asks for TLS.
const SSL_REQUEST: usize = 8;

/// Starts the server, which answers every connection until the process ends.
pub fn postgres_with_an_old_certificate() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(X509_V1).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(X509_V1).expect("a key");
    let key = ring::sign::any_supported_type(&key).expect("an ECDSA key");
    // Not checked: rustls does not read its own certificate here.
    let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || serve(config, stream));
        }
    });
    address
}

/// The client ends the connection when it has seen the certificate.
fn serve(config: Arc<ServerConfig>, mut stream: TcpStream) {
    let mut request = [0; SSL_REQUEST];
    if stream.read_exact(&mut request).is_err() || stream.write_all(b"S").is_err() {
        return;
    }
    let Ok(mut connection) = ServerConnection::new(config) else { return };
    let _ = connection.complete_io(&mut stream);
}
