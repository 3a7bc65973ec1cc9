//! Which copy of SQLite has which database file open in this process.
//!
//! POSIX locks belong to the process, and closing any descriptor of a file drops all of them: two copies of SQLite on
//! one file do not see each other's locks and lose each other's commits (sqlite.org, "How To Corrupt An SQLite Database
//! File", section 2.2.1). The hazard belongs to the process, so this register is the one deliberate process-wide state.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// A file, however it is spelled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FileId {
    #[cfg(unix)]
    Inode(u64, u64),
    #[cfg_attr(unix, allow(dead_code, reason = "other systems have no inodes"))]
    Path(PathBuf),
}

impl FileId {
    /// The identity of an existing file; `None` when it is not there.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let found = std::fs::metadata(path).ok()?;
            Some(Self::Inode(found.dev(), found.ino()))
        }
        #[cfg(not(unix))]
        {
            Some(Self::Path(std::fs::canonicalize(path).ok()?))
        }
    }
}

struct Holder {
    api: usize,
    count: usize,
}

static HOLDERS: Mutex<Option<HashMap<FileId, Holder>>> = Mutex::new(None);

/// A file held by one connection; released on drop.
#[derive(Debug)]
pub struct FileClaim(FileId);

impl FileClaim {
    /// Claims the file for a copy of SQLite; `None` when another copy holds it.
    #[must_use]
    pub fn take(file: FileId, api: usize) -> Option<Self> {
        let mut holders = HOLDERS.lock();
        let holder = holders
            .get_or_insert_default()
            .entry(file.clone())
            .or_insert(Holder { api, count: 0 });
        if holder.api != api {
            return None;
        }
        holder.count += 1;
        Some(Self(file))
    }
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        let mut holders = HOLDERS.lock();
        let holders = holders.get_or_insert_default();
        if let Some(holder) = holders.get_mut(&self.0) {
            holder.count -= 1;
            if holder.count == 0 {
                holders.remove(&self.0);
            }
        }
    }
}

/// Which copy holds the file, if any connection known to us does.
#[must_use]
pub fn held_by(file: &FileId) -> Option<usize> {
    HOLDERS.lock().as_ref()?.get(file).map(|holder| holder.api)
}

/// Whether some descriptor of this process stands on the file. Only Linux tells; elsewhere the answer is no.
#[must_use]
pub fn open_in_this_process(file: &FileId) -> bool {
    #[cfg(target_os = "linux")]
    {
        let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
            return false;
        };
        entries
            .flatten()
            .any(|entry| FileId::of(&entry.path()).as_ref() == Some(file))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_copy_is_refused_until_the_first_lets_go() {
        let file = FileId::Path(PathBuf::from("claimed-in-a-test"));
        let first = FileClaim::take(file.clone(), 1).expect("free");
        let again = FileClaim::take(file.clone(), 1).expect("the same copy may hold it twice");
        assert!(FileClaim::take(file.clone(), 2).is_none());
        drop(first);
        assert!(FileClaim::take(file.clone(), 2).is_none());
        drop(again);
        assert_eq!(held_by(&file), None);
        assert!(FileClaim::take(file, 2).is_some());
    }
}
