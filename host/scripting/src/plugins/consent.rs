//! The permissions that a plugin gets: those that an operator accepted.

use super::manifest::{Grants, Manifest, Permission, Risk};

/// The reason why the grants of a plugin can't be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentError {
    /// An operator has to accept or deny these.
    Required(Vec<Permission>),
    /// An accepted permission that the plugin does not ask for.
    NotRequested(Permission),
}

/// The decision about an earlier version.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    pub requested: Vec<Permission>,
    pub granted: Vec<Permission>,
}

/// The permissions that a plugin asks for: those of its manifest, and those that its imports need and that have no
/// parameters.
pub fn requested(manifest: &Manifest, imports: &[&str]) -> Vec<Permission> {
    let mut requested = Vec::new();
    let implied = [
        ("secrets", Permission::ReadSecrets),
        ("kv", Permission::KeepValues),
        ("attest", Permission::SignRecords),
    ];
    let implied = implied.into_iter().filter(|(import, _)| imports.contains(import)).map(|(_, one)| one);
    for permission in manifest.permissions.iter().cloned().chain(implied) {
        if !requested.contains(&permission) {
            requested.push(permission);
        }
    }
    requested
}

/// Decides the grants of a new plugin (`before` is `None`) or of a new version.
///
/// Without a list of accepted permissions, those of low risk are granted. With one, exactly the accepted ones are granted
/// to a new plugin; of a new version, they are added to what was granted before.
///
/// # Errors
/// [`ConsentError::Required`] when something of more than low risk was neither accepted nor decided before.
pub fn decide(
    requested: &[Permission],
    accepted: Option<&[Permission]>,
    before: Option<&Decided>,
) -> Result<Grants, ConsentError> {
    if let Some(stray) = accepted.unwrap_or_default().iter().find(|given| !requested.contains(given)) {
        return Err(ConsentError::NotRequested(stray.clone()));
    }
    let none = Decided::default();
    let before = before.unwrap_or(&none);
    let is_in = |known: &[Permission], one: &Permission| known.iter().any(|other| other.covers(one));
    let undecided: Vec<&Permission> = requested.iter().filter(|one| !is_in(&before.requested, one)).collect();
    if accepted.is_none() && undecided.iter().any(|one| one.risk() > Risk::Low) {
        return Err(ConsentError::Required(undecided.into_iter().cloned().collect()));
    }
    let is_granted = |one: &&Permission| {
        let by_default = accepted.is_none() && undecided.contains(one);
        by_default || accepted.is_some_and(|given| given.contains(one)) || is_in(&before.granted, one)
    };
    Ok(Grants::new(requested.iter().filter(is_granted).cloned().collect()))
}

/// The grants of a plugin whose both files the configuration names: everything that it asks for, but the unrestricted
/// network only if the configuration says so.
pub fn of_configured(requested: &[Permission], unrestricted: bool) -> Grants {
    let is_granted = |one: &&Permission| unrestricted || **one != Permission::UnrestrictedNetwork;
    Grants::new(requested.iter().filter(is_granted).cloned().collect())
}

/// The grants of a plugin without consent.
pub fn of_low_risk(requested: &[Permission]) -> Grants {
    Grants::new(requested.iter().filter(|one| one.risk() == Risk::Low).cloned().collect())
}

