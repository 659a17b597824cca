//! Replaces the secrets of recorded runs before they are stored.

use memchr::memmem;

use super::masks::VariableMasks;
use super::recorder::UnmaskedRun;
use super::run::RecordedRun;
use crate::scripts::Variables;

/// The text of addresses in spaces. Operators read no records of spaces.
const IN_SPACE: &[u8] = b"/space/";

/// A run without secrets: values of script variables, values of fields, parameters and headers with secret names, tokens. `None` for a run
/// that may have a record of a space, and for one whose secrets can't be replaced, because there are too many or the script variables
/// have changed since.
pub fn mask(unmasked: UnmaskedRun, variables: &Variables) -> Option<RecordedRun> {
    let UnmaskedRun { mut run, secrets, .. } = unmasked;
    let masks = VariableMasks::new(variables);
    let env = masks.env(true);
    let at = memmem::find(&run.globals, env)?;
    drop(run.globals.drain(at..at + env.len()));
    run.env_at = u32::try_from(at).ok()?;
    let parts: Vec<_> = run.parts().collect();
    if parts.iter().any(|part| memmem::find(part, IN_SPACE).is_some()) {
        return None;
    }
    masks.mask_run(parts, secrets).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::recording::run::{RecordedCall, RecordedResult};
    use belvedere_base::clock::Timestamp;

    fn masked(args: &str, variables: &Variables) -> Option<RecordedRun> {
        let mut globals = b"{\"env\":".to_vec();
        Variables::new([("KEY", "a-secret-value"), ("PIN", "7x")]).render(&mut globals);
        globals.extend_from_slice(b",\"q\":\"a-secret-value\"}");
        let call = RecordedCall { name: "db.get".to_owned(), args: args.into(), answer: args.into() };
        let result =
            RecordedResult::Failed { kind: "runtime".to_owned(), message: args.into(), raised: None };
        let run = RecordedRun { globals, calls: vec![call], result, ..RecordedRun::default() };
        let (trigger, at) = ("xrpc.query:a.b.c".into(), Timestamp(0));
        mask(UnmaskedRun { trigger, started_at: at, at, run, secrets: Vec::new() }, variables)
    }

    #[test]
    fn variables_are_taken_out_of_env_and_replaced_elsewhere() {
        let variables = Variables::new([("KEY", "a-secret-value"), ("PIN", "7x")]);
        let run = masked("use a-secret-value", &variables).unwrap();
        assert_eq!(run.globals, b"{\"env\":,\"q\":\"K-EYKEYK-EYKEY\"}");
        assert_eq!(run.with_env(b"{}").unwrap(), b"{\"env\":{},\"q\":\"K-EYKEYK-EYKEY\"}");
        let stored = String::from_utf8_lossy(&run.encode().unwrap()).into_owned();
        assert_eq!(stored.matches("K-EYKEYK-EYKEY").count(), 4, "{stored}");
    }

    #[test]
    fn runs_whose_secrets_are_not_known_are_not_kept() {
        let variables = Variables::new([("KEY", "a-secret-value"), ("PIN", "7x")]);
        assert!(masked("ats://did:plc:a/space/x", &variables).is_none());
        assert!(masked("plain", &variables).is_some());
        assert!(masked("plain", &Variables::new([("KEY", "another-value")])).is_none());
    }
}
