//! TLS with the certificates that the system trusts.

use std::sync::Arc;

use melisma::{Error, ErrorKind, Result};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Trusts what the system trusts, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
///
/// # Errors
/// The system has no certificates.
pub(super) fn system() -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let (n_trusted, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if n_trusted == 0 {
        return Err(Error::new(ErrorKind::Io, "the system has no certificates to check the upstream's with")
            .with_hint("install the package ca-certificates, or set SSL_CERT_FILE"));
    }
    trusting(roots)
}

/// Trusts `roots`.
pub(super) fn trusting(roots: RootCertStore) -> Result<TlsConnector> {
    let failed = |error| Error::new(ErrorKind::Unsupported, format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions().map_err(failed)?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}
