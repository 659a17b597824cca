//! Reads how much memory the machine has, and how much the process may use of it.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder in which control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The machine's memory in bytes; `None` on systems without `/proc`.
pub(super) fn total() -> Option<u64> {
    total_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The smallest limit of the control groups that the process is in: its own and those above it.
pub(super) fn limit_of_container() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    limit_files(&groups).into_iter().filter_map(read).min()
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The files that may have a limit, for the text of `/proc/self/cgroup`. In a container the path there can be the host's, and
/// the limit is at the root.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = if controllers.is_empty() {
            (CGROUPS.to_owned(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (format!("{CGROUPS}/memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(&root).join(group).join(name)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_a_group_and_those_above_it_count() {
        let names = |text: &str| -> Vec<_> {
            limit_files(text).iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(
            names("0::/system.slice/belvedere.service\n"),
            [
                "/sys/fs/cgroup/system.slice/belvedere.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        let v1 = "12:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n";
        assert_eq!(
            names(v1),
            [
                "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
        assert_eq!(names("0::/"), ["/sys/fs/cgroup/memory.max"]);
    }

    #[test]
    fn the_machine_has_what_the_kernel_reports() {
        assert_eq!(total_of("MemTotal:         500000 kB\nMemFree: 1 kB\n"), Some(512_000_000));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert!(total().is_none_or(|bytes| bytes > 1 << 20));
    }
}
