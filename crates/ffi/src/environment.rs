//! Sets variables of this process's own environment, for libraries that read their settings from
//! there.
//! Not those of child processes: `Command` sets these.

use std::ffi::OsStr;

/// Sets a variable. Only while this process has one thread, or when the variable is already there:
/// see the comment within.
pub fn set(name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
    // SAFETY: with one thread nobody else reads. Later it only replaces a variable that is there: glibc
    // then swaps one pointer of the array and never frees the old text (stdlib/setenv.c, __add_to_environ),
    // so a reader in another thread sees the old text or the new one.
    unsafe { std::env::set_var(name, value) }
}
