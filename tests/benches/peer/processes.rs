//! The CPU time and the memory of processes and their descendants.

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use tokio::time::sleep;

/// The time without CPU use after which processes are idle, and the time limit for becoming so.
const IDLE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);

/// These processes and their descendants, each with the CPU time in seconds of itself and of its ended children. Linux
/// counts hundredths of a second.
fn with_descendants(roots: &[u32]) -> HashMap<u32, f64> {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut others: Vec<(u32, u32, f64)> = processes.filter_map(process).collect();
    let mut found = HashMap::new();
    loop {
        let before = found.len();
        others.retain(|(process, parent, cpu)| {
            let belongs = roots.contains(process) || found.contains_key(parent);
            if belongs {
                found.insert(*process, *cpu);
            }
            !belongs
        });
        if found.len() == before {
            return found;
        }
    }
}

/// A process with its parent and its CPU time, unless it has ended.
fn process(id: u32) -> Option<(u32, u32, f64)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the program's name in parentheses, and the fourth is the parent. User and system time are the
    // 14th and 15th, and those of ended children are the next two.
    let fields: Vec<f64> = stat.rsplit_once(") ")?.1.split(' ').skip(1).flat_map(str::parse).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a process id is a small number")]
    let parent = fields[0] as u32;
    Some((id, parent, fields[10..14].iter().sum::<f64>() / 100.0))
}

/// The CPU time in seconds that these processes and their descendants have used, once they use no more of it.
pub(crate) async fn cpu_when_idle(roots: &[u32]) -> f64 {
    let cpu = || with_descendants(roots).values().sum::<f64>();
    let (started, mut before) = (Instant::now(), cpu());
    loop {
        sleep(IDLE).await;
        let now = cpu();
        // A timer of an idle process can take one of Linux's hundredths of a second.
        if now - before < 0.015 || started.elapsed() > PATIENCE {
            return now;
        }
        before = now;
    }
}

/// The memory in MiB of these processes and their descendants. A page that several of them share counts once.
pub(crate) fn memory(roots: &[u32]) -> f64 {
    let kib = with_descendants(roots).into_keys().filter_map(|process| {
        let memory = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let pss = memory.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        pss.trim().trim_end_matches(" kB").parse::<f64>().ok()
    });
    kib.sum::<f64>() / 1024.0
}
