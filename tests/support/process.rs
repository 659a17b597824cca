//! Runs the real binary in a separate process with its own folder, as an operator does.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// Number of lines of the log that a failing test prints.
const LOG_LINES: usize = 60;

/// Names another binary than this build's, for a comparison of the two. The server does not read it.
pub const BINARY: &str = "BELVEDERE_BINARY";

/// The server's process, running or not. Dropping it kills the process.
pub struct Process {
    pub address: SocketAddr,
    environment: Vec<(&'static str, String)>,
    child: Option<Child>,
    directory: TempDir,
}

impl Process {
    /// Does not start the server yet. The address stays the same over restarts, since it is part of the server's DID.
    /// `more` overrides the variables set here; `{port}` in a value is the port.
    pub fn new(more: &[(&'static str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory is created");
        let data = directory.path().join("data");
        share_guest(&data);
        let address = free_address();
        let mut environment = vec![
            ("DATA_DIR", data.display().to_string()),
            ("HOST", address.ip().to_string()),
            ("PORT", address.port().to_string()),
            ("PUBLIC_URL", format!("http://{address}")),
            // Tests poll often. Tests of rate limits create an API client with a small bucket.
            ("DEFAULT_RATE_LIMIT_CAPACITY", "1000000".to_owned()),
        ];
        let port = address.port().to_string();
        environment.extend(more.iter().map(|(name, value)| (*name, value.replace("{port}", &port))));
        Self { address, environment, child: None, directory }
    }

    /// Starts the server without waiting until it is ready.
    pub fn spawn(&mut self) {
        self.spawn_command(&["serve"]);
    }

    /// Starts another command that runs until it is stopped.
    pub fn spawn_command(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "the server runs already");
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("the log can be written");
        let stdout = log.try_clone().expect("the file handle is cloned");
        let child = self.command().args(arguments).stdout(stdout).stderr(log).spawn();
        self.child = Some(child.expect("the binary starts"));
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// The status with which the process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("the status of a child process can be read")
    }

    /// Sends SIGKILL if the process runs, and waits for it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends SIGTERM, as `docker stop` and systemd do. Does not wait.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        let (name, pid) = (format!("-{name}"), self.pid().to_string());
        assert!(Command::new("kill").args([name, pid]).status().expect("kill runs").success());
    }

    /// Waits until the process has ended. Returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.take()?.wait().ok()?.code()
    }

    /// Runs `belvedere ARGUMENTS` with this server's configuration.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().expect("the binary runs")
    }

    /// Creates an admin API key on the command line, for a DID that need not exist.
    pub fn create_key(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["admin", "create-key", "--unchecked"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let key = text.split_whitespace().find(|word| word.starts_with("bva_"));
        key.unwrap_or_else(|| panic!("no key: {text}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
    }

    fn command(&self) -> Command {
        let other = self.environment.iter().find(|(name, _)| *name == BINARY);
        let binary = other.map_or(env!("CARGO_BIN_EXE_belvedere"), |(_, path)| path);
        let mut command = Command::new(binary);
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // Not the repository, whose .env must not be read.
            .current_dir(self.directory())
            .stdin(Stdio::null());
        command
    }

    /// The folder in which the server runs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn log_path(&self) -> PathBuf {
        self.directory().join("log")
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "a failing test prints the server's log")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
            eprintln!("the end of the server's log:\n{}", end.join("\n"));
        }
    }
}

/// A loopback address with a port that is free at present, for a server that binds it later, also after restarts. The
/// port is below the kernel's ephemeral ports, so that no connection takes it in the meantime. Tests run concurrently
/// as separate processes, so each process starts searching at a different port.
pub fn free_address() -> SocketAddr {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 20_000;
    const PER_PROCESS: u32 = 16;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let n = std::process::id().wrapping_mul(PER_PROCESS) + TRIED.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + n % PORTS).expect("a port has 16 bits");
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().expect("a bound socket has an address");
        }
    }
}

/// Makes all servers of a test run share one compiled script guest, since compiling it takes seconds. It is stored
/// under a hash of its sources, so it is never stale.
fn share_guest(data: &Path) {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    std::fs::create_dir_all(&shared).expect("the target directory can be written");
    std::fs::create_dir_all(data).expect("the temporary directory can be written");
    std::os::unix::fs::symlink(shared, data.join("cache")).expect("the data directory is empty");
}
