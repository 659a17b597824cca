//! Writes files whole: another process sees the old content or the new one, never a part, also after a power failure.
//! They are readable by this user only.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Suffix of the file that [`replace`] writes before it takes the name. One that stays was left by a process that was
/// killed.
pub const TEMPORARY: &str = ".tmp";

/// Creates a folder and its parents, accessible to this user only. Leaves an existing folder as it is.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates an empty file. Fails if there is one.
pub fn create_private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Writes a file or replaces it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}{TEMPORARY}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| publish(&temporary, path));
    if written.is_err() {
        // A disk that is full needs the room; who failed tells of the first error.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Gives a file that was written whole its name, which it replaces. Content and name are durable when this returns.
pub fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    File::open(temporary)?.sync_all()?;
    std::fs::rename(temporary, path)?;
    // Makes the new name durable.
    File::open(folder_of(path))?.sync_all()
}

/// Writes a file unless it exists. If several processes do so at once, one writes the file; the others wait for it and
/// return `false`.
pub fn create_once(path: &Path, content: &[u8]) -> io::Result<bool> {
    let folder = folder_of(path);
    create_private_folder(folder)?;
    // The operating system releases the lock when the process ends, however it ends.
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(".lock"))?;
    lock.lock()?;
    if path.try_exists()? {
        return Ok(false);
    }
    replace(path, content)?;
    Ok(true)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn one_of_many_creates_the_file_and_all_read_it_whole() {
        const THREADS: usize = 8;
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("new/{round}"));
            let start = Barrier::new(THREADS);
            let (path, start) = (&path, &start);
            let wrote: Vec<usize> = std::thread::scope(|scope| {
                let threads = (0..THREADS).map(|n| {
                    scope.spawn(move || {
                        let content = n.to_string().repeat(10_000);
                        start.wait();
                        let created = create_once(path, content.as_bytes()).unwrap();
                        let read = std::fs::read_to_string(path).unwrap();
                        assert_eq!(read.len(), 10_000);
                        assert!(!created || read == content);
                        created
                    })
                });
                let threads: Vec<_> = threads.collect();
                threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).collect()
            });
            assert_eq!(wrote.iter().sum::<usize>(), 1);
        }
        let mode = |path: &str| std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode();
        assert_eq!((mode("new") & 0o777, mode("new/0") & 0o777), (0o700, 0o600));
    }

    #[test]
    fn a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in ["longer", "short"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        let is_folder = folder.path().join("folder");
        std::fs::create_dir(&is_folder).unwrap();
        assert!(replace(&is_folder, b"content").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    }
}
