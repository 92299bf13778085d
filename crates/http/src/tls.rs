//! Certificate and key from files.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// What connections by TLS need; those to come may get another one.
#[derive(Clone, Debug)]
pub struct Tls(Arc<RwLock<Arc<rustls::ServerConfig>>>);

impl Tls {
    /// With this configuration, until another is set.
    pub fn new(config: Arc<rustls::ServerConfig>) -> Self {
        Tls(Arc::new(RwLock::new(config)))
    }

    pub(crate) fn now(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// For connections from now on.
    pub fn replace(&self, config: Arc<rustls::ServerConfig>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

/// What a connection by TLS needs.
///
/// # Errors
/// One line: which file, and what is wrong with it.
pub fn config(certificate: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>, String> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("{}: {error}", certificate.display()))?;
    if chain.is_empty() {
        return Err(format!("{}: contains no PEM certificate", certificate.display()));
    }
    let pem = transect_access::read_secret(key).map_err(|error| error.to_string())?;
    let secret = PrivateKeyDer::from_pem_slice(&pem);
    let secret = secret.map_err(|error| format!("{}: {error}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = versions.with_no_client_auth().with_single_cert(chain, secret);
    let config = config.map_err(|error| format!("{}: {error}", certificate.display()))?;
    Ok(Arc::new(config))
}
