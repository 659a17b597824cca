//! TLS with a PostgreSQL server whose certificate can't be used.

use belvedere_standins::tls::postgres_with_an_old_certificate;

use crate::store::Db;
use belvedere_web::net::install_tls_provider;

/// Without `sslmode` in the URL.
#[tokio::test]
async fn an_unusable_certificate_is_an_error_that_says_what_to_set() {
    install_tls_provider();
    let address = postgres_with_an_old_certificate();
    let error = Db::open(&format!("postgres://u:p@{address}/db"), 2).await.unwrap_err().to_string();
    assert!(error.starts_with("the database is unavailable: TLS with the server failed: "), "{error}");
    assert!(error.contains("X.509 version 3") && error.contains("?sslmode=disable"), "{error}");
    // The stand-in can't go on without TLS, but what fails then is another thing.
    let error = Db::open(&format!("postgres://u:p@{address}/db?sslmode=disable"), 2).await.unwrap_err();
    assert!(!error.to_string().contains("sslmode"), "{error}");
}
