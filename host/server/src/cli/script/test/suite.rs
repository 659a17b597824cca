//! The test files of a folder, and the cases that they list.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures_util::future::{BoxFuture, FutureExt as _, ready};
use serde::Deserialize;

use super::super::super::folder::entries;
use super::super::files::{self, ScriptFile};
use super::super::places::Places;
use super::headers::{self, InvalidHeader};
use super::host::caller;
use belvedere_instance::xrpc::Call;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{
    CallOutcome, CompiledScript, FailureKind, Invocation, Lineage, ScriptFailure, ScriptRegistry,
    ScriptRuntime, Xrpc, XrpcError,
};

/// The folders with test files, and the ending of their names.
const FOLDERS: [&str; 2] = ["test", "tests"];
const EXTENSION: &str = "lua";

/// The library with the globals of test files. The name is reserved.
const GLOBALS: &str = include_str!("../../../../../../guest-lua/test.lua");
const LIBRARY: &str = "belvedere-test";

/// The file that runs before each test file, and the name of its library.
const PREPARATION_FILE: &str = "test/setup.lua";
const PREPARATION: &str = "belvedere-test-setup";

/// Cases of one file: ten times those of a long one.
const MAX_CASES: usize = 1_000;

/// A test file, compiled.
#[derive(Debug)]
pub(super) struct TestFile {
    pub(super) path: PathBuf,
    pub(super) script: CompiledScript,
}

/// A case of a test file.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) file: Arc<TestFile>,
    /// From 1, in the file.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) line: Option<u32>,
}

/// The cases of a folder, and what test files may require.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) cases: Vec<Case>,
    pub(super) libraries: Arc<ScriptRegistry>,
}

/// A test file that lists no cases, with the reason.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) failure: ScriptFailure,
    pub(super) path: PathBuf,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    place: String,
}

/// Compiles the test files of a folder, and lists their cases. `scripts`: those of the folder, of which test files may require
/// the libraries. `places` learns the names of the files.
///
/// # Errors
/// When a file can't be read, or there is none. The inner ones: files that don't load.
pub(super) async fn read(
    dir: &Path,
    scripts: &[ScriptFile],
    runtime: &ScriptRuntime,
    places: &mut Places,
) -> anyhow::Result<(Suite, Vec<Broken>)> {
    let sources = Sources::read(dir, scripts)?;
    if sources.tests.is_empty() {
        bail!(
            "{} has no tests: write some, in a file such as {}",
            dir.display(),
            dir.join("test/first.lua").display()
        );
    }
    let libraries = scripts.iter().filter(|script| script.trigger.kind() == TriggerKind::Library);
    let mut required: Vec<(String, String)> =
        libraries.map(|library| (library.trigger.id().to_owned(), library.source.clone())).collect();
    required.push((library_id(LIBRARY), GLOBALS.to_owned()));
    let mut first_words = format!("require(\"{LIBRARY}\") ");
    if let Some((path, source)) = sources.preparation {
        places.add(&library_id(PREPARATION), &path);
        required.push((library_id(PREPARATION), source));
        first_words = format!("{first_words}require(\"{PREPARATION}\") ");
    }
    let (engine, registry) = (&runtime.engine, Arc::new(ScriptRegistry::new()));
    registry.replace(engine, &required).await;
    let (mut cases, mut broken) = (Vec::new(), Vec::new());
    for (number, (path, source)) in sources.tests.into_iter().enumerate() {
        // On the first line, so that the others keep their numbers.
        let source = format!("{first_words}{source}");
        let name = format!("{}:test{number}", TriggerKind::Setup.as_str());
        let trigger = Trigger::parse(&name).context("a test file has no name")?;
        places.add(&name, &path);
        let script = engine.compile(trigger, &source).await;
        let file = Arc::new(TestFile { path: path.clone(), script });
        match list(&file, runtime, &registry).await {
            Ok(listed) => cases.extend(listed.into_iter().enumerate().map(|(at, Listed { name, place })| {
                let line = place.trim_end_matches(": ").rsplit(':').next().and_then(|line| line.parse().ok());
                Case { file: Arc::clone(&file), number: at + 1, name, line }
            })),
            Err(failure) => broken.push(Broken { failure, path }),
        }
    }
    Ok((Suite { cases, libraries: registry }, broken))
}

/// Whether a folder of scripts has tests.
///
/// # Errors
/// When a file can't be read, or the header of a script is invalid.
pub(super) fn has_tests(dir: &Path, scripts: &[ScriptFile]) -> anyhow::Result<bool> {
    Ok(!Sources::read(dir, scripts)?.tests.is_empty())
}

fn library_id(name: &str) -> String {
    format!("{}:{name}", TriggerKind::Library.as_str())
}

/// The sources of a suite, each with its path.
struct Sources {
    preparation: Option<(PathBuf, String)>,
    /// The test files, and those that the headers of scripts make.
    tests: Vec<(PathBuf, String)>,
}

impl Sources {
    fn read(dir: &Path, scripts: &[ScriptFile]) -> anyhow::Result<Self> {
        let preparation = dir.join(PREPARATION_FILE);
        let mut tests = Vec::new();
        for path in test_files(dir)?.into_iter().filter(|path| *path != preparation) {
            let source = files::read(&path)?;
            tests.push((path, source));
        }
        for script in scripts {
            let test = headers::test_of(script).map_err(|InvalidHeader { line, reason }| {
                anyhow::anyhow!("{}:{line}: {reason}", script.path.display())
            })?;
            tests.extend(test.map(|source| (script.path.clone(), source)));
        }
        let preparation = if preparation.is_file() {
            Some((preparation.clone(), files::read(&preparation)?))
        } else {
            None
        };
        Ok(Self { preparation, tests })
    }
}

async fn list(
    file: &TestFile,
    runtime: &ScriptRuntime,
    libraries: &Arc<ScriptRegistry>,
) -> Result<Vec<Listed>, ScriptFailure> {
    let services =
        runtime.services.clone().with_scripts(Arc::clone(libraries)).with_xrpc(Arc::new(NoMethods));
    let caller = caller();
    let invocation = Invocation { input: Some(b"{}"), caller: Some(&caller), ..Invocation::default() };
    let outcome = runtime.engine.run(&file.script, invocation, &services).await?;
    let listed: Vec<Listed> = serde_json::from_slice(&outcome.body).map_err(|error| {
        ScriptFailure::new(FailureKind::Runtime, format!("handle() was replaced: {error}"))
    })?;
    if listed.len() > MAX_CASES {
        return Err(ScriptFailure::new(
            FailureKind::Limit,
            format!("more than {MAX_CASES} tests in one file"),
        ));
    }
    Ok(listed)
}

/// The methods while the cases are listed.
struct NoMethods;

impl Xrpc for NoMethods {
    fn call(&self, _: Call, _: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>> {
        let text = "given, call and seen are for the functions of test() and before_each()";
        ready(Err(XrpcError::Invalid(text.to_owned()))).boxed()
    }
}

/// The test files of a folder of scripts, at any depth.
fn test_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = dir.join(folder);
        if folder.is_dir() {
            find(&folder, &mut found)?;
        }
    }
    Ok(found)
}

fn find(path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in entries(path)? {
        if entry.is_dir() && !entry.is_symlink() {
            find(&entry, found)?;
        } else if entry.extension().is_some_and(|extension| extension == EXTENSION) {
            found.push(entry);
        }
    }
    Ok(())
}
