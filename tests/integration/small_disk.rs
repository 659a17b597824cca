//! A small file system, to fill.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A file system of 64 MB in memory. Dropping it unmounts it.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None`, which is said, if this process may not mount file systems.
    #[expect(clippy::print_stderr, reason = "a test that could not run says so")]
    pub fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "belvedere-test"])
            .arg(directory.path())
            .output();
        let is_mounted = mount.is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("skipped: mounting a file system is not allowed here");
        }
        is_mounted.then(|| Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }

    /// Fills it, but for some bytes.
    pub fn fill(&self, free: usize) {
        let mut file = File::create(self.filler()).unwrap();
        let zeros = vec![0; 64 * 1024];
        while file.write_all(&zeros).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length - free as u64).unwrap();
    }

    pub fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the server of a failed test may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
