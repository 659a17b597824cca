//! Settings of the signatures that `atproto.sign` creates.

use clap::Args;

use super::{Problems, Secret, parse};
use belvedere_protocol::atproto::Nsid;

/// A scalar of secp256k1.
const KEY_BYTES: usize = 32;
/// Every signature contains the id, so its length is limited. A DID URL of usual length fits.
const MAX_KEY_ID: usize = 512;

#[derive(Clone, Default, Args)]
#[command(next_help_heading = "Record signatures")]
pub struct AttestationArgs {
    /// secp256k1 key that signs records for scripts, 64 hex digits
    /// [default: generated once, stored encrypted in the database]
    #[arg(
        long = "attestation-private-key",
        env = "ATTESTATION_PRIVATE_KEY",
        global = true,
        value_name = "HEX",
        hide_env_values = true
    )]
    pub private_key: Option<String>,
    /// Id of the key in signatures [default: SERVICE_DID#attestation]
    #[arg(long = "attestation-key-id", env = "ATTESTATION_KEY_ID", global = true, value_name = "DID URL")]
    pub key_id: Option<String>,
    /// `$type` of signatures, an NSID [default: SERVICE_NAMESPACE.attestation]
    #[arg(long = "attestation-sig-type", env = "ATTESTATION_SIG_TYPE", global = true, value_name = "NSID")]
    pub sig_type: Option<String>,
}

impl std::fmt::Debug for AttestationArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttestationArgs").finish_non_exhaustive()
    }
}

/// The given values. The defaults of the others depend on the instance's DID and namespace.
#[derive(Clone, Debug)]
pub struct Attestation {
    pub private_key: Option<Secret<[u8; KEY_BYTES]>>,
    pub key_id: Option<String>,
    pub sig_type: Option<String>,
}

impl AttestationArgs {
    pub(super) fn check(self, problems: &mut Problems) -> Attestation {
        let private_key = parse::text(self.private_key).and_then(|text| {
            let mut key = [0; KEY_BYTES];
            let read = hex::decode_to_slice(text.trim(), &mut key);
            if read.is_err()
                || belvedere_protocol::crypto::PrivateKey::from_bytes(
                    belvedere_protocol::crypto::Algorithm::Es256k,
                    &key,
                )
                .is_err()
            {
                let fix = "generate one with `openssl rand -hex 32`, or leave it unset to have one generated";
                problems.add(
                    "ATTESTATION_PRIVATE_KEY",
                    format!("it is not a secp256k1 key in 64 hex digits; {fix}"),
                );
                return None;
            }
            Some(Secret::new(key))
        });
        let key_id = parse::text(self.key_id);
        if key_id.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID || !id.starts_with("did:")) {
            problems.add(
                "ATTESTATION_KEY_ID",
                "it is not a DID URL like did:web:example.com#attestation".to_owned(),
            );
        }
        let sig_type = parse::text(self.sig_type);
        if let Some(text) = sig_type.as_deref().filter(|text| Nsid::try_from(*text).is_err()) {
            problems.add("ATTESTATION_SIG_TYPE", format!("{text:?} is not an NSID"));
        }
        Attestation { private_key, key_id, sig_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_key_and_reports_problems() {
        let mut problems = Problems::default();
        let args = AttestationArgs {
            private_key: Some("01".repeat(32)),
            key_id: Some("did:web:x.test#a".to_owned()),
            sig_type: Some("com.example.sig".to_owned()),
        };
        let given = args.check(&mut problems);
        assert_eq!(given.private_key.unwrap().reveal(), &[1; 32]);
        assert_eq!(problems, Problems::default());
        for key in ["00".repeat(32), "ff".repeat(32), "01".repeat(31), "zz".repeat(32)] {
            let mut problems = Problems::default();
            let args = AttestationArgs {
                private_key: Some(key.clone()),
                key_id: Some("key".to_owned()),
                sig_type: Some("no".to_owned()),
            };
            args.check(&mut problems);
            assert_eq!(problems.iter().count(), 3, "{key}");
            assert!(!problems.to_string().contains(&key), "a secret is shown");
        }
    }
}
