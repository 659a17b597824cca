//! `belvedere script test`: runs the tests of a folder of scripts on an application in this process, without a network
//! (docs/adr/0156).

mod call;
mod case;
mod change;
mod coverage;
mod databases;
mod given;
mod headers;
mod host;
mod junit;
mod network;
mod plugins;
mod prepare;
mod report;
mod seen;
mod spaces;
mod suite;
mod world;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use clap::Args;
use futures_util::{StreamExt as _, stream};

use super::super::folder::count;
use super::super::{lexicon, print_error, print_stderr};
use super::check::{check_all, report_unknown};
use super::files::{self, ScriptFile};
use super::places::Places;
use crate::app::engine_config;
use crate::cli::{FAILED, NOT_DONE};
use belvedere_instance::config::Config;
use belvedere_scripting::scripts::Engine;

use case::Outcome;
use coverage::Coverage;
use prepare::{Prepared, Shared};
use suite::{Broken, Case};

/// The folder of lexicons in a folder of scripts, unless another is given.
const LEXICONS: &str = "lexicons";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A folder of scripts, with test files in DIR/test
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// A folder of lexicons [default: DIR/lexicons]
    #[arg(long, value_name = "DIR")]
    lexicons: Option<PathBuf>,
    /// Run only tests whose name or file has this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Also write the outcomes as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print which lines of scripts the tests ran, and write them to FILE in the format of lcov
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    coverage: Option<String>,
    /// Tests that run at the same time [default: one for each processor]
    #[arg(long, value_name = "NUMBER")]
    parallel: Option<u16>,
    /// Run on a PostgreSQL server, in databases that are made for the tests and dropped after them: their names begin with belvedere_test_
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Print the tests that passed, too
    #[arg(long)]
    show_passed: bool,
}

/// Runs the tests.
pub(super) async fn run(options: &Options, config: &Config) -> ExitCode {
    match Box::pin(test(options, config)).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            print_error(&format_args!("{error:#}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

/// Whether the tests of an app's scripts pass, if it has any.
///
/// # Errors
/// When they can't run.
pub(in crate::cli) async fn passes(
    dir: &Path,
    lexicons: Option<&Path>,
    config: &Config,
) -> anyhow::Result<bool> {
    if !suite::has_tests(dir, &files::read_folder(dir)?.scripts)? {
        return Ok(true);
    }
    let options = Options {
        dir: dir.to_owned(),
        lexicons: lexicons.map(Path::to_owned),
        filter: None,
        junit: None,
        coverage: None,
        parallel: None,
        database: None,
        show_passed: false,
    };
    Box::pin(test(&options, config)).await
}

/// Whether all tests passed.
///
/// # Errors
/// When they can't run.
async fn test(options: &Options, config: &Config) -> anyhow::Result<bool> {
    let folder = files::read_folder(&options.dir)?;
    let unknown = report_unknown(&folder);
    let scripts = folder.scripts;
    let engine = Engine::open(engine_config(config)).await?;
    let broken = check_all(&scripts, &[], &engine).await?;
    if broken + unknown > 0 {
        bail!("the server would refuse {}, so nothing was tested", count(broken + unknown, "file"));
    }
    let lexicons = match &options.lexicons {
        Some(dir) => lexicon::read_folder(dir)?,
        None if options.dir.join(LEXICONS).is_dir() => lexicon::read_folder(&options.dir.join(LEXICONS))?,
        None => Some(Vec::new()),
    };
    let Some(lexicons) = lexicons else { bail!("lexicons are invalid, so nothing was tested") };

    let mut places = Places::default();
    for script in &scripts {
        places.add(script.trigger.id(), &script.path);
    }
    let coverage = options.coverage.as_ref().map(|_| Arc::<Coverage>::default());
    let shared = Shared { engine, coverage: coverage.clone() };
    let prepared = Prepared::new((&scripts, &lexicons), shared, options.database.as_deref(), &places);
    let prepared = Arc::new(Box::pin(prepared).await?);
    let ended = Box::pin(run_cases(options, &prepared, &scripts, places)).await;
    // However they ended: databases on a server stay otherwise.
    prepared.finish().await;
    let passed = ended?;
    if let (Some(coverage), Some(file)) = (coverage, &options.coverage) {
        let file = Some(Path::new(file)).filter(|file| !file.as_os_str().is_empty());
        coverage.report(&scripts, file)?;
    }
    Ok(passed)
}

/// Lists the cases and runs those that are chosen. Returns whether all passed.
///
/// # Errors
/// When they can't run.
async fn run_cases(
    options: &Options,
    prepared: &Arc<Prepared>,
    scripts: &[ScriptFile],
    mut places: Places,
) -> anyhow::Result<bool> {
    let started = Instant::now();
    let world = prepared.next(0).await?;
    let read = suite::read(&options.dir, scripts, &world.app.scripting.runtime, &mut places).await;
    prepared.end(world, 0).await;
    let (suite, broken) = read?;
    for Broken { failure, path } in &broken {
        let message = places.replace(&failure.message);
        let shown = path.display().to_string();
        let has_place = message.starts_with(&shown);
        print_stderr(&if has_place { message } else { format!("{shown}: {message}") });
    }
    if !broken.is_empty() {
        bail!("{} can't be read, so nothing was tested", count(broken.len(), "test file"));
    }

    let (suite, places) = (Arc::new(suite), Arc::new(places));
    let chosen: Vec<usize> = (0..suite.cases.len()).filter(|at| options.chooses(&suite.cases[*at])).collect();
    if chosen.is_empty() {
        bail!("there is no test to run");
    }
    let outcomes = stream::iter(chosen.iter().copied()).map(|at| {
        let (suite, prepared, places) = (Arc::clone(&suite), Arc::clone(prepared), Arc::clone(&places));
        let ran = async move { case::run(&suite.cases[at], at + 1, &suite, &prepared, &places).await };
        async move { (at, tokio::spawn(ran).await) }
    });
    let mut outcomes = outcomes.buffered(options.at_once());
    let mut ended: Vec<(&Case, Outcome)> = Vec::with_capacity(chosen.len());
    while let Some((at, outcome)) = outcomes.next().await {
        let (case, outcome) = (&suite.cases[at], outcome?);
        match &outcome.failed {
            Some(failed) => report::failure(case, failed),
            None if options.show_passed => report::passed(case, &outcome),
            None => {}
        }
        ended.push((case, outcome));
    }
    let failed = ended.iter().filter(|(_, outcome)| outcome.failed.is_some()).count();
    if let Some(path) = &options.junit {
        junit::write(path, &ended, started.elapsed())?;
    }
    report::summary(ended.len() - failed, failed, &options.dir, started.elapsed());
    Ok(failed == 0)
}

impl Options {
    fn chooses(&self, case: &Case) -> bool {
        let has =
            |text: &str| case.name.contains(text) || case.file.path.display().to_string().contains(text);
        self.filter.as_deref().is_none_or(has)
    }

    fn at_once(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.parallel.map_or_else(cores, usize::from).max(1)
    }
}
