//! Servers with TLS: one for https, and a PostgreSQL server up to the end of TLS, with a certificate that rustls can't read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate of X.509 version 1, as several installers of PostgreSQL make it, and its key, which has no other use.
const X509_V1: &[u8] = include_bytes!("x509_v1.pem");

/// A certificate for 127.0.0.1 that is its own issuer, and its key, which has no other use.
const HTTPS: &[u8] = include_bytes!("https.pem");

/// The file with the certificate of [`https`]: a program that trusts it has its path in `SSL_CERT_FILE`.
pub const HTTPS_CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/https.pem");

/// Bytes of the message that asks for TLS.
const SSL_REQUEST: usize = 8;

/// Starts the server, which answers every connection until the process ends.
pub fn postgres_with_an_old_certificate() -> SocketAddr {
    let config = config(X509_V1);
    listen(move |stream| end_tls(Arc::clone(&config), stream))
}

/// Starts a server for https, which answers each GET with the JSON that `answer` returns for its path, or with 404.
pub fn https(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> SocketAddr {
    let config = config(HTTPS);
    listen(move |stream| {
        let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else { return };
        let mut stream = BufReader::new(StreamOwned::new(connection, stream));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(stream.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body) = answer(path).map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        let stream = stream.get_mut();
        let _ = stream.write_all((head + &body).as_bytes());
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

fn config(pem: &[u8]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(pem).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(pem).expect("a key");
    let key = ring::sign::any_supported_type(&key).expect("an ECDSA key");
    // Not checked: rustls does not read its own certificate here.
    let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    Arc::new(config)
}

/// Serves every connection on a thread of its own.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// The client ends the connection when it has seen the certificate.
fn end_tls(config: Arc<ServerConfig>, mut stream: TcpStream) {
    let mut request = [0; SSL_REQUEST];
    if stream.read_exact(&mut request).is_err() || stream.write_all(b"S").is_err() {
        return;
    }
    let Ok(mut connection) = ServerConnection::new(config) else { return };
    let _ = connection.complete_io(&mut stream);
}
