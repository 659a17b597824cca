//! Reports which parts of a folder have changed, by looking at it often: this works on every system, also for folders that a
//! container shares, and the few hundred files of an app are looked at in a millisecond.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::folder::entries;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(40);

/// Time for which a folder must stay the same after a change: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(10);

/// Looks at a folder that always changes, after which it is reported nevertheless.
const MAX_LOOKS: usize = 50;

/// Files that are looked at. More are not part of an app.
const MAX_FILES: usize = 10_000;

/// Folders with many files that are not part of an app.
const LEFT_OUT: [&str; 2] = ["node_modules", "target"];

/// The time of the last change and the size of each file.
type State = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The watched folder.
#[derive(Debug)]
pub(super) struct Watch {
    folder: PathBuf,
    state: State,
}

impl Watch {
    pub(super) fn begin(folder: PathBuf) -> Self {
        let state = look(&folder);
        Self { folder, state }
    }

    /// Waits for changes, and returns the paths of the changed files in the folder.
    pub(super) async fn next(&mut self) -> Vec<PathBuf> {
        let mut now = self.look_later(PAUSE).await;
        while now == self.state {
            now = self.look_later(PAUSE).await;
        }
        for _ in 0..MAX_LOOKS {
            let later = self.look_later(QUIET).await;
            let is_quiet = later == now;
            now = later;
            if is_quiet {
                break;
            }
        }
        let before = std::mem::replace(&mut self.state, now);
        let changed = self.state.iter().filter(|(path, file)| before.get(*path) != Some(*file));
        let gone = before.keys().filter(|path| !self.state.contains_key(*path));
        let paths = changed.map(|(path, _)| path).chain(gone);
        paths.filter_map(|path| path.strip_prefix(&self.folder).map(Path::to_owned).ok()).collect()
    }

    async fn look_later(&self, pause: Duration) -> State {
        tokio::time::sleep(pause).await;
        let folder = self.folder.clone();
        // A panic is impossible there; an empty state would only report everything.
        tokio::task::spawn_blocking(move || look(&folder)).await.unwrap_or_default()
    }
}

/// Looks at the files of a folder. Hidden files are left out, and [`LEFT_OUT`].
fn look(folder: &Path) -> State {
    let (mut state, mut folders) = (State::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder).unwrap_or_default() {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_dir() {
                let is_part =
                    !LEFT_OUT.iter().any(|name| path.file_name().is_some_and(|found| found == *name));
                folders.extend(is_part.then_some(path));
            } else if state.len() < MAX_FILES {
                state.insert(path, (metadata.modified().ok(), metadata.len()));
            }
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn written_new_and_deleted_files_are_changes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::create_dir(folder.join("scripts")).unwrap();
        fs::write(folder.join("scripts/a.lua"), "1").unwrap();
        let mut watch = Watch::begin(folder.clone());
        fs::read(folder.join("scripts/a.lua")).unwrap();
        fs::write(folder.join("scripts/a.lua"), "22").unwrap();
        assert_eq!(watch.next().await, [PathBuf::from("scripts/a.lua")]);
        fs::create_dir_all(folder.join("seed/node_modules")).unwrap();
        fs::write(folder.join("seed/node_modules/b.json"), "[]").unwrap();
        fs::write(folder.join("seed/a.json"), "[]").unwrap();
        assert_eq!(watch.next().await, [PathBuf::from("seed/a.json")]);
        fs::remove_file(folder.join("scripts/a.lua")).unwrap();
        assert_eq!(watch.next().await, [PathBuf::from("scripts/a.lua")]);
    }
}