/// The first import of a module that needs a permission which was not granted: its name, and what to do.
pub fn missing(imports: &[&str], requested: &[Permission], grants: &Grants) -> Option<String> {
    let permits = |import: &str, permission: &Permission| match import {
        "http" => matches!(permission, Permission::Network { .. } | Permission::UnrestrictedNetwork),
        "secrets" => *permission == Permission::ReadSecrets,
        "kv" => *permission == Permission::KeepValues,
        "lookup" => matches!(permission, Permission::FindRecords(_)),
        "attest" => *permission == Permission::SignRecords,
        _ => true,
    };
    let always = |import: &str| matches!(import, "log" | "clock");
    let import = imports
        .iter()
        .find(|import| !always(import) && !grants.iter().any(|granted| permits(import, granted)))?;
    let able: Vec<String> =
        requested.iter().filter(|one| permits(import, one)).map(ToString::to_string).collect();
    Some(if able.is_empty() {
        format!("the module imports {import}, but its manifest asks for no permission that {import} needs")
    } else {
        format!("the module imports {import}, which needs one of these permissions: {}", able.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(texts: &[&str]) -> Vec<Permission> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    const API: &str = "network:request?host=api.x.test";
    const GET_API: &str = "network:request?host=api.x.test&method=GET";
    const WRITE: &str = "records:write?collection=com.example.note";

    fn texts(grants: &Grants) -> Vec<String> {
        grants.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_plugin_gets_what_was_accepted() {
        let asked = permissions(&[API, WRITE, "kv:use"]);
        assert_eq!(decide(&asked, None, None), Err(ConsentError::Required(asked.clone())));
        let granted = decide(&asked, Some(&permissions(&[API])), None).unwrap();
        assert_eq!(texts(&granted), [API], "what is absent is denied, also of low risk");
        assert_eq!(texts(&decide(&asked, Some(&[]), None).unwrap()), [""; 0]);
        let low = permissions(&["kv:use", "secrets:read"]);
        assert_eq!(texts(&decide(&low, None, None).unwrap()), ["kv:use", "secrets:read"]);
        let stray = permissions(&["attest:sign"]);
        assert_eq!(decide(&asked, Some(&stray), None), Err(ConsentError::NotRequested(stray[0].clone())));
    }

    #[test]
    fn a_new_version_needs_consent_for_what_is_new() {
        let before = Decided { requested: permissions(&[GET_API, WRITE]), granted: permissions(&[GET_API]) };
        let granted = decide(&permissions(&[GET_API, WRITE, "kv:use"]), None, Some(&before)).unwrap();
        assert_eq!(texts(&granted), [GET_API, "kv:use"], "what was denied stays so");
        // More methods are more.
        let more = permissions(&[API, WRITE]);
        let needed = ConsentError::Required(permissions(&[API]));
        assert_eq!(decide(&more, None, Some(&before)), Err(needed));
        let granted = decide(&more, Some(&permissions(&[API])), Some(&before)).unwrap();
        assert_eq!(texts(&granted), [API]);
        // Fewer are not.
        let before = Decided { requested: permissions(&[API]), granted: permissions(&[API]) };
        assert_eq!(texts(&decide(&permissions(&[GET_API]), None, Some(&before)).unwrap()), [GET_API]);
        assert_eq!(texts(&decide(&[], None, Some(&before)).unwrap()), [""; 0]);
    }

    #[test]
    fn the_configuration_grants_all_but_the_unrestricted_network() {
        let asked = permissions(&[API, "network:request:unrestricted", "attest:sign"]);
        assert_eq!(texts(&of_configured(&asked, false)), [API, "attest:sign"]);
        assert_eq!(of_configured(&asked, true), Grants::new(asked));
        assert_eq!(texts(&of_low_risk(&permissions(&[API, "kv:use", WRITE]))), ["kv:use"]);
    }

    #[test]
    fn an_import_needs_its_permission() {
        let asked = permissions(&[API, "kv:use"]);
        let grants = Grants::new(permissions(&["kv:use"]));
        assert_eq!(missing(&["log", "clock", "kv"], &asked, &grants), None);
        let text = missing(&["http"], &asked, &grants).unwrap();
        assert!(text.contains("imports http") && text.contains(API), "{text}");
        let text = missing(&["lookup"], &asked, &grants).unwrap();
        assert!(text.contains("manifest asks for no permission"), "{text}");
        for import in ["secrets", "attest", "lookup", "http"] {
            assert!(missing(&[import], &asked, &grants).is_some(), "{import}");
        }
    }
}
