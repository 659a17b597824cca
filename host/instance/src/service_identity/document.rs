//! Builds the DID document that the instance serves for its did:web.

use serde_json::{Value, json};

use super::{Additions, ServiceIdentity};

/// The document. `origin` is the endpoint of the services.
pub fn document(identity: &ServiceIdentity, origin: &str, more: &Additions) -> Value {
    let (did, current) = (identity.did(), identity.load());
    let signing = current.signing_key.as_ref().map(|key| ("#atproto".to_owned(), key.public()));
    let methods = signing.iter().chain(&current.methods).chain(&more.keys).map(|(fragment, key)| {
        json!({
            "id": format!("{did}{fragment}"),
            "type": "Multikey",
            "controller": did.as_str(),
            "publicKeyMultibase": key.to_multikey(),
        })
    });
    let services = current.services(more).map(
        |(fragment, service_type)| json!({ "id": fragment, "type": service_type, "serviceEndpoint": origin }),
    );
    json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
        "id": did.as_str(),
        "verificationMethod": methods.collect::<Vec<_>>(),
        "service": services.collect::<Vec<_>>(),
    })
}
