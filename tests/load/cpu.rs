//! Reads CPU time and memory of a process from `/proc`.

use std::fs;
use std::time::Duration;

/// Linux's `USER_HZ`: the unit of the times in `/proc/PID/stat`, 100 on every platform we run on.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time of a process and its ended children, in ticks, and the PID of its parent.
fn own(pid: u32) -> Option<(u64, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may contain spaces and brackets, so fields are counted from the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some((ticks, u32::try_from(number(1)?).ok()?))
}

fn duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// The PID of the parent process.
pub fn parent(pid: u32) -> Option<u32> {
    own(pid).map(|(_, parent)| parent)
}

/// CPU time of one process.
pub fn of(pid: u32) -> Duration {
    own(pid).map_or(Duration::ZERO, |(ticks, _)| duration(ticks))
}

/// CPU time of a process and its children: a PostgreSQL server and its backends.
fn of_family(pid: u32) -> Duration {
    let children: u64 = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(own)
        .filter(|(_, parent)| *parent == pid)
        .map(|(ticks, _)| ticks)
        .sum();
    of(pid) + duration(children)
}

/// The PIDs of the servers of a database: one, or those of a cluster.
pub type Servers = &'static [u32];

/// CPU time of a database's servers and their backends.
pub fn of_database(servers: Servers) -> Duration {
    servers.iter().copied().map(of_family).sum()
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> u64 {
    memory(pid, "VmRSS:")
}

/// The most resident memory since the process began, or since [`forget_peak`], in bytes.
pub fn peak(pid: u32) -> u64 {
    memory(pid, "VmHWM:")
}

/// # Errors
/// When the process has ended.
pub fn forget_peak(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

/// The number of open files and connections.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().count()
}

fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024
}
